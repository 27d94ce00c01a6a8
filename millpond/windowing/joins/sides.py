"""The rows of one side of a join, by key, time and arrival, for as long as they may find a partner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millpond.windowing.columns.columnar import Array
from millpond.windowing.columns.intake import Bools, Ints, check_lengths, keyed, to_numpy, unfit

Batch = tuple[Any, Any, Mapping[str, Any]]
"""Codes of keys, times in microseconds, and columns by name."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows: their keys, times, numbers in the order of arrival, marks and columns.

    `fresh` ones came after the last close, `matched` ones have found a partner.
    """

    keys: Ints
    times: Ints
    arrivals: Ints
    fresh: Bools
    matched: Bools
    columns: dict[str, Array]

    def __len__(self) -> int:
        return len(self.keys)

    def where(self, chosen: Any) -> Kept:
        """Some of the rows, by a mask or by their places."""
        columns = {name: column[chosen] for name, column in self.columns.items()}
        return Kept(
            self.keys[chosen], self.times[chosen], self.arrivals[chosen], self.fresh[chosen], self.matched[chosen],
            columns,
        )  # fmt: skip

    def arrays(self) -> dict[str, Array]:
        """Everything as arrays by name."""
        columns = {f"column.{name}": column for name, column in self.columns.items()}
        own = {"keys": self.keys, "times": self.times, "arrivals": self.arrivals}
        return {**own, "fresh": self.fresh, "matched": self.matched, **columns}

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> Kept:
        """Take up arrays that `arrays` gave."""
        columns = {name.removeprefix("column."): part for name, part in arrays.items() if name.startswith("column.")}
        return cls(
            arrays["keys"], arrays["times"], arrays["arrivals"], arrays["fresh"], arrays["matched"], columns
        )  # fmt: skip


def _nothing() -> Kept:
    none = np.zeros(0, np.int64)
    return Kept(none, none, none, none.astype(np.bool_), none.astype(np.bool_), {})


class Side:
    """Takes batches, and keeps rows sorted. A column keeps the type it came with first, until nulls come."""

    def __init__(self) -> None:
        self._rows = _nothing()
        self._arrived: list[Kept] = []
        self._count = 0

    def read(self, batch: Batch | None) -> Kept:
        """The rows of a batch in the order in which they come, checked, without keeping them."""
        if batch is None or not len(batch[0]):
            return self.rows.where(np.zeros(0, np.int64))
        codes, points = keyed(batch[0], batch[1])
        columns = {name: _payload(column) for name, column in batch[2].items()}
        check_lengths(columns, len(codes))
        known = {name: column.dtype for name, column in self.rows.columns.items()} if self._count else None
        if known is not None and known.keys() != columns.keys():
            raise unfit(", ".join(columns) or "no column", ", ".join(known) or "no column", "others than before")
        for name, dtype in (known or {}).items():
            columns[name] = _as_before(name, columns[name], dtype)
        size = len(codes)
        arrivals = np.arange(self._count, self._count + size)
        return Kept(codes, points, arrivals, np.ones(size, np.bool_), np.zeros(size, np.bool_), columns)

    def take(self, rows: Kept) -> None:
        """Keep rows that were read; late ones may be left out."""
        self._arrived.append(rows)
        if len(rows):
            self._count = int(rows.arrivals[-1]) + 1

    @property
    def rows(self) -> Kept:
        """All rows that are kept, by key, time and arrival."""
        if self._arrived:
            parts = [part for part in (self._rows, *self._arrived) if len(part)] or self._arrived[-1:]
            keys, times, arrivals, fresh, matched = (
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("keys", "times", "arrivals", "fresh", "matched")
            )
            columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns}
            whole = Kept(keys, times, arrivals, fresh, matched, columns)
            self._rows, self._arrived = whole.where(np.lexsort((arrivals, times, keys))), []
        return self._rows

    def settle(self, kept: Bools, matched: Bools) -> None:
        """End a turn: let rows go, and note which have found a partner; those that stay are fresh no more."""
        rows = self.rows
        staying = Kept(rows.keys, rows.times, rows.arrivals, np.zeros(len(rows), np.bool_), matched, rows.columns)
        self._rows = staying.where(kept)

    def export(self) -> dict[str, Any]:
        """The whole state: how many rows have come, and arrays by name."""
        return {"count": self._count, "arrays": self.rows.arrays()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up a state that was exported, or the part of one that belongs to some keys."""
        self._rows, self._arrived, self._count = Kept.of(state["arrays"]), [], state["count"]


def _payload(column: Any) -> Array:
    """A column that is only carried along; with nulls, or of text, as objects."""
    if isinstance(column, pa.Array | pa.ChunkedArray) and column.null_count:
        held = np.empty(len(column), object)
        held[:] = column.to_pylist()
        return held
    found = to_numpy("column", column)
    return found.astype(object) if found.dtype.kind in "US" else found


def _as_before(name: str, column: Array, known: np.dtype[Any]) -> Array:
    """A column of the type that it had before, or of objects if these are the first nulls of it."""
    nulls = column.dtype.kind == "O" and known.kind != "O"
    values = np.array([value for value in column if value is not None]) if nulls else column
    if len(values) and not np.can_cast(values.dtype, known, "safe"):
        raise unfit(name, f"{known}, as in earlier batches", str(values.dtype))
    return column if nulls else column.astype(known, copy=False)
