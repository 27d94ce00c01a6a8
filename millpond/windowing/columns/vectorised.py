"""Windows over time for many keys at once, on columns, whose rows come in any order.

Rows are added to slices of their key, slices are combined when a watermark closes windows. Since a row may come after
the watermark has passed an end inside its slice, ends cut here too where a window is no multiple of its slide: a slice
is then two, before and after the end. (Record by record, in order, they need not: `shared` takes the running slice as
it is.)

Closing many windows costs three combinations per window, whatever their overlap, and no inverse: slices are taken in
blocks as long as a window, and a window is the end of one block and the beginning of the next, both accumulated once
(van Herk, Gil and Werman). Blocks begin at multiples of the window's length since 1970, so it can't be seen when
windows were closed. A sum of floats differs from that in order of time by other roundings alone: for n rows at most n *
2**-53 times the sum of their magnitudes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from millpond.lengths import Length
from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.aggregates.forms import Array, Bools, Ints, Rows
from millpond.windowing.columns.blocks import Coarse, Runs, narrow_results, sliding_results
from millpond.windowing.columns.corrections import RETRACT, OverColumns, joined
from millpond.windowing.columns.intake import (
    NUMBER_MAX,
    Closed,
    Late,
    chosen_of,
    not_columnar,
    pack,
    sliced,
    start_states,
)
from millpond.windowing.columns.ordering import ranges, unique_pairs, without
from millpond.windowing.kinds.driven import Session
from millpond.windowing.kinds.grids import SlicedGrid
from millpond.windowing.kinds.kinds import Window, described
from millpond.windowing.kinds.periodic import NO_TIME, TIME, Periodic

DENSE_CELLS_MIN = 1 << 22
"""A table of so many cells is cheap, however few rows there are."""

CHUNK_CELLS = 1 << 21
"""How many slices are combined at once, about: more would leave the processor's cache."""

NARROW = 2
"""Below so many times the slices of a window, the windows that close are few."""


