"""Few windows at a time from many slices: only the ends of blocks that these windows touch are accumulated.

Gives, bit by bit, what `blocks` gives: blocks lie where they lie there, and are accumulated from the same ends. It pays
where fewer windows close than a window has slices, as with every small batch of a stream.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from millpond.windowing.columns.blocks import Coarse, Dtypes, Results, Runs, States, accumulated, gather, spread
from millpond.windowing.columns.columnar import Array, ColumnForm


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
        """The slices from `low` up to, not including, `high`: a row of cells per slice, a column per run."""
        inside = (numbers >= low) & (numbers < high)
        at = (numbers[inside] - low, run[inside])
        return spread(rows, states, picked[inside], at, (high - low, len(runs.keys)), forms, dtypes)

    size = last - first + 1
    back_rows, back = _summed(*laid(coarse.rows, coarse.states, first, begin + whole), forms, backwards=True)
    rows, states = back_rows[:size], {name: tuple(part[:size] for part in state) for name, state in back.items()}
    if last > begin:
        next_block = laid(coarse.rows, coarse.states, begin + whole, last + whole)
        ahead_rows, ahead = _summed(*next_block, forms, backwards=False)
        # The window that begins a block needs nothing of the next one.
        skipped = 1 if first == begin else 0
        later = slice(max(first - begin - 1, 0), None)
        rows, states = _beside(rows, states, ahead_rows[later], _rows_of(ahead, later), skipped, forms)
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


def _rows_of(states: States, chosen: slice) -> States:
    return {name: tuple(part[chosen] for part in state) for name, state in states.items()}
