"""Windows of many keys from their slices, by accumulating blocks as long as a window forwards and backwards.

`sliding_results` accumulates all blocks. Where fewer windows close than a window has slices, as with every small batch
of a stream, `narrow_results` accumulates only the ends of blocks that these windows touch. Both give the same bits:
blocks lie where they lie, and are accumulated from the same ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from millpond.windowing.aggregates.forms import Array, ColumnForm, State
from millpond.windowing.columns.intake import chosen_of, start_states
from millpond.windowing.columns.ordering import places, ranges

Dtypes = Mapping[str, np.dtype[Any]]
States = dict[str, State]
Results = tuple[Array, Array, Array, dict[str, Array]]
"""Windows' keys, numbers, rows, and values by aggregate."""


@dataclass(frozen=True, slots=True)
class Coarse:
    """Slices from begin to begin: `whole` ones, and the parts of them before the end that cuts them."""

    keys: Array
    numbers: Array
    rows: Array
    states: States
    front_rows: Array
    front: States

    @classmethod
    def of(
        cls, keys: Array, slices: Array, rows: Array, states: States, forms: Mapping[str, ColumnForm], dtypes: Dtypes
    ) -> Coarse:
        """Put the two parts of each slice together."""
        numbers, behind = slices >> 1, (slices & 1).astype(np.bool_)
        if not behind.any():
            return cls(keys, numbers, rows, states, rows, states)
        new = np.ones(len(keys), np.bool_)
        new[1:] = (keys[1:] != keys[:-1]) | (numbers[1:] != numbers[:-1])
        place, size = np.cumsum(new) - 1, int(new.sum())
        parts = []
        for chosen in (~behind, behind):
            there = place[chosen]
            counts = np.zeros(size, np.int64)
            counts[there] = rows[chosen]
            spread = start_states(forms, size, dtypes)
            for name, state in states.items():
                for into, part in zip(spread[name], state, strict=True):
                    into[there] = part[chosen]
            parts.append((counts, spread))
        (front_rows, front), (back_rows, back) = parts
        whole = {name: form.combine(front[name], back[name], front_rows, back_rows) for name, form in forms.items()}
        return cls(keys[new], numbers[new], front_rows + back_rows, whole, front_rows, front)

    def runs(self, reach: int, closed_before: int | None, opening: int) -> Runs:
        """Stretches of slices of one key that share windows, with the windows that close; `reach` slices make one."""
        new = np.ones(len(self.keys), np.bool_)
        new[1:] = (self.keys[1:] != self.keys[:-1]) | (self.numbers[1:] - self.numbers[:-1] > reach)
        first = np.flatnonzero(new)
        last = np.append(first[1:], len(self.keys)) - 1 if len(first) else first
        low = self.numbers[first] - reach + 1
        if closed_before is not None:
            low = np.maximum(low, closed_before)
        high = np.minimum(self.numbers[last], opening - 1)
        some = low <= high
        return Runs(self.keys[first][some], first[some], last[some] + 1, low[some], high[some], reach)

    def runs_of(self, keys: Array, numbers: Array, reach: int) -> Runs:
        """Return the runs of chosen windows, which are sorted, whether they close or not."""
        new = np.ones(len(keys), np.bool_)
        new[1:] = (keys[1:] != keys[:-1]) | (numbers[1:] != numbers[:-1] + 1)
        begin = np.flatnonzero(new)
        end = np.append(begin[1:], len(keys)) - 1 if len(begin) else begin
        low, high = numbers[begin], numbers[end]
        first, last = (places(self.keys, self.numbers, keys[begin], points) for points in (low, high + reach))
        return Runs(keys[begin], first, last, low, high, reach)


@dataclass(frozen=True, slots=True)
class Runs:
    """Per run: its key, its slices from `first` up to `last`, and its windows from `low` to `high`, both included."""

    keys: Array
    first: Array
    last: Array
    low: Array
    high: Array
    reach: int

    def blocks(self, length: int) -> tuple[Array, Array]:
        """Return the first block of each run, and how many it needs."""
        begin = self.low // length
        return begin, (self.high + self.reach - 1) // length - begin + 1

    def chunks(self, whole: int, cells: int) -> Iterator[Runs]:
        """Pieces that need about so many cells; a run is not taken apart."""
        if not len(self.keys):
            return
        length = max(whole, 1)
        total = np.cumsum(self.blocks(length)[1] * length)
        begin = 0
        while begin < len(self.keys):
            spent = int(total[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(total, spent + cells, side="right")))
            yield self.where(slice(begin, end))
            begin = end

    def where(self, chosen: Any) -> Runs:
        """Return some of the runs."""
        return Runs(
            self.keys[chosen], self.first[chosen], self.last[chosen], self.low[chosen], self.high[chosen], self.reach
        )

    def slices(self) -> tuple[Array, Array]:
        """Return where the slices of the runs are, and the run of each."""
        sizes = self.last - self.first
        return ranges(self.first, sizes), np.repeat(np.arange(len(sizes)), sizes)

    def windows(self) -> tuple[Array, Array]:
        """Return the numbers of the windows of the runs, and the run of each."""
        widths = self.high - self.low + 1
        return ranges(self.low, widths), np.repeat(np.arange(len(widths)), widths)


