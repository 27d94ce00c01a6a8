"""Windows that a user's function cuts: deterministic ones by begins and ends, others record by record."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from operator import index
from typing import Any

from millpond.errors import WindowError
from millpond.windowing.kinds.kinds import Attentive, Bounds, Moment, Span, Step, function, span, whole

Cut = Callable[[Any, Moment], tuple[int, int, Any]]
"""From the function's own state and a record: how many windows begin with it, how many end before it, the new state."""

View = Callable[[Any, Moment, int], tuple[int, bool, Any]]
"""From its own state, a record and the length of the view: how many of the oldest leave, if it is emitted, state."""


@dataclass(frozen=True, slots=True)
class UserDefined:
    """Windows whose begins and ends a function counts; bounds are numbers of records.

    If it is `lenient`, what can't end does not: so it is where a record can't be refused any more.
    """

    cut: Cut
    initial: Any
    needs_time: bool = False
    lenient: bool = False

    def start(self) -> UserDefinedRun:
        """Begin to work on a stream."""
        return UserDefinedRun(self)

    def describe(self) -> str:
        """All that can be told of a function."""
        return "user-defined windows"


class UserDefinedRun(Attentive):
    """Knows where the open windows began, and the function's own state."""

    def __init__(self, window: UserDefined) -> None:
        self._cut = window.cut
        self._lenient = window.lenient
        self._state = window.initial
        self._open: deque[int] = deque()

    def on_record(self, moment: Moment) -> Step:
        """Ask the function."""
        begun, ended, state = asked_cut(self._cut, self._state, moment)
        if self._lenient:
            begun, ended = max(begun, 0), min(max(ended, 0), len(self._open))
        if not 0 <= ended <= len(self._open) or begun < 0:
            raise WindowError(
                "MP621",
                "a window function ends windows that are not open, or begins less than none",
                expected=f"at most {len(self._open)} to end, at least 0 to begin",
                found=f"{ended} to end, {begun} to begin",
                hint="a window ends before a record that comes after its first: guard the end by the number of begins",
            )
        self._state = state
        bounds = tuple((self._open.popleft(), moment.position) for _ in range(ended))
        self._open.extend([moment.position] * begun)
        return Step(bounds, begun)

    def on_time(self, now: int) -> tuple[Bounds, ...]:  # noqa: ARG002
        """Only records are shown to the function."""
        return ()

    def on_mark(self, mark: Any) -> tuple[Bounds, ...]:  # noqa: ARG002
        """Only records are shown to the function."""
        return ()

    def export(self) -> list[Any]:
        """Where the open windows began, and the function's state."""
        return [list(self._open), self._state]

    def restore(self, state: Any) -> None:
        """Take up a state that was exported."""
        positions, self._state = state
        self._open = deque(positions)


@dataclass(frozen=True, slots=True)
class Viewed:
    """A view of the newest records, emitted when a function says so: its begin is known only when it is emitted.

    If it is `lenient`, no more records leave it than it holds, whatever the function says.
    """

    view: View
    initial: Any
    needs_time: bool = False
    text: str = "a view of records"
    lenient: bool = False

    def describe(self) -> str:
        """All that is known of it, which is little if the function is the user's."""
        return self.text


def asked_cut(cut: Cut, state: Any, moment: Moment) -> tuple[int, int, Any]:
    """What a function says of a record, if it is an answer."""
    answer: Any = cut(state, moment)
    try:
        begun, ended, following = answer
        return index(begun), index(ended), following
    except (TypeError, ValueError) as error:
        raise WindowError(
            "MP621",
            "a window function does not return what it must",
            expected="how many windows begin with the record, how many end before it, and the new state",
            found=repr(answer)[:60],
            hint="return (0, 0, state) where nothing begins and nothing ends",
        ) from error


def asked_view(view: View, state: Any, moment: Moment, held: int) -> tuple[int, bool, Any]:
    """What a view says of a record, if it is an answer."""
    answer: Any = view(state, moment, held)
    try:
        leaving, emit, following = answer
        return index(leaving), bool(emit), following
    except (TypeError, ValueError) as error:
        raise WindowError(
            "MP626",
            "a view does not return what it must",
            expected="how many of the oldest records leave, whether the rest is emitted, and the new state",
            found=repr(answer)[:60],
            hint="return (0, False, state) where nothing leaves and nothing is emitted",
        ) from error


def user_defined(cut: Cut, initial: Any = None) -> UserDefined:
    """Windows by a function: `cut(state, moment)` gives how many begin with the record, how many end before it, and its
    new state. The state is a plain value and is not changed in place.

    >>> def pairs(_state, moment):
    ...     return int(moment.position % 2 == 0), int(moment.position % 2 == 0 and moment.position > 0), None
    >>> windows = user_defined(pairs)
    """
    function(cut, "cut")
    return UserDefined(cut, initial)


def viewed(view: View, initial: Any = None) -> Viewed:
    """Windows whose begin is not known ahead, e.g. the last 10 records every 5 seconds.

    `view(state, moment, held)` is asked before the record is added: how many of the oldest `held` records leave the
    view, whether the rest is emitted now, and its new state. Each record is a slice of its own, so this is the dear
    way.
    """
    function(view, "view")
    return Viewed(view, initial)


def last_every(records: int, every: Span) -> Viewed:
    """The last so many records, emitted with the first record of every `every` that follow."""
    many, every_us = whole(records, "number of records"), span(every, "time between two views")

    def view(due: int | None, moment: Moment, held: int) -> tuple[int, bool, int | None]:
        now = moment.time or 0
        following = now - now % every_us + every_us
        return max(0, held - many), due is not None and now >= due, following if due is None or now >= due else due

    return Viewed(view, None, needs_time=True, text=f"the last {many} records every {every_us}")
