"""Aggregates over whole columns: the partials of many slices as arrays, one entry per slice.

Rows are applied to their slices in the order in which they come, as if one by one, so that it can't be seen how rows
were cut into batches, down to the last bit of a float. A form keeps a tuple of arrays; how many rows a slice has is
kept for all forms together and handed to them. Records of a batch may come in any order, so `first`, `last` and ties go
by time, and only then by arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from millpond.errors import WindowError

Array = npt.NDArray[Any]
State = tuple[Array, ...]
"""The partials of one aggregate for many slices."""

NUMBER = "number"
ANYTHING = "anything"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in the order of their arrival: their slices' places in the state, their times, and their columns."""

    slots: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]
    columns: Mapping[str, Array]


class ColumnForm(Protocol):
    """An aggregate that works on columns.

    `needs` names its columns and whether they must be numbers. `update` changes a state in place. `seal` makes of
    slices what `combine` takes; there the left state is the earlier one, and `rows` of an entry may be zero: then it is
    identity.
    """

    @property
    def needs(self) -> Mapping[str, str]:
        """Its columns, and whether each must be numbers."""
        ...

    def start(self, size: int, dtypes: Mapping[str, np.dtype[Any]]) -> State:
        """Partials of so many slices without rows."""
        ...

    def update(self, state: State, rows: Rows) -> None:
        """Apply rows in their order, in place."""
        ...

    def join(self, left: State, right: State, left_rows: Array, right_rows: Array) -> State:
        """Make one slice of two, entry by entry; rows can go on being applied to it."""
        ...

    def seal(self, state: State, rows: Array) -> State:
        """Make of slices what can be combined."""
        ...

    def accumulate(self, state: State, rows: Array) -> State | None:
        """Combine along the first axis at once, each entry with all before it; None if that must go step by step."""
        ...

    def combine(self, left: State, right: State, left_rows: Array, right_rows: Array) -> State:
        """Combine entry by entry; left is earlier."""
        ...

    def lower(self, state: State, rows: Array) -> Array:
        """The results; every entry has rows."""
        ...


def column_of(of: str | Callable[[Any], Any] | None) -> str | None:
    """The column that an aggregate reads, if it is given by a name; else it has no form over columns."""
    return of if isinstance(of, str) else None


class _Sealed:
    """A form whose slices are combined as they are."""

    def join(self, left: State, right: State, left_rows: Array, right_rows: Array) -> State:
        """Combine."""
        return self.combine(left, right, left_rows, right_rows)

    def combine(self, left: State, right: State, left_rows: Array, right_rows: Array) -> State:  # noqa: ARG002
        """Nothing to combine."""
        return left

    def seal(self, state: State, rows: Array) -> State:  # noqa: ARG002
        """Combined as they are."""
        return state

    def accumulate(self, state: State, rows: Array) -> State | None:  # noqa: ARG002
        """Step by step."""
        return None


@dataclass(frozen=True)
class CountForm(_Sealed):
    """Counts rows; all that it needs is kept anyway."""

    @property
    def needs(self) -> Mapping[str, str]:
        """No column."""
        return {}

    def start(self, size: int, dtypes: Mapping[str, np.dtype[Any]]) -> State:  # noqa: ARG002
        """No arrays."""
        return ()

    def update(self, state: State, rows: Rows) -> None:
        """Nothing to do."""

    def accumulate(self, state: State, rows: Array) -> State | None:  # noqa: ARG002
        """Nothing to do."""
        return state

    def lower(self, state: State, rows: Array) -> Array:  # noqa: ARG002
        """The numbers of rows."""
        return rows


@dataclass(frozen=True)
class SumForm(_Sealed):
    """Adds a column up; integers never wrap around in silence."""

    column: str | None

    @property
    def needs(self) -> Mapping[str, str]:
        """One column of numbers."""
        return {named(self.column, "sum"): NUMBER}

    def start(self, size: int, dtypes: Mapping[str, np.dtype[Any]]) -> State:
        """Zeros."""
        return (np.zeros(size, dtypes[named(self.column, "sum")]),)

    def update(self, state: State, rows: Rows) -> None:
        """Add the rows one after the other."""
        values = rows.columns[named(self.column, "sum")]
        if values.dtype.kind == "i" and len(values):
            _check_total(state[0], values, rows.slots)
        np.add.at(state[0], rows.slots, values)

    def combine(self, left: State, right: State, left_rows: Array, right_rows: Array) -> State:  # noqa: ARG002
        """Add."""
        total = left[0] + right[0]
        if total.dtype.kind == "i" and bool((((left[0] ^ total) & (right[0] ^ total)) < 0).any()):
            raise overflow()
        return (total,)

    def accumulate(self, state: State, rows: Array) -> State | None:  # noqa: ARG002
        """Add up, unless integers might wrap around."""
        values = state[0]
        if values.dtype.kind == "i" and values.size and _magnitude(values) * len(values) >= 2**63:
            return None
        return (np.add.accumulate(values, axis=0),)

    def lower(self, state: State, rows: Array) -> Array:  # noqa: ARG002
        """The sums."""
        return state[0]


