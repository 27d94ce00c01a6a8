"""The window join: rows of one key that lie in a common window, emitted when the window is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from millpond.windowing.columns.intake import NUMBER_MAX, Bools, Ints, Late, sliced
from millpond.windowing.columns.ordering import places, ranges
from millpond.windowing.joins.results import LEFT, Joined, bad_join, check_how, joined
from millpond.windowing.joins.sides import Batch, Kept, Side
from millpond.windowing.kinds.driven import Session
from millpond.windowing.kinds.grids import SlicedGrid
from millpond.windowing.kinds.kinds import Window, backwards, described
from millpond.windowing.kinds.periodic import TIME, Periodic


class Members(NamedTuple):
    """Rows in windows that are over: the place of each row and the number of its window, by key, window and place."""

    rows: Ints
    numbers: Ints


class Over(NamedTuple):
    """What a watermark ends: who is in which window, where windows lie, and which rows are still needed."""

    left: Members
    right: Members
    bounds: Callable[[Ints], tuple[Ints, Ints]]
    left_kept: Bools
    right_kept: Bools


class Edges(Protocol):
    """Where windows lie, as joins see it."""

    def late(self, watermark: int, sides: tuple[Kept, Kept], read: tuple[Kept, Kept]) -> tuple[Bools, Bools]:
        """Which rows that were read lie in windows that are over, all of them."""
        ...

    def outside(self, rows: Kept) -> Bools:
        """Which rows lie between windows."""
        ...

    def over(self, before: int | None, watermark: int, left: Kept, right: Kept) -> Over:
        """What ends up to a watermark and did not end before."""
        ...


class WindowJoin:
    """Pairs of rows of one key and window (tumbling, sliding, calendar, session), emitted once for each common window.

    With `how="left"` a left row without a partner in a window is emitted for it. Rows are late as in `ColumnWindows`
    and `ColumnSessions`. A session is made of the rows of both sides.

    >>> from millpond.windowing import tumbling
    >>> join = WindowJoin(tumbling(10))
    >>> late = join.add(left=([0, 0], [1, 12], {"v": [1, 2]}), right=([0, 0], [3, 5], {"w": [30, 50]}))
    >>> found = join.close(20)
    >>> [found.begins.tolist(), found.left["v"].tolist(), found.right["w"].tolist()]
    [[0, 0], [1, 1], [30, 50]]
    """

    def __init__(self, window: Window, *, how: str = "inner") -> None:
        self._edges = _edges(window)
        self._how = check_how(how)
        self._left, self._right = Side(), Side()
        self._watermark: int | None = None

    @property
    def live_rows(self) -> tuple[int, int]:
        """How many rows are kept, left and right."""
        return len(self._left.rows), len(self._right.rows)

    def add(self, *, left: Batch | None = None, right: Batch | None = None) -> tuple[Late, Late]:
        """Add rows of both sides: codes of their keys, times in microseconds, columns; tells the late ones.

        Rows that come together are judged together: one may keep a session open for another.
        """
        read = self._left.read(left), self._right.read(right)
        between = [self._edges.outside(rows) for rows in read]
        late = tuple(np.zeros(len(rows), np.bool_) for rows in read)
        if self._watermark is not None:
            late = self._edges.late(self._watermark, (self._left.rows, self._right.rows), read)
        emitted = []
        for side, rows, missed, outside in zip((self._left, self._right), read, late, between, strict=True):
            side.take(rows.where(~missed & ~outside))
            found = np.flatnonzero(missed & ~outside)
            emitted.append(Late(found, (self._watermark or 0) - rows.times[found], np.flatnonzero(outside)))
        return emitted[0], emitted[1]

    def close(self, watermark: int) -> Joined:
        """The pairs, and lone left rows, of the windows that end at the watermark or before; each is emitted once."""
        if self._watermark is not None and watermark < self._watermark:
            raise backwards("watermark", self._watermark, watermark)
        left, right = self._left.rows, self._right.rows
        over = self._edges.over(self._watermark, watermark, left, right)
        self._watermark = watermark
        lefts, numbers = over.left
        there = (right.keys[over.right.rows], over.right.numbers)
        first = places(*there, left.keys[lefts], numbers)
        sizes = places(*there, left.keys[lefts], numbers + 1) - first
        emitted = np.maximum(sizes, 1) if self._how == LEFT else sizes
        rights = ranges(first, emitted)
        alone = np.repeat(sizes == 0, emitted)
        rights[~alone] = over.right.rows[rights[~alone]]
        rights[alone] = -1
        begins, ends = over.bounds(np.repeat(numbers, emitted))
        found = joined(left, right, np.repeat(lefts, emitted), rights, begins, ends)
        self._left.settle(over.left_kept, left.matched)
        self._right.settle(over.right_kept, right.matched)
        return found

    def export(self) -> dict[str, Any]:
        """The whole state: the watermark, and arrays by name for both sides."""
        return {"watermark": self._watermark, "left": self._left.export(), "right": self._right.export()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up a state that was exported, or the part of one that belongs to some keys."""
        self._watermark = state["watermark"]
        self._left.restore(state["left"])
        self._right.restore(state["right"])


