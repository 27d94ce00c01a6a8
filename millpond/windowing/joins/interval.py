"""The interval join: a right row belongs to a left row of its key if it lies between two distances from it in time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from millpond.windowing.columns.intake import Ints, Late
from millpond.windowing.columns.ordering import places, ranges
from millpond.windowing.joins.results import LEFT, Joined, bad_join, check_how, joined
from millpond.windowing.joins.sides import Batch, Kept, Side
from millpond.windowing.kinds.kinds import Span, backwards, micros

DISTANCE_MAX = 2**61
"""Some 73,000 years: a time and a distance fit 64 bits together."""


class IntervalJoin:
    """Pairs of rows with `left.time + low <= right.time <= left.time + high`; with `how="left"` also lone left rows.

    A row is late if it happened before the watermark: it is reported and takes no part. All pairs of other rows are
    found, each once, however rows were cut into batches.

    >>> join = IntervalJoin(0, 10, how="left")
    >>> late = join.add(left=([0, 0], [1, 40], {"ad": ["a", "b"]}), right=([0], [8], {"click": [7]}))
    >>> found = join.close(60)
    >>> [found.left["ad"].tolist(), found.matched.tolist(), found.right["click"].tolist()]
    [['a', 'b'], [True, False], [7, 0]]
    """

    def __init__(self, low: Span, high: Span, *, how: str = "inner") -> None:
        self._low, self._high = distance(low), distance(high)
        if self._low > self._high:
            raise bad_join("a low distance that is not above the high one", f"{low!r} and {high!r}"[:80])
        self._how = check_how(how)
        self._left, self._right = Side(), Side()
        self._watermark: int | None = None

    @property
    def outer(self) -> bool:
        """Whether left rows are told that find no partner."""
        return self._how == LEFT

    @property
    def live_rows(self) -> tuple[int, int]:
        """How many rows are kept, left and right."""
        return len(self._left.rows), len(self._right.rows)

    def add(self, *, left: Batch | None = None, right: Batch | None = None) -> tuple[Late, Late]:
        """Add rows of both sides: codes of their keys, times in microseconds, columns; tells the late ones."""
        read = self._left.read(left), self._right.read(right)
        late = tuple(self._split(side, rows) for side, rows in zip((self._left, self._right), read, strict=True))
        return late[0], late[1]

    def close(self, watermark: int) -> Joined:
        """The pairs that are new since the last close, and lone left rows that can find no partner any more."""
        if self._watermark is not None and watermark < self._watermark:
            raise backwards("watermark", self._watermark, watermark)
        self._watermark = watermark
        left, right = self._left.rows, self._right.rows
        fresh, new = np.flatnonzero(left.fresh), np.flatnonzero(right.fresh)
        before = np.flatnonzero(~left.fresh)
        of_fresh = self._pairs(left, fresh, right)
        of_before = self._pairs(left, before, right.where(new))
        lefts, rights = np.append(of_fresh[0], of_before[0]), np.append(of_fresh[1], new[of_before[1]])
        matched = left.matched.copy()
        matched[lefts] = True
        # Rows that come from now on happened at the watermark or later.
        waiting = left.times + self._high >= watermark
        if self.outer:
            alone = np.flatnonzero(~matched & ~waiting)
            lefts, rights = np.append(lefts, alone), np.append(rights, np.full(len(alone), -1))
        order = np.lexsort((rights, lefts))
        found = joined(left, right, lefts[order], rights[order])
        self._left.settle(waiting, matched)
        self._right.settle(right.times - self._low >= watermark, right.matched)
        return found

    def export(self) -> dict[str, Any]:
        """The whole state: the watermark, and arrays by name for both sides."""
        return {"watermark": self._watermark, "left": self._left.export(), "right": self._right.export()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up a state that was exported, or the part of one that belongs to some keys."""
        self._watermark = state["watermark"]
        self._left.restore(state["left"])
        self._right.restore(state["right"])

    def _split(self, side: Side, rows: Kept) -> Late:
        if self._watermark is None:
            side.take(rows)
            return Late(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))
        late = rows.times < self._watermark
        side.take(rows.where(~late))
        return Late(np.flatnonzero(late), self._watermark - rows.times[late], np.zeros(0, np.int64))

    def _pairs(self, left: Kept, chosen: Ints, right: Kept) -> tuple[Ints, Ints]:
        """The places of pairs of some left rows."""
        keys, times = left.keys[chosen], left.times[chosen]
        first = places(right.keys, right.times, keys, times + self._low)
        sizes = places(right.keys, right.times, keys, times + (self._high + 1)) - first
        return np.repeat(chosen, sizes), ranges(first, sizes)


def distance(given: Span) -> int:
    """A distance in microseconds."""
    number = micros(given, "distance", bad_join)
    if abs(number) > DISTANCE_MAX:
        raise bad_join("distances of at most 2**61 microseconds", repr(given)[:60])
    return number
