"""Windows that a user's function cuts: deterministic ones by begins and ends, others record by record."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import index
from typing import Any

from millpond.errors import WindowError
from millpond.lengths import Length
from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.kinds.kinds import Attentive, Bounds, Moment, Step, function, span, timed, whole
from millpond.windowing.stores.counters import Counters
from millpond.windowing.stores.flatfat import FlatFat

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
        """Say all that is known of a function."""
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
        """Return where the open windows began, and the function's state."""
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
        """Return all that is known of it, which is little if the function is the user's."""
        return self.text


def asked_cut(cut: Cut, state: Any, moment: Moment) -> tuple[int, int, Any]:
    """Return what a function says of a record, if it is an answer."""
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
    """Return what a view says of a record, if it is an answer."""
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
    """Cut by a function: `cut(state, moment)` gives how many windows begin with the record, how many end before it, and
    its new state. The state is a plain value and is not changed in place.

    >>> def pairs(_state, moment):
    ...     return int(moment.position % 2 == 0), int(moment.position % 2 == 0 and moment.position > 0), None
    >>> windows = user_defined(pairs)
    """
    function(cut, "cut")
    return UserDefined(cut, initial)


def viewed(view: View, initial: Any = None) -> Viewed:
    """Make windows whose begin is not known ahead, e.g. the last 10 records every 5 seconds.

    `view(state, moment, held)` is asked before the record is added: how many of the oldest `held` records leave the
    view, whether the rest is emitted now, and its new state. Each record is a slice of its own, so this is the dear
    way.
    """
    function(view, "view")
    return Viewed(view, initial)


def last_every(records: int, every: Length) -> Viewed:
    """Make views of the last so many records, emitted with the first record of every `every` that follow."""
    many, every_us = whole(records, "number of records"), span(every, "time between two views")

    def view(due: int | None, moment: Moment, held: int) -> tuple[int, bool, int | None]:
        now = moment.time or 0
        following = now - now % every_us + every_us
        return max(0, held - many), due is not None and now >= due, following if due is None or now >= due else due

    return Viewed(view, None, needs_time=True, text=f"the last {many} records every {every_us}")


class Views:
    """All views of a stream over one tree of records; it holds nothing while there are none."""

    def __init__(self, aggregate: Aggregate, counters: Counters) -> None:
        self._aggregate = aggregate
        self._records = FlatFat(aggregate, counters)
        self._views: dict[str, Viewed] = {}
        self._heads: dict[str, int] = {}
        self._states: dict[str, Any] = {}

    def add_query(self, name: str, view: Viewed, position: int) -> None:
        """Add a view that begins with the next record."""
        self._views[name] = view
        self._heads[name] = position
        self._states[name] = view.initial

    @property
    def asks(self) -> bool:
        """Whether there are views, which are asked about every record."""
        return bool(self._views)

    def holds(self, name: str) -> bool:
        """Say whether there is a view of this name."""
        return name in self._views

    def remove_query(self, name: str) -> bool:
        """Remove a view; False if there is none of this name."""
        if name not in self._views:
            return False
        del self._views[name], self._heads[name], self._states[name]
        self._purge()
        return True

    def add(self, moment: Moment) -> list[tuple[str, Bounds, Any]]:
        """Ask all views about a record, then add it; the views that are emitted, with their bounds."""
        if not self._views:
            return []
        emitted: list[tuple[str, Bounds, Any]] = []
        for name, view in self._views.items():
            if view.needs_time:
                timed(moment)
            held = moment.position - self._heads[name]
            leaving, emit, state = asked_view(view.view, self._states[name], moment, held)
            leaving = min(max(leaving, 0), held) if view.lenient else leaving
            if not 0 <= leaving <= held:
                raise WindowError(
                    "MP626",
                    "a view evicts more records than it holds",
                    expected=f"between 0 and {held}",
                    found=repr(leaving)[:60],
                    hint="it is given the number of records it holds",
                )
            self._states[name] = state
            self._heads[name] += leaving
            if emit and leaving < held:
                value = self._aggregate.result(self._records.lookup(self._heads[name] - 1))
                emitted.append((name, (self._heads[name], moment.position), value))
        self._purge()
        self._records.add(moment.position, self._aggregate.lift(moment.record))
        return emitted

    def export(self) -> dict[str, Any]:
        """Return heads and states of views, and their records in their places: floats are added in that order."""
        return {
            "views": {name: [self._heads[name], self._states[name]] for name in self._views},
            "records": list(self._records.slices()),
            "layout": self._records.layout(),
        }

    def restore(self, state: Mapping[str, Any], position: int) -> None:
        """Take up a state that was exported; new views begin with the next record."""
        for name in self._views:
            self._heads[name], self._states[name] = state["views"].get(name, [position, self._views[name].initial])
        self._records.arrange(state["records"], state["layout"])
        self._purge()

    def _purge(self) -> None:
        if self._views:
            self._records.purge(min(self._heads.values()) - 1)
        else:
            self._records.purge(2**63)
