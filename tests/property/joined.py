"""Joins over time by the core over whole columns, as the batch join has them: what streams are compared with."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from millpond.windowing.joins import IntervalJoin, WindowJoin
from millpond.windowing.joins.bykey import KeyIntervals, key_windows

HOWS = {"inner": (False, False), "left": (True, False), "right": (False, True), "full": (True, True)}
LATER = 2**62
"""A watermark behind all rows."""


class Spec(NamedTuple):
    """A join: two distances or a window, and which rows are told alone."""

    how: str
    within: tuple[int, int] | None = None
    window: object = None

    def by_key(self, lateness=0):
        """The join of the rows of one key."""
        alone = HOWS[self.how]
        if self.within is None:
            return key_windows(self.window, alone, lateness)
        return KeyIntervals(*self.within, alone, lateness)

    def of_columns(self, *, flipped):
        """The join of whole columns with lone left rows; `flipped`, that of the right side with the left."""
        if self.within is None:
            return WindowJoin(self.window, how="left")
        low, high = self.within
        return IntervalJoin(-high if flipped else low, -low if flipped else high, how="left")


def batch_join(spec, rows):
    """Counts of (begin, end, left number, right number) of rows (side, key, time, number); None for a row alone."""
    found = Counter()
    for flipped in (False, True):
        join = spec.of_columns(flipped=flipped)
        mine, theirs = (
            ([row[1] for row in own], [row[2] for row in own], {"n": [row[3] for row in own]})
            for own in ([row for row in rows if (row[0] == 1) is side] for side in (flipped, not flipped))
        )
        join.add(left=mine, right=theirs)
        closed = join.close(LATER)
        bounds = [(None, None)] * len(closed)
        if closed.begins is not None:
            bounds = list(zip(closed.begins.tolist(), closed.ends.tolist(), strict=True))
        for place, matched in enumerate(closed.matched.tolist()):
            own = int(closed.left["n"][place])
            if matched and not flipped:
                found[*bounds[place], own, int(closed.right["n"][place])] += 1
            elif not matched and HOWS[spec.how][flipped]:
                found[*bounds[place], *((None, own) if flipped else (own, None))] += 1
    return found
