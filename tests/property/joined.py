"""Joins over time by brute force over all rows: what streams, and Spark's joins of batches, are compared with."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product
from typing import NamedTuple

from millpond.windowing.joins import KeyIntervals, key_windows
from millpond.windowing.kinds.driven import Session

HOWS = {"inner": (False, False), "left": (True, False), "right": (False, True), "full": (True, True)}
LEFT, RIGHT = 0, 1


class Spec(NamedTuple):
    """A join: two distances in microseconds or a window, and which rows are told alone."""

    how: str
    within: tuple[int, int] | None = None
    window: object = None

    def by_key(self, lateness=0):
        """The join of the rows of one key."""
        alone = HOWS[self.how]
        if self.within is None:
            return key_windows(self.window, alone, lateness)
        return KeyIntervals(*self.within, alone, lateness)


def batch_join(spec, rows):
    """Counts of (begin, end, left number, right number) of rows (side, key, time, number); None for a row alone."""
    found = Counter()
    if spec.within is not None:
        low, high = spec.within
        sides = [[row for row in rows if row[0] == side] for side in (LEFT, RIGHT)]
        pairs = [
            (one[3], other[3])
            for one, other in product(*sides)
            if one[1] == other[1] and low <= other[2] - one[2] <= high
        ]
        found.update((None, None, *pair) for pair in pairs)
        for side, alone in enumerate(HOWS[spec.how]):
            lone = {row[3] for row in sides[side]} - {pair[side] for pair in pairs} if alone else ()
            found.update((None, None, number, None) if side == LEFT else (None, None, None, number) for number in lone)
        return found
    for (_, begin, end), (lefts, rights) in _windows(spec.window, rows).items():
        if lefts and rights:
            found.update((begin, end, *pair) for pair in product(lefts, rights))
        elif HOWS[spec.how][LEFT if lefts else RIGHT]:
            found.update([(begin, end, number, None) for number in lefts] + [(begin, end, None, n) for n in rights])
    return found


def _windows(window, rows):
    """The numbers of left and right rows by key and bounds."""
    found = defaultdict(lambda: ([], []))
    for key in {row[1] for row in rows}:
        mine = sorted((row for row in rows if row[1] == key), key=lambda row: row[2])
        for side, _, at, number in mine:
            for bounds in _bounds(window, at, [row[2] for row in mine]):
                found[key, *bounds][side].append(number)
    return found


def _bounds(window, at, times):
    """The bounds of the windows that a time lies in, if all rows of its key have these times, which are sorted."""
    if isinstance(window, Session):
        first = last = times.index(at)
        while first and times[first] - times[first - 1] < window.gap:
            first -= 1
        while last + 1 < len(times) and times[last + 1] - times[last] < window.gap:
            last += 1
        return [(times[first], times[last] + window.gap)]
    grid = window.grid
    numbers = range(grid.oldest(at) - 1, grid.newest(at) + 2)
    return [(grid.begin(n), grid.end(n)) for n in numbers if grid.begin(n) <= at < grid.end(n)]