def sliding_results(
    coarse: Coarse, runs: Runs, whole: int, rest: bool, forms: Mapping[str, ColumnForm], dtypes: Dtypes
) -> Results:
    """Return keys, numbers, rows and values of the windows of some runs, those without rows left out."""
    length = max(whole, 1)
    begin, counts = runs.blocks(length)
    offset = np.cumsum(counts) - counts
    picked, run = runs.slices()
    numbers = coarse.numbers[picked]
    block = numbers // length - begin[run]
    inside = (block >= 0) & (block < counts[run])
    row, column = (numbers % length)[inside], (block + offset[run])[inside]
    picked = picked[inside]
    shape = (length, int(counts.sum()) + 1)  # A block more, so that every block has a next one.

    def laid(rows: Array, states: States) -> tuple[Array, States]:
        return spread(rows, states, picked, (row, column), shape, forms, dtypes)

    if whole:
        rows, states = _windows(*laid(coarse.rows, coarse.states), forms)
        if rest:
            front_rows, front = laid(coarse.front_rows, coarse.front)
            rows, states = _join(rows, states, front_rows[:, 1:], chosen_of(front, np.s_[:, 1:]), forms)
    else:
        rows, states = laid(coarse.front_rows, coarse.front)
    windows, run = runs.windows()
    at = (windows % length, windows // length - (begin - offset)[run])
    return gather(runs.keys[run], windows, at, rows, states, forms)


def gather(
    keys: Array, windows: Array, at: tuple[Array, Array], rows: Array, states: States, forms: Mapping[str, ColumnForm]
) -> Results:
    """Read the results of windows from their cells; those without rows are left out."""
    found = rows[at]
    held = found > 0
    if not held.all():
        at = (at[0][held], at[1][held])
        keys, windows, found = keys[held], windows[held], found[held]
    values = {name: form.lower(tuple(part[at] for part in states[name]), found) for name, form in forms.items()}
    return keys, windows, found, values


def spread(
    rows: Array,
    states: States,
    picked: Array,
    at: tuple[Array, Array],
    shape: tuple[int, int],
    forms: Mapping[str, ColumnForm],
    dtypes: Dtypes,
) -> tuple[Array, States]:
    """Lay slices out in cells; all others are identities."""
    counts = np.zeros(shape, np.int64)
    counts[at] = rows[picked]
    cells = start_states(forms, shape[0] * shape[1], dtypes)
    laid = {name: tuple(part.reshape(shape) for part in state) for name, state in cells.items()}
    for name, state in states.items():
        for into, part in zip(laid[name], state, strict=True):
            into[at] = part[picked]
    return counts, laid


def _windows(rows: Array, states: States, forms: Mapping[str, ColumnForm]) -> tuple[Array, States]:
    """Combine the window that begins at each slice: the rest of its block, a column, and the start of the next."""
    if len(rows) == 1:
        return rows[:, :-1], chosen_of(states, np.s_[:, :-1])
    ahead_rows = np.add.accumulate(rows, axis=0)
    back_rows = np.add.accumulate(rows[::-1], axis=0)[::-1]
    result_rows = back_rows[:, :-1].copy()
    result_rows[1:] += ahead_rows[:-1, 1:]
    results: States = {}
    for name, form in forms.items():
        ahead = accumulated(form, states[name], rows, ahead_rows, backwards=False)
        back = accumulated(form, states[name], rows, back_rows, backwards=True)
        left = tuple(part[1:, :-1] for part in back)
        right = tuple(part[:-1, 1:] for part in ahead)
        both = form.combine(left, right, back_rows[1:, :-1], ahead_rows[:-1, 1:])
        results[name] = tuple(np.concatenate((whole[:1, :-1], part)) for whole, part in zip(back, both, strict=True))
    return result_rows, results


def accumulated(form: ColumnForm, state: State, rows: Array, total: Array, *, backwards: bool) -> State:
    """Return each slice combined with those before it in its block, or behind it."""
    way = slice(None, None, -1) if backwards else slice(None)
    at_once = form.accumulate(tuple(part[way] for part in state), rows)
    if at_once is not None:
        return tuple(part[way] for part in at_once)
    sums = tuple(part.copy() for part in state)
    size = len(rows)
    for step in range(1, size):
        here, last = (size - 1 - step, size - step) if backwards else (step, step - 1)
        mine, known = tuple(part[here] for part in sums), tuple(part[last] for part in sums)
        pair = (mine, known, rows[here], total[last]) if backwards else (known, mine, total[last], rows[here])
        for part, combined in zip(sums, form.combine(*pair), strict=True):
            part[here] = combined
    return sums


def _join(
    rows: Array, states: States, more_rows: Array, more: States, forms: Mapping[str, ColumnForm]
) -> tuple[Array, States]:
    joined = {name: form.combine(states[name], more[name], rows, more_rows) for name, form in forms.items()}
    return rows + more_rows, joined


# --- few windows at a time from many slices


def narrow_results(
    coarse: Coarse, runs: Runs, whole: int, rest: bool, forms: Mapping[str, ColumnForm], dtypes: Dtypes
) -> Results:
    """As `sliding_results`; one block of windows after the other, then sorted by key."""
    parts: list[Results] = []
    for block in range(int(runs.low.min()) // whole, int(runs.high.max()) // whole + 1):
        begin = block * whole
        low, high = np.maximum(runs.low, begin), np.minimum(runs.high, begin + whole - 1)
        some = low <= high
        if some.any():
            chosen = runs.where(some)
            cut = Runs(chosen.keys, chosen.first, chosen.last, low[some], high[some], runs.reach)
            parts.append(_of_one_block(coarse, cut, begin, whole, rest, forms, dtypes))
    if len(parts) == 1:
        return parts[0]
    keys, windows, rows = (np.concatenate([part[i] for part in parts]) for i in range(3))
    order = np.argsort(keys, kind="stable")
    values = {name: np.concatenate([part[3][name] for part in parts])[order] for name in forms}
    return keys[order], windows[order], rows[order], values


def _of_one_block(
    coarse: Coarse, runs: Runs, begin: int, whole: int, rest: bool, forms: Mapping[str, ColumnForm], dtypes: Dtypes
) -> Results:
    first, last = int(runs.low.min()), int(runs.high.max())
    picked, run = runs.slices()
    numbers = coarse.numbers[picked]

    def laid(rows: Array, states: States, low: int, high: int) -> tuple[Array, States]:
        """Return the slices from `low` up to, not including, `high`: a row of cells per slice, a column per run."""
        inside = (numbers >= low) & (numbers < high)
        at = (numbers[inside] - low, run[inside])
        return spread(rows, states, picked[inside], at, (high - low, len(runs.keys)), forms, dtypes)

    size = last - first + 1
    back_rows, back = _summed(*laid(coarse.rows, coarse.states, first, begin + whole), forms, backwards=True)
    rows, states = back_rows[:size], chosen_of(back, slice(size))
    if last > begin:
        next_block = laid(coarse.rows, coarse.states, begin + whole, last + whole)
        ahead_rows, ahead = _summed(*next_block, forms, backwards=False)
        # The window that begins a block needs nothing of the next one.
        skipped = 1 if first == begin else 0
        later = slice(max(first - begin - 1, 0), None)
        rows, states = _beside(rows, states, ahead_rows[later], chosen_of(ahead, later), skipped, forms)
    if rest:
        front_rows, front = laid(coarse.front_rows, coarse.front, first + whole, last + whole + 1)
        rows, states = _beside(rows, states, front_rows, front, 0, forms)
    windows, of = runs.windows()
    return gather(runs.keys[of], windows, (windows - first, of), rows, states, forms)


def _summed(rows: Array, states: States, forms: Mapping[str, ColumnForm], *, backwards: bool) -> tuple[Array, States]:
    way = slice(None, None, -1) if backwards else slice(None)
    total = np.add.accumulate(rows[way], axis=0)[way]
    return total, {
        name: accumulated(form, states[name], rows, total, backwards=backwards) for name, form in forms.items()
    }


def _beside(
    rows: Array, states: States, more_rows: Array, more: States, skipped: int, forms: Mapping[str, ColumnForm]
) -> tuple[Array, States]:
    """Combine row by row, the first `skipped` rows left as they are."""
    total = rows.copy()
    total[skipped:] += more_rows
    joined: States = {}
    for name, form in forms.items():
        mine = tuple(part[skipped:] for part in states[name])
        both = form.combine(mine, more[name], rows[skipped:], more_rows)
        joined[name] = tuple(
            np.concatenate((part[:skipped], new)) for part, new in zip(states[name], both, strict=True)
        )
    return total, joined