class _OnGrid:
    """Windows whose places are known: tumbling, sliding, calendar."""

    def __init__(self, grid: SlicedGrid) -> None:
        self._grid = grid

    def late(self, watermark: int, _sides: tuple[Kept, Kept], read: tuple[Kept, Kept]) -> tuple[Bools, Bools]:
        opening = self._oldest(watermark)
        left, right = (self._grid.slices(rows.times)[0] < opening for rows in read)
        return left, right

    def outside(self, rows: Kept) -> Bools:
        return np.asarray(sliced(self._grid, rows.times)[1] & (self._grid.whole == 0), np.bool_)

    def over(self, before: int | None, watermark: int, left: Kept, right: Kept) -> Over:
        opening = self._oldest(watermark)
        closed = None if before is None else self._oldest(before)
        mine, theirs = self._members(left, closed, opening), self._members(right, closed, opening)
        kept = [self._grid.slices(rows.times)[0] >= opening for rows in (left, right)]
        return Over(mine, theirs, self._bounds, kept[0], kept[1])

    def _members(self, rows: Kept, closed: int | None, opening: int) -> Members:
        newest, behind = self._grid.slices(rows.times)
        whole = self._grid.whole
        # A row before the end inside its slice is also in the window that ends there.
        oldest = newest - np.where(behind | (not self._grid.rest), whole - 1, whole)
        low = oldest if closed is None else np.maximum(oldest, closed)
        sizes = np.maximum(np.minimum(newest, opening - 1) - low + 1, 0)
        chosen, numbers = np.repeat(np.arange(len(rows)), sizes), ranges(low, sizes)
        order = np.lexsort((chosen, numbers, rows.keys[chosen]))
        return Members(chosen[order], numbers[order])

    def _bounds(self, numbers: Ints) -> tuple[Ints, Ints]:
        return self._grid.begins(numbers), self._grid.ends(numbers)

    def _oldest(self, point: int) -> int:
        return min(max(self._grid.oldest(point), -NUMBER_MAX), NUMBER_MAX)


class _InSessions:
    """Sessions of a key, made of the rows of both sides."""

    def __init__(self, gap: int) -> None:
        self._gap = gap

    def late(self, watermark: int, sides: tuple[Kept, Kept], read: tuple[Kept, Kept]) -> tuple[Bools, Bools]:
        groups, _, ends = self._sessions([*sides, *read])
        late = ends <= watermark
        for open_rows in groups[:2]:
            late[open_rows] = False
        return late[groups[2]], late[groups[3]]

    def outside(self, rows: Kept) -> Bools:
        return np.zeros(len(rows), np.bool_)

    def over(self, _before: int | None, watermark: int, left: Kept, right: Kept) -> Over:
        (mine, theirs), begins, ends = self._sessions([left, right])
        done = ends <= watermark
        rows = [np.flatnonzero(done[groups]) for groups in (mine, theirs)]
        # Numbers grow with key and begin, so rows are in order.
        left_in, right_in = (Members(chosen, of[chosen]) for chosen, of in zip(rows, (mine, theirs), strict=True))
        return Over(left_in, right_in, lambda numbers: (begins[numbers], ends[numbers]), ~done[mine], ~done[theirs])

    def _sessions(self, parts: list[Kept]) -> tuple[list[Ints], Ints, Ints]:
        """For each part the session of each row; where sessions begin and end."""
        keys, times = (np.concatenate([getattr(part, name) for part in parts]) for name in ("keys", "times"))
        order = np.lexsort((times, keys))
        keys, times = keys[order], times[order]
        new = np.ones(len(order), np.bool_)
        new[1:] = (keys[1:] != keys[:-1]) | (times[1:] - times[:-1] >= self._gap)
        group = np.empty(len(order), np.int64)
        group[order] = np.cumsum(new) - 1
        first = np.flatnonzero(new)
        ends = times[np.append(first[1:], len(order)) - 1] + self._gap if len(first) else times
        return np.split(group, np.cumsum([len(part) for part in parts])[:-1]), times[first], ends


def _edges(window: Window) -> Edges:
    if isinstance(window, Session):
        return _InSessions(window.gap)
    if isinstance(window, Periodic) and window.measure == TIME:
        return _OnGrid(window.grid)  # type: ignore[arg-type]
    raise bad_join("tumbling, sliding, calendar or session windows over time", described(window))
