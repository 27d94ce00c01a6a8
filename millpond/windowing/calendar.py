"""Days, weeks and months of a time zone: windows of 23, 24 and 25 hours where clocks are changed.

A unit begins at the first moment that its first midnight has on the zone's clock, so units follow each other without
gap or overlap, whatever clocks do at midnight.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

from millpond.errors import WindowError
from millpond.windowing.grids import Ints
from millpond.windowing.kinds import MICROSECOND, bad_window

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNITS = ("day", "week", "month")
MONDAY_BEFORE_1970 = date(1969, 12, 29).toordinal()
DAY_US = timedelta(days=1) // MICROSECOND
FIRST_DAY = date(100, 1, 1).toordinal()
LAST_DAY = date(9900, 1, 1).toordinal()
"""Python's dates end soon after; a watermark may lie at the end of time. What lies beyond belongs to these days."""
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
        """The first microsecond of a window."""
        return _edge(self.unit, self._zone, number * self.every)

    def end(self, number: int) -> int:
        """The first microsecond after a window."""
        return _edge(self.unit, self._zone, number * self.every + self.span)

    def newest(self, point: int) -> int:
        """The largest number of a window that has begun at a time."""
        point = min(max(point, (FIRST_DAY - EPOCH.toordinal()) * DAY_US), (LAST_DAY - EPOCH.toordinal()) * DAY_US)
        number = _unit_of(self.unit, _day(point) - MARGIN_DAYS) // self.every
        while self.begin(number + 1) <= point:
            number += 1
        return number

    def oldest(self, point: int) -> int:
        """The smallest number of a window that has not ended at a time."""
        point = min(point, (LAST_DAY - EPOCH.toordinal()) * DAY_US)
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
        """The slices of times; none lies behind an end."""
        behind = np.zeros(len(times), np.bool_)
        if not len(times):
            return times.astype(np.int64), behind
        low, high = self.newest(int(times.min())), self.newest(int(times.max()))
        edges = np.array([self.begin(number) for number in range(low, high + 1)], np.int64)
        return low + np.searchsorted(edges, times, side="right") - 1, behind

    def begins(self, numbers: Ints) -> Ints:
        """The begins of windows."""
        return self._points(numbers, 0)

    def ends(self, numbers: Ints) -> Ints:
        """The ends of windows."""
        return self._points(numbers, self.span)

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
    days = point // DAY_US + EPOCH.toordinal()
    return min(max(days, FIRST_DAY), LAST_DAY)


def _unit_of(unit: str, day: int) -> int:
    if unit == "day":
        return day - EPOCH.toordinal()
    if unit == "week":
        return (day - MONDAY_BEFORE_1970) // 7
    found = date.fromordinal(day)
    return (found.year - 1970) * 12 + found.month - 1


@lru_cache(maxsize=65_536)
def _edge(unit: str, zone: ZoneInfo, number: int) -> int:
    if unit == "month":
        first = date(1970 + number // 12, number % 12 + 1, 1)
    else:
        origin = EPOCH.toordinal() if unit == "day" else MONDAY_BEFORE_1970
        first = date.fromordinal(origin + number * (1 if unit == "day" else 7))
    # Fold 0: the first of two midnights. A midnight that is skipped counts as the moment when clocks are put forward.
    midnight = datetime(first.year, first.month, first.day, tzinfo=zone)
    return (midnight - EPOCH) // MICROSECOND
