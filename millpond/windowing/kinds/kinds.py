"""What a window description is: something that says, record by record, how many windows begin and which end.

A window includes the record it begins with and excludes the one it ends before. The windows of one description end in
the order in which they began (first in, first out). A description is frozen; `start()` gives the part that runs, whose
whole state is a plain value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from millpond.errors import WindowError
from millpond.lengths import MICROSECOND, Length, length_us
from millpond.spelling import check_unit

Bounds = tuple[Any, Any]
"""Where a window begins and ends, the end not included, in its own measure: microseconds, records, metres."""

Extent = Length | int | float
"""A length in the measure of a window."""

Measure = Callable[[Any], int | float]

_ZERO = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_TIME = (datetime.min.replace(tzinfo=UTC) - _ZERO) // MICROSECOND
LAST_TIME = (datetime.max.replace(tzinfo=UTC) - _ZERO) // MICROSECOND
"""The first and the last moment that programs can have, in microseconds; the last one is the end of time."""

SPAN_MAX = 2**61
"""The longest window over time, in microseconds: its edges fit 64 bits wherever it lies."""


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

    def calm(self, times: Sequence[int], first: int, last: int) -> int:  # noqa: ARG002
        """No record is known to do nothing."""
        return first

    def pass_over(self, time: int) -> None:
        """Nothing to note of records that do nothing."""

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

    def calm(self, times: Sequence[int], first: int, last: int) -> int:
        """Of the next records, from `first` up to `last` among some times, the first that may end or begin something.

        Asked only of a description that is never quiet.
        """
        ...

    def pass_over(self, time: int) -> None:
        """Note that records up to a time came, which end and begin nothing."""
        ...

    def ends_at(self) -> int | None:
        """Return the first time at which `on_time` ends a window, if no record comes; None if there is none."""
        ...

    def export(self) -> Any:
        """Return the whole state as a plain value."""
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
        """Return the description as text; a state is restored only under the same text."""
        ...


def span(value: Length, what: str) -> int:
    """Check a length of time, and return it in microseconds."""
    number = shift(value, what)
    if number < 1:
        raise bad_window(f"a {what} above zero", repr(value)[:60])
    return number


def shift(value: Length, what: str) -> int:
    """Check a distance in time, which may lie before zero, and return it in microseconds."""
    check_unit(value, what)
    number = length_us(value, what, bad_window, least=None)
    if abs(number) > SPAN_MAX:
        raise bad_window(f"a {what} of at most 2**61 microseconds", repr(value)[:60])
    return number


def extent(value: Extent, what: str) -> Any:
    """Check a length over any measure; one of time becomes microseconds."""
    number = value if isinstance(value, int | float) else length_us(value, what, bad_window, least=None)
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


def described(window: Any) -> str:
    """Return a window in words; something else as it is."""
    return str(window.describe()) if hasattr(window, "describe") else repr(window)[:60]


def backwards(what: str, last: Any, found: Any) -> WindowError:
    """Return the error for a time that does not grow."""
    return WindowError(
        "MP618",
        f"the {what} of a record is before that of an earlier one",
        expected=f"at least {last!r}",
        found=repr(found)[:60],
        hint="sort the records by it, or hold late ones back, before they are added",
    )


def no_place(expected: str, found: Any) -> WindowError:
    """Return the error for a record that can't be put into windows."""
    return WindowError(
        "MP609",
        "a record has no place in these windows",
        expected=expected,
        found=str(found)[:60],
        hint="leave such records out, or correct their time or their measure before they are added",
    )


def check_told(begin: int, end: int) -> None:
    """Refuse a window whose bounds are no moments: programs see moments, and those end with the year 9999."""
    if begin < FIRST_TIME or end > LAST_TIME:
        edge = "begins before the year 1" if begin < FIRST_TIME else "ends after the year 9999"
        raise no_place("times whose windows begin and end in the years 1 to 9999", f"a time whose window {edge}")


def timed(moment: Moment) -> int:
    """Return the time of a record, which must have one."""
    if type(moment.time) is not int:
        raise no_time(moment.time)
    return moment.time


def no_time(found: Any) -> WindowError:
    """Return the error for a record whose time is none."""
    return WindowError(
        "MP619",
        "a window over time met a record without a time",
        expected="microseconds since 1970 as an int",
        found=repr(found)[:60],
        hint="give it: `add(record, time)`",
    )
