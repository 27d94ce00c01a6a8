"""The value of one record: of the first or last, or of that with the smallest or largest rank.

NaN is a better rank than any number, so that the order of combining can't be seen. Where two records tie, the earlier
one wins, for `last_of` the later one.

>>> dearest = argmax("price", of="id")
>>> dearest.lower(dearest.combine(dearest.lift({"id": 7, "price": 3}), dearest.lift({"id": 8, "price": 3})))
7
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millpond.windowing.aggregates.aggregates import Aggregate, Field, boxed, read_by, reader
from millpond.windowing.aggregates.forms import (
    ANYTHING,
    NUMBER,
    Array,
    ColumnForm,
    Kinds,
    Rows,
    State,
    column_of,
    no_column,
    worst,
)


def first_of(of: Field = None) -> Aggregate:
    """Take the value of the first record; None of nothing."""
    return boxed("first", of, _earlier, PickForm(column_of(of), None, last=False))


def last_of(of: Field = None) -> Aggregate:
    """Take the value of the last record; None of nothing."""
    return boxed("last", of, _later, PickForm(column_of(of), None, last=True))


def argmin(by: Field, of: Field = None) -> Aggregate:
    """Take `of` of the record whose `by` is smallest; None of nothing."""
    return _arg("argmin", by, of, lambda a, b: a <= b or a != a, largest=False)  # noqa: PLR0124 - NaN


def argmax(by: Field, of: Field = None) -> Aggregate:
    """Take `of` of the record whose `by` is largest; None of nothing."""
    return _arg("argmax", by, of, lambda a, b: a >= b or a != a, largest=True)  # noqa: PLR0124 - NaN


@dataclass(frozen=True)
class PickForm(ColumnForm):
    """Picks a column's value of one row: of the first or last, or of that with the smallest or largest `by`.

    Kept are whether there is one, its rank, its time and its value. Without `by` the time is the rank, unless what it
    is chosen by is no column (`by_column`).
    """

    by: str | None
    last: bool
    by_column: bool = True

    what, ordered = "first, last, argmin and argmax", True

    @property
    def needs(self) -> Mapping[str, str]:
        """The column that is shown, and the one it is chosen by."""
        if not self.by_column:
            raise no_column("what argmin and argmax choose by")
        by = {} if self.by is None else {self.by: NUMBER}
        return {self.name: ANYTHING, **by}

    @property
    def named(self) -> set[str] | None:
        """The columns that it reads; None if it may read any."""
        return super().named if self.by_column else None

    def result_type(self, name: str, kinds: Kinds) -> pa.DataType | None:  # noqa: ARG002
        """Follow the column that is shown; a whole record is a struct."""
        if self.column is not None:
            return kinds[self.column]
        return pa.struct([pa.field(column, kind) for column, kind in kinds.items()])

    def start(self, size: int, dtypes: Mapping[str, np.dtype[Any]]) -> State:
        """No row yet."""
        rank = np.dtype(np.int64) if self.by is None else dtypes[self.by]
        value = np.zeros(size, dtypes[self.name])
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
        new = (np.ones(len(row), np.bool_), ranks[row], rows.times[row], rows.columns[self.name][row])
        better = self._better(new, tuple(part[slots] for part in state))
        for part, fresh in zip(state, new, strict=True):
            part[slots[better]] = fresh[better]

    def combine(self, left: State, right: State, left_rows: Array, right_rows: Array) -> State:  # noqa: ARG002
        """Keep the better row; the earlier one if they tie."""
        better = self._better(right, left)
        return tuple(np.where(better, new, old) for new, old in zip(right, left, strict=True))

    def lower(self, state: State, rows: Array) -> Array:  # noqa: ARG002
        """Return the values."""
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


def _arg(name: str, by: Field, of: Field, keeps: Callable[[Any, Any], bool], *, largest: bool) -> Aggregate:
    rank, read = reader(by), reader(of)

    def lift(record: Any) -> tuple[Any, ...]:
        return rank(record), read(record)

    def choose(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
        if not left or not right:
            return left or right
        return left if keeps(left[0], right[0]) else right

    return Aggregate(
        name, lift, choose, _second, (), partial_type=tuple[Any, ...],
        columns=PickForm(column_of(of), column_of(by), last=largest, by_column=isinstance(by, str)),
        reads=read_by(of, by),
    )  # fmt: skip


def _earlier(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    return left or right


def _later(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    return right or left


def _second(partial: tuple[Any, ...]) -> Any:
    return partial[1] if partial else None


def _best_rows(slots: Array, ranks: Array, size: int, *, largest: bool) -> Array:
    """Find the rows whose rank is the best of their slot, in order; NaN is better than any number."""
    best = np.full(size, worst(ranks.dtype, largest=largest), ranks.dtype)
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
