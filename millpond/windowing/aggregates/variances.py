"""Variances, by distances from the first value.

>>> spread = variance_of()
>>> spread.lower(spread.combine(spread.lift(3), spread.lift(5)))
1.0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millpond.windowing.aggregates.aggregates import Aggregate, Field, read_by, reader
from millpond.windowing.aggregates.forms import Array, Bools, Cells, FoldedForm, Kinds, Rows, State, column_of

Moments = tuple[int, float, float, float]
"""How many, one number to measure from, the sum of distances from it, and the sum of their squares."""


def variance_of(of: Field = None, *, sample: bool = False) -> Aggregate:
    """Compute the variance, of all or of a sample, by distances from the first value; None if there is too little."""
    read = reader(of)
    less = 1 if sample else 0

    def lift(record: Any) -> Moments:
        value = float(read(record))
        nothing = value - value  # But NaN is as far from itself as from all others, and so is what is infinite.
        return 1, value, nothing, nothing

    def lower(partial: Moments) -> float | None:
        many, _, apart, squares = partial
        return max(squares - apart * apart / many, 0.0) / (many - less) if many > less else None

    return Aggregate(
        "variance", lift, combine_moments, lower, (0, 0.0, 0.0, 0.0), commutative=True,
        partial_type=tuple[int, float, float, float], columns=VarianceForm(column_of(of), less),
        reads=read_by(of), options=("of a sample" if sample else "of all",), itself=of is None,
    )  # fmt: skip


def combine_moments(left: Moments, right: Moments) -> Moments:
    """Measure the right one's distances from the left one's number, as `VarianceForm` does.

    That number is one of the values, so squares exceed what is wanted at most by a factor of about their number,
    however far from zero all of them lie.
    """
    if not left[0]:
        return right
    if not right[0]:
        return left
    many, moved = right[0], right[1] - left[1]
    squares = right[3] + 2 * moved * right[2] + many * moved * moved
    return left[0] + many, left[1], left[2] + right[2] + many * moved, left[3] + squares


@dataclass(frozen=True)
class VarianceForm(FoldedForm):
    """Computes the variance of a column.

    A slice keeps its first value and sums of distances from it, and so does a window. That value is one of their own,
    so the squares exceed what is wanted at most by a factor of about their rows, however far from zero all values lie,
    and the subtraction in `lower` stays harmless.
    """

    less: int

    what = "variance"

    def result_type(self, name: str, kinds: Kinds) -> pa.DataType | None:  # noqa: ARG002
        """Floats."""
        return pa.float64()

    def start(self, size: int, dtypes: Mapping[str, np.dtype[Any]]) -> State:  # noqa: ARG002
        """No first value yet, and no distances."""
        return np.full(size, np.nan), np.zeros(size), np.zeros(size)

    def update(self, state: State, rows: Rows) -> None:
        """Take the first value where there is none, then add distances one after the other."""
        first, apart, squares = state
        values = rows.columns[self.name].astype(np.float64, copy=False)
        fresh = np.flatnonzero(np.isnan(first[rows.slots]) & ~np.isnan(values))
        first[rows.slots[fresh[::-1]]] = values[fresh[::-1]]  # The last to be written stays: the first to arrive.
        distances = values - first[rows.slots]
        np.add.at(apart, rows.slots, distances)
        np.add.at(squares, rows.slots, distances * distances)

    def combine(self, left: State, right: State, left_rows: Array, right_rows: Array) -> State:
        """Measure the right one's distances from the left one's first value."""
        moved = np.where((left_rows > 0) & (right_rows > 0), right[0] - left[0], 0.0)
        first = np.where(left_rows > 0, left[0], right[0])
        squares = right[2] + 2 * moved * right[1] + right_rows * moved * moved
        return first, left[1] + right[1] + right_rows * moved, left[2] + squares

    def lower(self, state: State, rows: Array) -> Array:
        """Return the variances; NaN where there are too few rows."""
        _, apart, squares = state
        around_mean = np.maximum(squares - apart * apart / np.maximum(rows, 1), 0.0)
        return np.where(rows > self.less, around_mean / np.maximum(rows - self.less, 1), np.nan)

    def absent(self, rows: Array) -> Bools | None:
        """Mark those of too few rows."""
        few: Bools = rows <= self.less
        return few

    def fold(self, before: list[Any], cells: Cells, values: Any, odd: Bools) -> list[Any]:
        """Add moments as `combine_moments` does: one row is no distance from itself, so its own sums are zeros."""
        values = values.astype(np.float64, copy=False)
        counts = cells.counts([count for count, *_ in before])
        held = np.array([moments for _, *moments in before], np.float64).reshape(-1, 3)
        base = values[cells.order[cells.first]]
        apart, squares = np.zeros(len(base)), np.zeros(len(base))
        base[cells.old], apart[cells.old], squares[cells.old] = held.T
        moved = values - base[cells.of_rows]
        np.add.at(apart, cells.of_rows, moved)
        np.add.at(squares, cells.of_rows, moved * moved)
        odd |= ~(np.isfinite(apart) & np.isfinite(squares))
        return list(zip(counts, base.tolist(), apart.tolist(), squares.tolist(), strict=True))
