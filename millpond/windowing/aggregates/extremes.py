"""The smallest and the largest value. NaN spreads, so that the order of combining can't be seen.

>>> least = min_of("v")
>>> least.lower(least.combine(least.lift({"v": 3}), least.lift({"v": 2})))
2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millpond.windowing.aggregates.aggregates import Aggregate, Field, boxed
from millpond.windowing.aggregates.forms import Array, Bools, Cells, FoldedForm, Kinds, Rows, State, column_of, worst


def min_of(of: Field = None) -> Aggregate:
    """Find the smallest value; None of nothing."""
    return boxed("min", of, _smaller, ExtremeForm(column_of(of), largest=False), commutative=True)


def max_of(of: Field = None) -> Aggregate:
    """Find the largest value; None of nothing."""
    return boxed("max", of, _larger, ExtremeForm(column_of(of), largest=True), commutative=True)


@dataclass(frozen=True)
class ExtremeForm(FoldedForm):
    """Finds the smallest or largest number of a column; NaN spreads."""

    largest: bool

    what, exact = "min and max", True

    def result_type(self, name: str, kinds: Kinds) -> pa.DataType | None:  # noqa: ARG002
        """Follow the column, whatever it is."""
        return None if self.column is None else kinds[self.column]

    def start(self, size: int, dtypes: Mapping[str, np.dtype[Any]]) -> State:
        """Begin with the number that every other one beats."""
        dtype = dtypes[self.name]
        return (np.full(size, worst(dtype, largest=self.largest), dtype),)

    def update(self, state: State, rows: Rows) -> None:
        """Keep the better number."""
        # NumPy warns of NaN here, which is a value like others.
        with np.errstate(invalid="ignore"):
            self._better.at(state[0], rows.slots, rows.columns[self.name])

    def combine(self, left: State, right: State, left_rows: Array, right_rows: Array) -> State:  # noqa: ARG002
        """Keep the better number."""
        return (self._better(left[0], right[0]),)

    def accumulate(self, state: State, rows: Array) -> State | None:  # noqa: ARG002
        """Keep the better number."""
        return (self._better.accumulate(state[0], axis=0),)

    def lower(self, state: State, rows: Array) -> Array:  # noqa: ARG002
        """Return the numbers."""
        return state[0]

    def fold(self, before: list[Any], cells: Cells, values: Any, odd: Bools) -> list[Any]:
        """Keep the better number; of equal ones it can't be seen which it is."""
        held = cells.held([value for (value,) in before], values.dtype, odd)
        strange = _strange(values)
        if strange.any():
            odd |= np.logical_or.reduceat(strange[cells.order], cells.first)
        odd[cells.old] |= _strange(held)
        chosen = self._better.reduceat(values[cells.order], cells.first)
        chosen[cells.old] = self._better(chosen[cells.old], held)
        return list(zip(chosen.tolist(), strict=True))

    @property
    def _better(self) -> np.ufunc:
        return np.maximum if self.largest else np.minimum


def _strange(values: Array) -> Bools:
    """Mark where it depends on order which of two numbers is chosen, or on whether there are others."""
    if values.dtype.kind == "i":
        return np.zeros(len(values), np.bool_)
    strange: Bools = np.isnan(values) | (np.signbit(values) & (values == 0))
    return strange


def _smaller(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    if not left or not right:
        return left or right
    return left if left[0] <= right[0] or left[0] != left[0] else right


def _larger(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    if not left or not right:
        return left or right
    return left if left[0] >= right[0] or left[0] != left[0] else right
