"""What a window description is: something that says, record by record, how many windows begin and which end.

A window includes the record it begins with and excludes the one it ends before. The windows of one description end in
the order in which they began (first in, first out). A description is frozen; `start()` gives the part that runs, whose
whole state is a plain value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from millpond.errors import WindowError

Bounds = tuple[Any, Any]
"""Where a window begins and ends, the end not included, in its own measure: microseconds, records, metres."""

Length = int | float | timedelta
Measure = Callable[[Any], int | float]

MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Moment:
    """A record as window descriptions see it: with its time in microseconds, if it has one, and its number."""

    record: Any
    time: int | None
    position: int


@dataclass(frozen=True, slots=True)
class Step:
    """What a record does to windows: those that end before it, oldest first, and how many begin with it."""

    ended: tuple[Bounds, ...] = ()
    begun: int = 0


NOTHING = Step()


Quiet = tuple[str, Any]
"""`position` or `time`, and the point up to which a description need not be asked."""


class Attentive:
    """A description that wants to see every record."""

    def quiet_until(self) -> Quiet | None:
        """Never."""
        return None

    def ends_at(self) -> int | None:
        """Never by time alone."""
        return None

    def filled(self, position: int) -> tuple[Bounds, ...]:  # noqa: ARG002
        """No window knows how many records it has."""
        return ()


class Windowing(Protocol):
    """A description at work on one stream."""

    def on_record(self, moment: Moment) -> Step:
        """Tell what a record ends and begins."""
        ...

    def on_time(self, now: int) -> tuple[Bounds, ...]:
        """Tell what ends because no record before `now` will come."""
        ...

    def filled(self, position: int) -> tuple[Bounds, ...]:
        """Tell what has all its records, when `position` is the number of the next one."""
        ...

    def on_mark(self, mark: Any) -> tuple[Bounds, ...]:
        """Tell what ends at a punctuation that stands between records."""
        ...

    def quiet_until(self) -> Quiet | None:
        """Before which position or time no record ends or begins anything; None if every record must be shown."""
        ...

    def ends_at(self) -> int | None:
        """The first time at which `on_time` ends a window, if no record comes; None if there is none."""
        ...

    def export(self) -> Any:
        """The whole state as a plain value."""
        ...

    def restore(self, state: Any) -> None:
        """Take up a state that was exported."""
        ...


class Window(Protocol):
    """A description of windows."""

    @property
    def needs_time(self) -> bool:
        """Whether records must have a time."""
        ...

    def start(self) -> Windowing:
        """Begin to work on a stream."""
        ...

    def describe(self) -> str:
        """The description as text; a state is restored only under the same text."""
        ...


def length(value: Length, what: str) -> Any:
    """Check a length; a timedelta becomes whole microseconds."""
    number = value // MICROSECOND if isinstance(value, timedelta) else value
    if type(number) not in {int, float} or not 0 < number < float("inf"):
        raise bad_window(f"a {what} above zero", repr(value)[:60])
    return number


def whole(value: int, what: str) -> int:
    """Check a number of records."""
    if type(value) is not int or value < 1:
        raise bad_window(f"a {what} of at least 1 record", repr(value)[:60])
    return value


def function(value: Callable[..., Any] | None, what: str) -> None:
    """Check that something can be called."""
    if not callable(value):
        raise bad_window(f"a function as `{what}`", repr(value)[:60])


def bad_window(expected: str, found: str) -> WindowError:
    """Return the error for a description that makes no sense."""
    return WindowError(
        "MP617",
        "this can't be a window",
        expected=expected,
        found=found,
        hint="see docs/WINDOWS.md, Which window do I need",
    )


def backwards(what: str, last: Any, found: Any) -> WindowError:
    """Return the error for a measure that does not grow."""
    return WindowError(
        "MP618",
        f"the {what} of a record is before that of an earlier one",
        expected=f"at least {last!r}",
        found=repr(found)[:60],
        hint="sort the records by it, or hold late ones back, before they are added",
    )


def timed(moment: Moment) -> int:
    """The time of a record, which must have one."""
    if type(moment.time) is not int:
        raise WindowError(
            "MP619",
            "a window over time met a record without a time",
            expected="microseconds since 1970 as an int",
            found=repr(moment.time)[:60],
            hint="give it: `add(record, time)`",
        )
    return moment.time
