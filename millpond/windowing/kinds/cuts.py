"""Where periodic windows cut time into slices: at every point where some window begins or ends.

Rows of one batch lie in few slices. What a slice is follows from the windows alone, so it is worked out once, and rows
look it up.

>>> cuts = Cuts({"long": Regular(10, 10), "short": Regular(4, 4)}, {})
>>> cuts.place(9)  # its slice begins with a short window, and the long one ends first
(8, 10)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Final

import numpy as np

from millpond.windowing.kinds.grids import Ints, Regular, SlicedGrid, windows_of
from millpond.windowing.kinds.kinds import LAST_TIME, check_told

SLICES_MAX: Final = 1024
"""So many slices are remembered; a stream whose rows are spread over more begins anew."""

NEVER_US: Final = 2**63 - 1
"""The end of windows that a time does not lie in, in columns."""

FAR_US: Final = 2**54
"""Five hundred years: nearer to 1970, no sum of a time and a length comes near the ends of calendars and of 64 bits."""

Place = tuple[int, int | None]
"""Where a slice begins, and where the first window that holds it ends; None if it lies in none."""


class Cuts:
    """The slices of some grids; of a grid with a first window, those before it do not count.

    A time in a window whose bounds are no moments has no place (MP609). The end of time has one, though nothing is
    emitted of it: what handlers add when event time has ended is added there.
    """

    def __init__(self, grids: Mapping[str, SlicedGrid], first: Mapping[str, int]) -> None:
        self._grids = [(grid, first.get(name)) for name, grid in grids.items()]
        self._begins: list[int] = []
        self._known: list[tuple[int, Place]] = []

    def place(self, time: int) -> Place:
        """Return the slice of a time."""
        at = bisect_right(self._begins, time) - 1
        if at >= 0:
            until, place = self._known[at]
            if time < until:
                return place
        return self._learn(time)

    def begin(self, time: int) -> int:
        """Return where the slice of a time begins: the last point at which some window begins or ends."""
        return self.place(time)[0]

    def last(self, time: int) -> int:
        """Return the last point up to a time at which some window begins or ends."""
        begins = [grid.begin(grid.newest(time)) for grid, _ in self._grids]
        begins += [grid.end(grid.oldest(time) - 1) for grid, _ in self._grids if grid.rest]
        return int(max(begins))

    def columns(self, times: Ints) -> tuple[Ints, Ints] | None:
        """Find the slices of many times: their begins, and first ends of windows; None if something is far off."""
        if not self.near(times):
            return None
        begins, ends = np.full(len(times), -NEVER_US), np.full(len(times), NEVER_US)
        for grid, first in self._grids:
            oldest, newest = windows_of(grid, times)
            if first is not None:
                np.maximum(oldest, first, out=oldest)
            np.maximum(begins, grid.begins(newest), out=begins)
            if grid.rest:
                ends_before = grid.ends(newest - grid.whole)
                np.maximum(begins, np.where(ends_before <= times, ends_before, -NEVER_US), out=begins)
            np.minimum(ends, np.where(oldest <= newest, grid.ends(oldest), NEVER_US), out=ends)
        return begins, ends

    def near(self, times: Ints) -> bool:
        """Say whether no time, and nothing that grids add to times, is far off."""
        return bool(len(times)) and max(-int(times.min()), int(times.max()), *map(_reach, self._grids)) < FAR_US

    def _learn(self, time: int) -> Place:
        ends = [grid.begin(grid.newest(time) + 1) for grid, _ in self._grids]
        ends += [grid.end(grid.oldest(time)) for grid, _ in self._grids if grid.rest]
        firsts = (first_end(grid, time, first) for grid, first in self._grids)
        place = self.last(time), min((end for end in firsts if end is not None), default=None)
        if time >= LAST_TIME:
            return place
        for grid, _ in self._grids:
            check_told(grid.begin(grid.oldest(time)), grid.end(grid.newest(time)))
        if len(self._begins) >= SLICES_MAX:
            self._begins.clear()
            self._known.clear()
        at = bisect_right(self._begins, place[0])
        self._begins.insert(at, place[0])
        self._known.insert(at, (int(min(ends)), place))
        return place


def _reach(counted: tuple[SlicedGrid, int | None]) -> int:
    """Return the largest length, in microseconds or windows, that a grid adds to times."""
    grid, first = counted
    lengths = [grid.range, grid.slide, abs(grid.origin)] if isinstance(grid, Regular) else []
    return max([*lengths, abs(first or 0)], default=0)


def first_end(grid: SlicedGrid, time: int, first: int | None = None) -> int | None:
    """Return the end of the first window that holds a time, of those from number `first` on; None if there is none."""
    number = grid.oldest(time) if first is None else max(grid.oldest(time), first)
    return int(grid.end(number)) if number <= grid.newest(time) else None