@dataclass(frozen=True)
class MeanForm(SumForm):
    """The mean of a column: its sum, divided at the end."""

    def lower(self, state: State, rows: Array) -> Array:
        """The means."""
        means: Array = state[0] / rows
        return means


@dataclass(frozen=True)
class VarianceForm(_Sealed):
    """The variance of a column.

    A slice keeps its first value and sums of distances from it, and so does a window. That value is one of their own,
    so the squares exceed what is wanted at most by a factor of about their rows, however far from zero all values lie,
    and the subtraction in `lower` stays harmless.
    """

    column: str | None
    less: int

    @property
    def needs(self) -> Mapping[str, str]:
        """One column of numbers."""
        return {named(self.column, "variance"): NUMBER}

    def start(self, size: int, dtypes: Mapping[str, np.dtype[Any]]) -> State:  # noqa: ARG002
        """No first value yet, and no distances."""
        return np.full(size, np.nan), np.zeros(size), np.zeros(size)

    def update(self, state: State, rows: Rows) -> None:
        """Take the first value where there is none, then add distances one after the other."""
        first, apart, squares = state
        values = rows.columns[named(self.column, "variance")].astype(np.float64, copy=False)
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
        """The variances; NaN where there are too few rows."""
        _, apart, squares = state
        around_mean = np.maximum(squares - apart * apart / np.maximum(rows, 1), 0.0)
        return np.where(rows > self.less, around_mean / np.maximum(rows - self.less, 1), np.nan)


@dataclass(frozen=True)
class ExtremeForm(_Sealed):
    """The smallest or largest number of a column; NaN spreads."""

    column: str | None
    largest: bool

    @property
    def needs(self) -> Mapping[str, str]:
        """One column of numbers."""
        return {named(self.column, "max" if self.largest else "min"): NUMBER}

    def start(self, size: int, dtypes: Mapping[str, np.dtype[Any]]) -> State:
        """The number that every other one beats."""
        dtype = dtypes[named(self.column, "min")]
        return (np.full(size, _worst(dtype, largest=self.largest), dtype),)

    def update(self, state: State, rows: Rows) -> None:
        """Keep the better number."""
        choose = np.maximum if self.largest else np.minimum
        # NumPy warns of NaN here, which is a value like others.
        with np.errstate(invalid="ignore"):
            choose.at(state[0], rows.slots, rows.columns[named(self.column, "min")])

    def combine(self, left: State, right: State, left_rows: Array, right_rows: Array) -> State:  # noqa: ARG002
        """Keep the better number."""
        return (np.maximum(left[0], right[0]) if self.largest else np.minimum(left[0], right[0]),)

    def accumulate(self, state: State, rows: Array) -> State | None:  # noqa: ARG002
        """Keep the better number."""
        return ((np.maximum if self.largest else np.minimum).accumulate(state[0], axis=0),)

    def lower(self, state: State, rows: Array) -> Array:  # noqa: ARG002
        """The numbers."""
        return state[0]


