"""Periodic windows: tumbling and sliding, over time, counts, any measure that grows, and the calendar."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from millpond.windowing.calendar import Calendar
from millpond.windowing.grids import Grid, Regular
from millpond.windowing.kinds import (
    NOTHING,
    Bounds,
    Length,
    Measure,
    Moment,
    Quiet,
    Step,
    backwards,
    bad_window,
    function,
    length,
    timed,
    whole,
)

TIME = "time"
COUNT = "count"


@dataclass(frozen=True, slots=True)
class Periodic:
    """Windows at the points of a grid over time, over the number of records, or over a measure of the record.

    If it is `joining`, there may have been records before the first that it sees: windows begin behind that one.
    """

    grid: Grid
    measure: str | Measure
    joining: bool = False

    @property
    def needs_time(self) -> bool:
        """Whether records must have a time."""
        return self.measure == TIME

    def start(self) -> PeriodicRun:
        """Begin to work on a stream."""
        return PeriodicRun(self)

    def describe(self) -> str:
        """The grid and what it lies over."""
        return f"{self.grid} over {self.measure if isinstance(self.measure, str) else 'a measure'}"


class PeriodicRun:
    """Knows the numbers of the windows that are open: from `_oldest` up to, not including, `_next`."""

    def __init__(self, window: Periodic) -> None:
        self._window = window
        self._grid = window.grid
        self._oldest = 0
        self._next: int | None = 0 if window.measure == COUNT else None
        self._last: Any = None
        self._base: int | None = None  # The position of the first record, from which records are counted.

    def on_record(self, moment: Moment) -> Step:
        """End what lies before the record's point, and begin what has begun there and is not over yet."""
        point = self._point(moment)
        ended = self._end(point)
        newest = self._grid.newest(point)
        if self._next is None and self._window.joining:
            self._oldest = self._next = newest + 1
        elif self._next is None or newest >= self._next:
            first = self._grid.oldest(point)
            first = first if self._next is None else max(first, self._next)
            begun = newest + 1 - first
            if begun > 0:
                if self._next is None or self._oldest == self._next:
                    self._oldest = first
                self._next = newest + 1
                return Step(ended, begun)
        return Step(ended) if ended else NOTHING

    def on_time(self, now: int) -> tuple[Bounds, ...]:
        """End what is over; only windows over time look at the clock."""
        return self._end(now) if self._window.measure == TIME else ()

    def filled(self, position: int) -> tuple[Bounds, ...]:
        """End what has all its records; only windows over records can know."""
        counts = self._window.measure == COUNT and self._base is not None
        return self._end(position - (self._base or 0)) if counts else ()

    def on_mark(self, mark: Any) -> tuple[Bounds, ...]:  # noqa: ARG002
        """Nothing ends at a punctuation."""
        return ()

    def quiet_until(self) -> Quiet | None:
        """Until the next window begins or the oldest ends, if that can be told without the record."""
        measure = self._window.measure
        if self._next is None or measure not in {TIME, COUNT} or (measure == COUNT and self._base is None):
            return None
        point = self._grid.begin(self._next)
        if self._oldest < self._next:
            point = min(point, self._grid.end(self._oldest))
        return (TIME, point) if measure == TIME else ("position", point + (self._base or 0))

    def ends_at(self) -> int | None:
        """When the oldest window ends, if it lies over time."""
        if self._window.measure != TIME or self._next is None or self._oldest >= self._next:
            return None
        return int(self._grid.end(self._oldest))

    def export(self) -> list[Any]:
        """The open windows' numbers, the last point, and the first record's position."""
        return [self._oldest, self._next, self._last, self._base]

    def restore(self, state: Any) -> None:
        """Take up a state that was exported."""
        self._oldest, self._next, self._last, self._base = state

    def _end(self, point: Any) -> tuple[Bounds, ...]:
        ended: list[Bounds] = []
        while self._next is not None and self._oldest < self._next and self._grid.end(self._oldest) <= point:
            ended.append((self._grid.begin(self._oldest), self._grid.end(self._oldest)))
            self._oldest += 1
        return tuple(ended)

    def _point(self, moment: Moment) -> Any:
        measure = self._window.measure
        if measure == COUNT:
            self._base = moment.position if self._base is None else self._base
            return moment.position - self._base
        if isinstance(measure, str):
            return timed(moment)  # The discretiser has seen to the order of times.
        point = measure(moment.record)
        if not (point >= self._last if self._last is not None else point == point):  # noqa: PLR0124 - NaN has no place
            raise backwards("measure", self._last, point)
        self._last = point
        return point


def tumbling(size: Length, *, origin: Length = 0) -> Periodic:
    """Windows over time that touch and do not overlap; lengths are timedeltas or microseconds."""
    return sliding(size, size, origin=origin)


def sliding(range: Length, slide: Length, *, origin: Length = 0) -> Periodic:  # noqa: A002
    """Windows over time of one range, one beginning every slide; lengths are timedeltas or microseconds."""
    for what, value in (("range", range), ("slide", slide), ("origin", origin)):
        if isinstance(value, bool) or not isinstance(value, int | timedelta):
            raise bad_window(f"a timedelta or whole microseconds as {what}", repr(value)[:60])
    begin = origin // timedelta(microseconds=1) if isinstance(origin, timedelta) else origin
    return Periodic(Regular(length(range, "range"), length(slide, "slide"), begin), TIME)


def count_tumbling(size: int) -> Periodic:
    """Windows of so many records."""
    return count_sliding(size, size)


def count_sliding(range: int, slide: int) -> Periodic:  # noqa: A002
    """Windows of `range` records, one beginning every `slide` records; the first begins with the first record."""
    return Periodic(Regular(whole(range, "range"), whole(slide, "slide")), COUNT)


def measured(measure: Measure, range: Length, slide: Length | None = None, *, origin: Length = 0) -> Periodic:  # noqa: A002
    """Windows over something that grows from record to record: an odometer, an energy meter, a sequence number."""
    function(measure, "measure")
    wide = length(range, "range")
    return Periodic(Regular(wide, wide if slide is None else length(slide, "slide"), origin), measure)


def days(zone: str, *, span: int = 1, every: int | None = None) -> Periodic:
    """Days of a time zone; `span` days in one window, one window every `every` days."""
    return Periodic(Calendar("day", zone, span if every is None else every, span), TIME)


def weeks(zone: str, *, span: int = 1, every: int | None = None) -> Periodic:
    """Weeks of a time zone, from Monday to Sunday."""
    return Periodic(Calendar("week", zone, span if every is None else every, span), TIME)


def months(zone: str, *, span: int = 1, every: int | None = None) -> Periodic:
    """Months of a time zone; a year is 12 of them."""
    return Periodic(Calendar("month", zone, span if every is None else every, span), TIME)
