"""Sums, counts and means.

>>> total = sum_of("v")
>>> total.lower(total.combine(total.lift({"v": 3}), total.lift({"v": 4})))
7
>>> mean = mean_of()
>>> mean.lower(mean.combine(mean.lift(3), mean.lift(4)))
3.5
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import add, sub
from typing import Any, Final

import numpy as np
import pyarrow as pa

from millpond.errors import WindowError
from millpond.windowing.aggregates.aggregates import Aggregate, Field, numbers_reader, read_by
from millpond.windowing.aggregates.forms import (
    Array,
    Bools,
    Cells,
    FoldedForm,
    Kinds,
    Rows,
    State,
    column_of,
    magnitude,
)

Number = int | float

DECIMAL_DIGITS: Final = 38
"""The longest decimals that Spark has."""

_WHOLE_MAX: Final = 2.0**62
"""Magnitudes of integers whose sum is below that, though computed in floats, are far from wrapping around."""


def sum_of(of: Field = None, *, integers: bool = False) -> Aggregate:
    """Add numbers up; say `integers` if they are, and old slices can be subtracted without loss."""
    return Aggregate(
        "sum", numbers_reader(of), add, _same, 0, commutative=True, inverse=sub if integers else None,
        partial_type=int if integers else int | float, columns=SumForm(column_of(of)),
        reads=read_by(of), options=("integers",) if integers else (), itself=of is None,
    )  # fmt: skip


def count() -> Aggregate:
    """Count records."""
    return Aggregate(
        "count", _one, add, _same, 0, commutative=True, inverse=sub, partial_type=int, columns=CountForm(None), reads=()
    )


def mean_of(of: Field = None) -> Aggregate:
    """Compute the arithmetic mean; None of nothing."""
    read = numbers_reader(of)

    def lift(record: Any) -> tuple[int, Number]:
        return 1, read(record)

    return Aggregate(
        "mean", lift, _add_pairs, _mean, (0, 0), commutative=True,
        partial_type=tuple[int, int | float], columns=MeanForm(column_of(of)), reads=read_by(of), itself=of is None,
    )  # fmt: skip


class CountForm(FoldedForm):
    """Counts rows; all that it needs is kept anyway."""

    what = "count"

    @property
    def needs(self) -> Mapping[str, str]:
        """No column."""
        return {}

    @property
    def named(self) -> set[str] | None:
        """No column."""
        return set()

    def result_type(self, name: str, kinds: Kinds) -> pa.DataType | None:  # noqa: ARG002
        """Whole numbers."""
        return pa.int64()

    def start(self, size: int, dtypes: Mapping[str, np.dtype[Any]]) -> State:  # noqa: ARG002
        """No arrays."""
        return ()

    def update(self, state: State, rows: Rows) -> None:
        """Nothing to do."""

    def combine(self, left: State, right: State, left_rows: Array, right_rows: Array) -> State:  # noqa: ARG002
        """Nothing to do."""
        return left

    def accumulate(self, state: State, rows: Array) -> State | None:  # noqa: ARG002
        """Nothing to do."""
        return state

    def lower(self, state: State, rows: Array) -> Array:  # noqa: ARG002
        """Return the numbers of rows."""
        return rows

    def fold(self, before: list[Any], cells: Cells, values: Any, odd: Bools) -> list[Any]:  # noqa: ARG002
        """Count."""
        return cells.counts(before)


class SumForm(FoldedForm):
    """Adds a column up; integers never wrap around in silence."""

    what = "sum"

    def result_type(self, name: str, kinds: Kinds) -> pa.DataType | None:
        """Follow the column: floats, integers, or decimals of its scale."""
        if self.column is None:
            return None
        kind = kinds[self.column]
        if pa.types.is_decimal(kind):
            return pa.decimal128(DECIMAL_DIGITS, kind.scale)
        self.require_number(name, kinds)
        return pa.float64() if pa.types.is_floating(kind) else pa.int64()

    def start(self, size: int, dtypes: Mapping[str, np.dtype[Any]]) -> State:
        """Begin with zeros."""
        return (np.zeros(size, dtypes[self.name]),)

    def update(self, state: State, rows: Rows) -> None:
        """Add the rows one after the other."""
        values = rows.columns[self.name]
        if values.dtype.kind == "i" and len(values):
            _check_total(state[0], values, rows.slots)
        np.add.at(state[0], rows.slots, values)

    def combine(self, left: State, right: State, left_rows: Array, right_rows: Array) -> State:  # noqa: ARG002
        """Add."""
        total = left[0] + right[0]
        if total.dtype.kind == "i" and bool((((left[0] ^ total) & (right[0] ^ total)) < 0).any()):
            raise _overflow()
        return (total,)

    def accumulate(self, state: State, rows: Array) -> State | None:  # noqa: ARG002
        """Add up, unless integers might wrap around."""
        values = state[0]
        if values.dtype.kind == "i" and values.size and magnitude(values) * len(values) >= 2**63:
            return None
        return (np.add.accumulate(values, axis=0),)

    def lower(self, state: State, rows: Array) -> Array:  # noqa: ARG002
        """Return the sums."""
        return state[0]

    def fold(self, before: list[Any], cells: Cells, values: Any, odd: Bools) -> list[Any]:
        """Go on from what was held, row by row."""
        whole = values.dtype.kind == "i"
        # Added to the negative zero, every float stays as it is, the negative zero too.
        sums = np.full(len(cells.first), 0 if whole else -0.0, values.dtype)
        sums[cells.old] = cells.held(before, values.dtype, odd)
        if whole and magnitude(sums) + len(values) * magnitude(values) >= 2**63:
            magnitudes = np.add.reduceat(np.abs(values.astype(np.float64))[cells.order], cells.first)
            odd |= magnitudes + np.abs(sums.astype(np.float64)) >= _WHOLE_MAX
        np.add.at(sums, cells.of_rows, values)
        if not whole:
            odd |= ~np.isfinite(sums)
        found: list[Any] = sums.tolist()
        return found


class MeanForm(SumForm):
    """Computes the mean of a column: its sum, divided at the end."""

    what = "mean"

    def result_type(self, name: str, kinds: Kinds) -> pa.DataType | None:
        """Floats, of numbers alone."""
        if self.column is None:
            return None
        self.require_number(name, kinds)
        return pa.float64()

    def lower(self, state: State, rows: Array) -> Array:
        """Return the means."""
        means: Array = state[0] / rows
        return means

    def fold(self, before: list[Any], cells: Cells, values: Any, odd: Bools) -> list[Any]:
        """Count and add up."""
        counts = cells.counts([count for count, _ in before])
        return list(zip(counts, super().fold([total for _, total in before], cells, values, odd), strict=True))


def _check_total(sums: Array, values: Array, slots: Array) -> None:
    if magnitude(sums) + len(values) * magnitude(values) < 2**63:
        return
    # Rare: look closer. Floats are off by far less than the margin that is left here.
    totals = sums + np.bincount(slots, weights=values, minlength=len(sums))
    if float(np.abs(totals).max()) > 2.0**63 * (1 - 2.0**-20):
        raise _overflow()


def _overflow() -> WindowError:
    return WindowError(
        "MP614",
        "a sum of integers does not fit 64 bits",
        expected="sums between -2**63 and 2**63 - 1",
        found="a larger one",
        hint="convert the column to float64, or divide it first",
    )


def _add_pairs(left: tuple[int, Number], right: tuple[int, Number]) -> tuple[int, Number]:
    return left[0] + right[0], left[1] + right[1]


def _mean(partial: tuple[int, Number]) -> float | None:
    return partial[1] / partial[0] if partial[0] else None


def _one(_record: Any) -> int:
    return 1


def _same(partial: Any) -> Any:
    return partial