@dataclass(frozen=True)
class PickForm(_Sealed):
    """A column's value of one row: of the first or last, or of that with the smallest or largest `by`.

    Kept are whether there is one, its rank, its time and its value. Without `by` the time is the rank, unless what it
    is chosen by is no column (`by_column`).
    """

    by: str | None
    of: str | None
    last: bool
    by_column: bool = True

    @property
    def needs(self) -> Mapping[str, str]:
        """The column that is shown, and the one it is chosen by."""
        if not self.by_column:
            named(None, "what argmin and argmax choose by")
        by = {} if self.by is None else {self.by: NUMBER}
        return {named(self.of, "first, last, argmin and argmax"): ANYTHING, **by}

    def start(self, size: int, dtypes: Mapping[str, np.dtype[Any]]) -> State:
        """No row yet."""
        rank = np.dtype(np.int64) if self.by is None else dtypes[self.by]
        value = np.zeros(size, dtypes[named(self.of, "first")])
        return np.zeros(size, np.bool_), np.zeros(size, rank), np.zeros(size, np.int64), value

    def update(self, state: State, rows: Rows) -> None:
        """Find the best row of each slice, then put it in the place of a worse one."""
        ranks = rows.times if self.by is None else rows.columns[self.by]
        best = _best_rows(rows.slots, ranks, len(state[0]), largest=self.last)
        if self.by is not None:
            tied = _best_rows(rows.slots[best], rows.times[best], len(state[0]), largest=False)
            best = best[tied]
        # Of rows that tie in everything the first stays, for `last` the last one; what is written last stays.
        best = best if self._newest_wins else best[::-1]
        chosen = np.full(len(state[0]), -1, np.int64)
        chosen[rows.slots[best]] = best
        slots = np.flatnonzero(chosen >= 0)
        row = chosen[slots]
        value = rows.columns[named(self.of, "first")][row]
        new = (np.ones(len(row), np.bool_), ranks[row], rows.times[row], value)
        better = self._better(new, tuple(part[slots] for part in state))
        for part, fresh in zip(state, new, strict=True):
            part[slots[better]] = fresh[better]

    def combine(self, left: State, right: State, left_rows: Array, right_rows: Array) -> State:  # noqa: ARG002
        """Keep the better row; the earlier one if they tie."""
        better = self._better(right, left)
        return tuple(np.where(better, new, old) for new, old in zip(right, left, strict=True))

    def lower(self, state: State, rows: Array) -> Array:  # noqa: ARG002
        """The values."""
        return state[3]

    @property
    def _newest_wins(self) -> bool:
        return self.by is None and self.last

    def _better(self, new: State, old: State) -> Array:
        ahead = _beats(new[1], old[1], largest=self.last)
        behind = _beats(old[1], new[1], largest=self.last)
        tie = new[2] >= old[2] if self._newest_wins else new[2] < old[2]
        better: Array = new[0] & (~old[0] | ahead | (~behind & tie))
        return better


def named(column: str | None, what: str) -> str:
    """The column's name, or the error that there is none."""
    if column is None:
        raise WindowError(
            "MP613",
            f"{what} over columns needs the name of its column",
            expected="a name: the function would have to be called for every row",
            found="a function of the record, or nothing",
            hint="compute a column first and name it: `sum_of('amount')`",
        )
    return column


def overflow() -> WindowError:
    """Return the error for a sum of integers that 64 bits do not hold."""
    return WindowError(
        "MP614",
        "a sum of integers does not fit 64 bits",
        expected="sums between -2**63 and 2**63 - 1",
        found="a larger one",
        hint="convert the column to float64, or divide it first",
    )


def _check_total(sums: Array, values: Array, slots: Array) -> None:
    if _magnitude(sums) + len(values) * _magnitude(values) < 2**63:
        return
    # Rare: look closer. Floats are off by far less than the margin that is left here.
    totals = sums + np.bincount(slots, weights=values, minlength=len(sums))
    if float(np.abs(totals).max()) > 2.0**63 * (1 - 2.0**-20):
        raise overflow()


def _magnitude(values: Array) -> int:
    return max(abs(int(values.max())), abs(int(values.min())))


def _worst(dtype: np.dtype[Any], *, largest: bool) -> Any:
    if dtype.kind == "f":
        return -np.inf if largest else np.inf
    return np.iinfo(dtype).min if largest else np.iinfo(dtype).max


def _best_rows(slots: Array, ranks: Array, size: int, *, largest: bool) -> Array:
    """The rows whose rank is the best of their slot, in order; NaN is better than any number."""
    best = np.full(size, _worst(ranks.dtype, largest=largest), ranks.dtype)
    with np.errstate(invalid="ignore"):  # NaN is seen to below.
        (np.maximum if largest else np.minimum).at(best, slots, ranks)
    mine = best[slots]
    held = ranks == mine
    if ranks.dtype.kind == "f":
        held |= np.isnan(ranks)
    return np.flatnonzero(held)


def _beats(one: Array, other: Array, *, largest: bool) -> Array:
    ahead: Array = one > other if largest else one < other
    if one.dtype.kind == "f":
        ahead = ahead | (np.isnan(one) & ~np.isnan(other))
    return ahead
