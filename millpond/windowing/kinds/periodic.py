"""Periodic windows: tumbling and sliding, over time, counts, any measure that grows, and the calendar.

>>> hourly = sliding("1 hour", "30 minutes")
>>> hourly.describe()
'Regular(range=3600000000, slide=1800000000, origin=0) over time'
>>> run = count_tumbling(2).start()
>>> [run.on_record(Moment("record", None, position)).begun for position in range(4)]
[1, 0, 1, 0]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

from millpond.lengths import Length, length_us
from millpond.windowing.kinds.calendar import Calendar
from millpond.windowing.kinds.grids import Grid, Regular
from millpond.windowing.kinds.kinds import (
    NOTHING,
    Attentive,
    Bounds,
    Extent,
    Measure,
    Moment,
    Quiet,
    Step,
    bad_window,
    extent,
    function,
    no_place,
    shift,
    span,
    timed,
    whole,
)

TIME = "time"
COUNT = "count"

NO_TIME = timedelta()

MEASURE_MAX = 2**62
"""The largest measure: the numbers of its windows fit 64 bits."""

STEPS_MAX = 2**50
"""So many slides from zero a float still tells quarters of a slide apart."""


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
        """Return the grid and what it lies over."""
        return f"{self.grid} over {self.measure if isinstance(self.measure, str) else 'a measure'}"

    def placing(self) -> Callable[[Any], int | float]:
        """Return the function that reads the measure of a record, and refuses what windows can't be placed by."""
        measure, limit = self.measure, _limit(self.grid)
        assert callable(measure)

        def place(record: Any) -> int | float:
            found = measure(record)
            point = found if type(found) is int or type(found) is float else _number(found)
            if point is None or not -limit <= point <= limit:
                raise no_place(f"numbers between {-limit} and {limit} as measure", repr(found))
            return point

        return place


class PeriodicRun(Attentive):
    """Knows the numbers of the windows that are open: from `_oldest` up to, not including, `_next`."""

    def __init__(self, window: Periodic) -> None:
        self._window = window
        self._grid = window.grid
        self._oldest = 0
        self._next: int | None = 0 if window.measure == COUNT else None
        self._last: Any = None
        self._base: int | None = None  # The position of the first record, from which records are counted.
        self._place = window.placing() if callable(window.measure) else None

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
        """Until the next window begins or the oldest ends, if that is known without the record."""
        measure = self._window.measure
        if self._next is None or measure not in {TIME, COUNT} or (measure == COUNT and self._base is None):
            return None
        point = self._grid.begin(self._next)
        if self._oldest < self._next:
            point = min(point, self._grid.end(self._oldest))
        return (TIME, point) if measure == TIME else ("position", point + (self._base or 0))

    def ends_at(self) -> int | None:
        """Return when the oldest window ends, if it lies over time."""
        if self._window.measure != TIME or self._next is None or self._oldest >= self._next:
            return None
        return int(self._grid.end(self._oldest))

    def export(self) -> list[Any]:
        """Return the open windows' numbers, the last point, and the first record's position."""
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
        if self._place is not None:
            point = self._place(moment.record)
            # A measure that goes back stands still: whether it does shows only in order, when no record can be refused.
            self._last = point if self._last is None or point > self._last else self._last
            return self._last
        if self._window.measure == COUNT:
            self._base = moment.position if self._base is None else self._base
            return moment.position - self._base
        return timed(moment)  # The discretiser has seen to the order of times.


def tumbling(size: Length, *, origin: Length = NO_TIME) -> Periodic:
    """Make windows over time that touch and do not overlap: `tumbling("1 hour")`."""
    return sliding(size, size, origin=origin)


def sliding(range: Length, slide: Length, *, origin: Length = NO_TIME) -> Periodic:  # noqa: A002
    """Make windows over time of one range, one beginning every slide: `sliding("1 hour", "5 minutes")`."""
    return Periodic(Regular(span(range, "range"), span(slide, "slide"), shift(origin, "origin")), TIME)


def count_tumbling(size: int) -> Periodic:
    """Make windows of so many records."""
    return count_sliding(size, size)


def count_sliding(range: int, slide: int) -> Periodic:  # noqa: A002
    """Make windows of `range` records, one beginning every `slide` records; the first begins with the first record."""
    return Periodic(Regular(whole(range, "range"), whole(slide, "slide")), COUNT)


def measured(measure: Measure, range: Extent, slide: Extent | None = None, *, origin: Extent = 0) -> Periodic:  # noqa: A002
    """Make windows over something that grows from record to record: an odometer, an energy meter, a sequence number.

    A record whose measure lies before that of an earlier one counts at the highest so far.
    """
    function(measure, "measure")
    wide = extent(range, "range")
    begin = origin if isinstance(origin, int | float) else length_us(origin, "origin", bad_window, least=None)
    grid = Regular(wide, wide if slide is None else extent(slide, "slide"), begin)
    if type(begin) not in {int, float} or not -_limit(grid) <= begin <= _limit(grid):
        raise bad_window("a number as origin, not too far from zero for the slide", repr(origin)[:60])
    return Periodic(grid, measure)


def days(zone: str, *, span: int = 1, every: int | None = None) -> Periodic:
    """Make days of a time zone; `span` days in one window, one window every `every` days."""
    return Periodic(Calendar("day", zone, span if every is None else every, span), TIME)


def weeks(zone: str, *, span: int = 1, every: int | None = None) -> Periodic:
    """Make weeks of a time zone, from Monday to Sunday."""
    return Periodic(Calendar("week", zone, span if every is None else every, span), TIME)


def months(zone: str, *, span: int = 1, every: int | None = None) -> Periodic:
    """Make months of a time zone; a year is 12 of them."""
    return Periodic(Calendar("month", zone, span if every is None else every, span), TIME)


def _limit(grid: Grid) -> int | float:
    """Return how far from zero a measure may be: windows that floats are part of must be told apart by them."""
    assert isinstance(grid, Regular)
    lengths = (grid.range, grid.slide)
    if all(type(part) is int for part in (*lengths, grid.origin)):
        return MEASURE_MAX
    kept_apart: int | float = min(MEASURE_MAX, STEPS_MAX * min(lengths))
    return kept_apart


def _number(found: Any) -> int | float | None:
    """Return a number of another type as an int or a float; None for what is no number."""
    if isinstance(found, Integral):
        return int(found)
    if not isinstance(found, Real | Decimal) or not math.isfinite(found):
        return None
    return int(found) if isinstance(found, Decimal) and found == int(found) else float(found)
