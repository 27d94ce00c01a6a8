"""Days, weeks and months of a time zone: windows of 23, 24 and 25 hours where clocks are changed.

A unit begins at the first moment that its first midnight has on the zone's clock, so units follow each other without
gap or overlap, whatever clocks do at midnight. Before the year 1 and after 9999, where Python has no dates, the
calendar goes on as it was 400 years later or earlier: in 400 years dates, weekdays and the rules of clocks come back.

>>> days = Calendar("day", "Europe/Berlin")
>>> forward = days.newest(int(datetime(2024, 3, 31, 12, tzinfo=UTC).timestamp()) * 1_000_000)
>>> (days.end(forward) - days.begin(forward)) // 3_600_000_000  # hours of the day on which clocks go forward
23
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

from millpond.errors import WindowError
from millpond.lengths import MICROSECOND
from millpond.windowing.kinds.grids import Ints
from millpond.windowing.kinds.kinds import bad_window

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNITS = ("day", "week", "month")
MONDAY_BEFORE_1970 = date(1969, 12, 29).toordinal()
DAY_US = timedelta(days=1) // MICROSECOND
FIRST_DAY = date(2, 1, 1).toordinal()
LAST_DAY = date(9998, 12, 31).toordinal()
"""Python's dates end soon before and after."""
CYCLE_DAYS = 146_097
"""The days of 400 years."""
CYCLE_MONTHS = 4_800
EDGES_MAX = 4_096
"""So many units in a row are worked out for a batch of times; if they are spread farther, those of their days."""
MARGIN_DAYS = 2
"""A zone's clock is less than a day off, so a date guessed from UTC is less than this off."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """Windows of `span` units, one beginning every `every` units; unit 0 holds 1970-01-01."""

    unit: str
    zone: str
    every: int = 1
    span: int = 1
    _zone: ZoneInfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise bad_window(f"a unit of {', '.join(UNITS)}", repr(self.unit)[:60])
        for what, value in (("every", self.every), ("span", self.span)):
            if type(value) is not int or value < 1:
                raise bad_window(f"a whole number of units as `{what}`, at least 1", repr(value)[:60])
        if self.span % self.every:
            raise bad_window("a `span` that is a multiple of `every`", f"{self.span} and {self.every}")
        object.__setattr__(self, "_zone", _load(self.zone))

    def begin(self, number: int) -> int:
        """Return the first microsecond of a window."""
        return _edge(self.unit, self._zone, number * self.every)

    def end(self, number: int) -> int:
        """Return the first microsecond after a window."""
        return _edge(self.unit, self._zone, number * self.every + self.span)

    def newest(self, point: int) -> int:
        """Return the largest number of a window that has begun at a time."""
        number = _unit_of(self.unit, _day(point) - MARGIN_DAYS) // self.every
        while self.begin(number + 1) <= point:
            number += 1
        return number

    def oldest(self, point: int) -> int:
        """Return the smallest number of a window that has not ended at a time."""
        number = self.newest(point) - self.whole
        while self.end(number) <= point:
            number += 1
        return number

    @property
    def whole(self) -> int:
        """How many slices a window has."""
        return self.span // self.every

    @property
    def rest(self) -> bool:
        """No window ends inside a slice."""
        return False

    def slices(self, times: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return the slices of times; none lies behind an end."""
        behind = np.zeros(len(times), np.bool_)
        if not len(times):
            return times.astype(np.int64), behind
        low, high = self.newest(int(times.min())), self.newest(int(times.max()))
        near = range(low, high + 1) if high - low < EDGES_MAX else self._numbers_near(times)
        numbers = np.array(near, np.int64)
        edges = np.array([self.begin(number) for number in near], np.int64)
        return numbers[np.searchsorted(edges, times, side="right") - 1], behind

    def begins(self, numbers: Ints) -> Ints:
        """Return the begins of windows."""
        return self._points(numbers, 0)

    def ends(self, numbers: Ints) -> Ints:
        """Return the ends of windows."""
        return self._points(numbers, self.span)

    def _numbers_near(self, times: Ints) -> list[int]:
        """Return the windows that have begun last on some day of these times, sorted."""
        days = np.unique(times // DAY_US).tolist()
        ends = ((self.newest(day * DAY_US), self.newest((day + 1) * DAY_US - 1)) for day in days)
        return sorted({number for low, high in ends for number in range(low, high + 1)})

    def _points(self, numbers: Ints, later: int) -> Ints:
        unique, place = np.unique(numbers, return_inverse=True)
        edges = [_edge(self.unit, self._zone, int(number) * self.every + later) for number in unique]
        return np.array(edges, np.int64)[place]


def _load(zone: str) -> ZoneInfo:
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
        raise WindowError(
            "MP620",
            "this time zone is not known here",
            expected="a name of the IANA time zone database, e.g. Europe/Berlin",
            found=f"{zone!r} ({type(error).__name__})",
            hint="check the spelling; a machine without the database needs the package tzdata",
        ) from error


def _day(point: int) -> int:
    return point // DAY_US + EPOCH.toordinal()


def _cycles(day: int) -> int:
    """Return how many times 400 years lie between a day and one that Python has a date for, with a year around it."""
    if FIRST_DAY <= day <= LAST_DAY:
        return 0
    return (day - FIRST_DAY) // CYCLE_DAYS if day < FIRST_DAY else (day - LAST_DAY - 1) // CYCLE_DAYS + 1


def _unit_of(unit: str, day: int) -> int:
    if unit == "day":
        return day - EPOCH.toordinal()
    if unit == "week":
        return (day - MONDAY_BEFORE_1970) // 7
    cycles = _cycles(day)
    found = date.fromordinal(day - cycles * CYCLE_DAYS)
    return (found.year - 1970) * 12 + found.month - 1 + cycles * CYCLE_MONTHS


@lru_cache(maxsize=65_536)
def _edge(unit: str, zone: ZoneInfo, number: int) -> int:
    if unit == "month":
        cycles, month = divmod(number, CYCLE_MONTHS)
        day = date(1970 + month // 12, month % 12 + 1, 1).toordinal() + cycles * CYCLE_DAYS
    else:
        day = EPOCH.toordinal() + number if unit == "day" else MONDAY_BEFORE_1970 + number * 7
    cycles = _cycles(day)
    first = date.fromordinal(day - cycles * CYCLE_DAYS)
    # Fold 0: the first of two midnights.
    midnight = datetime(first.year, first.month, first.day, tzinfo=zone)
    earliest, latest = ((midnight.replace(fold=fold) - EPOCH) // MICROSECOND for fold in (1, 0))
    if earliest < latest:
        latest = _forward(zone, earliest, latest)
    return latest + cycles * CYCLE_DAYS * DAY_US


def _forward(zone: ZoneInfo, before: int, after: int) -> int:
    """Return the moment at which clocks are put forward over a midnight: a day without one begins then."""
    late = _offset(zone, after)
    while after - before > 1:
        middle = (before + after) // 2
        before, after = (before, middle) if _offset(zone, middle) == late else (middle, after)
    return after


def _offset(zone: ZoneInfo, point: int) -> timedelta | None:
    return (EPOCH + point * MICROSECOND).astimezone(zone).utcoffset()