class ColumnWindows(OverColumns):
    """Tumbling, sliding and calendar windows of many keys; the state is a few arrays, sorted by key and slice.

    >>> import numpy as np
    >>> from millpond.windowing import sliding, sum_of
    >>> windows = ColumnWindows(sliding("20 us", "10 us"), {"total": sum_of("v")})
    >>> late = windows.add([0, 0, 1], [5, 12, 7], {"v": [1, 2, 4]})
    >>> closed = windows.close(20)
    >>> [closed.keys.tolist(), closed.begins.tolist(), closed.values["total"].tolist()]
    [[0, 0, 1, 1], [-10, 0, -10, 0], [1, 3, 4, 4]]

    With `lateness` slices are kept for longer. A row that comes after its window was emitted changes it, and the next
    `close` reports the change: the old result is in `retracted`, the new one is marked in `corrected`. With
    `corrections="replace"` only the new one is emitted.
    """

    def __init__(
        self,
        window: Window,
        aggregates: Mapping[str, Aggregate],
        *,
        lateness: Length = NO_TIME,
        corrections: str = RETRACT,
    ) -> None:
        super().__init__(aggregates, lateness, corrections)
        self._grid = _sliced_grid(window)
        self._open_from: int | None = None  # The first window that is not closed.
        self._kept_from: int | None = None  # The first window that a row can still change.
        empty = np.zeros(0, np.int64)
        self._slices = self._rows = empty
        self._touched = (empty, empty)  # Keys and numbers of emitted windows that rows changed since the last close.

    def add(self, keys: Any, times: Any, columns: Mapping[str, Any]) -> Late:
        """Add rows: codes of their keys (0, 1, 2, …), times in microseconds, columns by name; return the late ones."""
        codes, points, taken = self._intake.take(keys, times, columns)
        if not len(codes):
            return Late(codes, points, codes)
        numbers, behind = sliced(self._grid, points)
        outside = behind & (self._grid.whole == 0)
        late = numbers < self._kept_from if self._kept_from is not None else np.zeros(len(codes), np.bool_)
        late &= ~outside
        dropped = late | outside
        if self._kept_from != self._open_from:
            self._touch(codes, numbers, behind, ~dropped)
        if dropped.any():
            kept = np.flatnonzero(~dropped)
            self._apply(
                codes[kept],
                2 * numbers[kept] + behind[kept],
                points[kept],
                {name: column[kept] for name, column in taken.items()},
            )
        else:
            self._apply(codes, 2 * numbers + behind, points, taken)
        rows = np.flatnonzero(late)
        return Late(rows, (self._watermark or 0) - points[rows], np.flatnonzero(outside))

    def close(self, watermark: int) -> Closed:
        """Close the windows that end at the watermark or before; each is emitted once, sorted by key and begin."""
        self._check_forward(watermark)
        opening = self._oldest(watermark)
        horizon = self._allowed.horizon(self._horizon, watermark)
        keeping = opening if horizon == watermark else self._oldest(horizon)
        closed = self._close_before(opening)
        if self._allowed.lateness or self._replaced:
            closed = self._corrected(closed)
        kept = self._slices >= 2 * keeping
        self._keys, self._slices, self._rows = self._keys[kept], self._slices[kept], self._rows[kept]
        if self._states is not None:
            self._states = chosen_of(self._states, kept)
        self._watermark, self._open_from = watermark, opening
        self._horizon, self._kept_from = horizon, keeping
        return closed

    def export(self) -> dict[str, Any]:
        """Return the whole state: the watermark, and arrays by name; with a lateness also what is to be corrected."""
        state = self._exported({"slices": self._slices, "rows": self._rows})
        if self._allowed.lateness:
            state["touched"] = {"keys": self._touched[0], "windows": self._touched[1]}
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up a state that was exported, or the part of one that belongs to some keys."""
        self._restore(state)
        self._open_from = self._kept_from = None
        if self._watermark is not None and self._horizon is not None:
            self._open_from, self._kept_from = self._oldest(self._watermark), self._oldest(self._horizon)
        self._slices, self._rows = state["arrays"]["slices"], state["arrays"]["rows"]
        touched = state.get("touched", {"keys": np.zeros(0, np.int64), "windows": np.zeros(0, np.int64)})
        self._touched = (touched["keys"], touched["windows"])

    def last_end(self, time: int) -> int:
        """Return the end of the last window that a row of this time belongs to."""
        last: int = self._grid.end(self._grid.newest(time))
        return last

    def closing(self, arrays: Mapping[str, Array]) -> Ints:
        """Return how many windows close because of each slice: those that no earlier one of its key is in."""
        numbers = arrays["slices"] >> 1
        weights = np.full(len(numbers), self._grid.whole + self._grid.rest, np.int64)
        same = arrays["keys"][1:] == arrays["keys"][:-1]
        weights[1:][same] = np.minimum(weights[1:], numbers[1:] - numbers[:-1])[same]
        return weights

    def _oldest(self, point: int) -> int:
        return min(max(self._grid.oldest(point), -NUMBER_MAX), NUMBER_MAX)

    def _touch(self, keys: Ints, numbers: Ints, behind: Bools, kept: Bools) -> None:
        """Note which emitted windows are about to change, and what was emitted of them."""
        assert self._open_from is not None
        assert self._kept_from is not None
        whole = self._grid.whole
        # A row before the end inside its slice is also in the window that ends there.
        low = numbers - np.where(behind | (not self._grid.rest), whole - 1, whole)
        late = np.flatnonzero(kept & (low < self._open_from))
        if not len(late):
            return
        row_keys, cells = unique_pairs(keys[late], 2 * numbers[late] + behind[late])
        numbers, behind = cells >> 1, (cells & 1).astype(np.bool_)
        low = np.maximum(numbers - np.where(behind | (not self._grid.rest), whole - 1, whole), self._kept_from)
        widths = np.minimum(numbers, self._open_from - 1) - low + 1
        pairs = without(*unique_pairs(np.repeat(row_keys, widths), ranges(low, widths)), self._touched)
        self._replaced.append(self._results_of(*pairs))
        self._touched = (np.append(self._touched[0], pairs[0]), np.append(self._touched[1], pairs[1]))

    def _corrected(self, closed: Closed) -> Closed:
        """Put the emitted windows that changed among those that closed."""
        changed = self._results_of(*unique_pairs(*self._touched))
        whole = joined([changed, closed], self._forms)
        old = joined(self._replaced, self._forms)
        self._touched, self._replaced = (np.zeros(0, np.int64), np.zeros(0, np.int64)), []
        return self._allowed.settle(old, whole.sorted() if len(changed) else closed)

    def _results_of(self, keys: Ints, numbers: Ints) -> Closed:
        """Return what the slices say of chosen windows now."""
        some = np.isin(self._keys, keys)
        states = chosen_of(self._states or {}, some)
        coarse = Coarse.of(
            self._keys[some], self._slices[some], self._rows[some], states, self._forms, self._intake.dtypes
        )
        return self._emitted(coarse, coarse.runs_of(keys, numbers, self._grid.whole + self._grid.rest))

    def _apply(self, keys: Ints, slices: Ints, times: Ints, columns: Mapping[str, Array]) -> None:
        old = len(self._keys)
        all_keys, all_slices, places = _place(
            np.concatenate((self._keys, keys)) if old else keys,
            np.concatenate((self._slices, slices)) if old else slices,
        )
        old_places, slots = places[:old], places[old:]
        size = len(all_keys)
        counts = np.bincount(slots, minlength=size)
        counts[old_places] += self._rows
        states = start_states(self._forms, size, self._intake.dtypes)
        rows = Rows(slots, times, columns)
        for name, form in self._forms.items():
            if self._states is not None:
                for part, held in zip(states[name], self._states[name], strict=True):
                    part[old_places] = held
            form.update(states[name], rows)
        self._keys, self._slices, self._rows, self._states = all_keys, all_slices, counts, states

    def _close_before(self, opening: int) -> Closed:
        coarse = Coarse.of(self._keys, self._slices, self._rows, self._states or {}, self._forms, self._intake.dtypes)
        return self._emitted(coarse, coarse.runs(self._grid.whole + self._grid.rest, self._open_from, opening))

    def _emitted(self, coarse: Coarse, runs: Runs) -> Closed:
        parts = list(self._chunks(coarse, runs)) if self._states is not None else []
        keys, numbers, rows = (
            np.concatenate([part[i] for part in parts]) if parts else np.zeros(0, np.int64) for i in range(3)
        )
        values = {
            name: np.concatenate([part[3][name] for part in parts]) if parts else np.zeros(0) for name in self._forms
        }
        return Closed(keys, self._grid.begins(numbers), self._grid.ends(numbers), rows, values)

    def _chunks(self, coarse: Coarse, runs: Runs) -> Iterator[tuple[Array, Array, Array, dict[str, Array]]]:
        grid = self._grid
        cells = max(CHUNK_CELLS, 16 * grid.whole)
        for chunk in runs.chunks(grid.whole, cells):
            few = int(chunk.high.max()) - int(chunk.low.min()) < NARROW * grid.whole
            compute = narrow_results if few else sliding_results
            yield compute(coarse, chunk, grid.whole, grid.rest, self._forms, self._intake.dtypes)


def _place(keys: Ints, slices: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the pairs that occur, sorted, and where each row's pair is among them."""
    packed = pack(keys, slices)
    if packed is None:
        known, compact = np.unique(keys, return_inverse=True)
        pairs, places = np.unique(np.stack((compact, slices)), axis=1, return_inverse=True)
        return known[pairs[0]], pairs[1], places
    cells, width, low = packed
    table = (int(keys.max()) + 1) * width if len(keys) else 0
    if table <= max(DENSE_CELLS_MIN, 4 * len(keys)):
        held = np.zeros(table, np.bool_)
        held[cells] = True
        filled = np.flatnonzero(held)
        place = np.empty(table, np.int64)
        place[filled] = np.arange(len(filled))
        places = place[cells]
    else:
        filled, places = np.unique(cells, return_inverse=True)
    return filled // width, filled % width + low, places


def _sliced_grid(window: Window) -> SlicedGrid:
    if isinstance(window, Periodic) and window.measure == TIME:
        grid: SlicedGrid = window.grid  # type: ignore[assignment]
        return grid
    hint = "ColumnSessions" if isinstance(window, Session) else described(window)
    raise not_columnar("tumbling, sliding or calendar windows over time; sessions by `ColumnSessions`", hint)
