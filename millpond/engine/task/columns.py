"""Columns of a batch as Python lists, converted as late and as cheaply as their type allows."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond.engine.arrowtypes import bare_hint, reader

Rows = npt.NDArray[np.intp]
Picked = Rows | slice | None
"""Some rows by number, a run of rows, or all of them."""

SAMPLE_ROWS = 4096
"""So many texts tell whether the others repeat."""

Coded = tuple[list[Any] | npt.NDArray[Any], npt.NDArray[Any]]
"""Distinct values, numbers as an array, and for each row the place of its value among them."""

_FIXED: Final = frozenset(
    (int, float, str, bytes, bool, type(None), datetime.date, datetime.datetime, datetime.time, datetime.timedelta)
)
"""Types whose values nobody can change; of others nobody asks."""


class Column(Protocol):
    """One variable of many rows."""

    def take(self, rows: Picked) -> list[Any]:
        """Return the values of some rows, or of all."""
        ...

    def distinct(self) -> Coded:
        """Return the distinct values, and which of them each row has."""
        ...


class ListColumn:
    """Values that are Python objects already."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = values

    def take(self, rows: Picked) -> list[Any]:
        """Return the values of some rows, or of all."""
        if rows is None or isinstance(rows, slice):
            return list(self._values if rows is None else self._values[rows])
        values = self._values
        return [values[row] for row in rows.tolist()]

    @property
    def may_change(self) -> bool:
        """Whether some of the values can be changed in place: whoever takes them twice may find them changed."""
        return not _FIXED.issuperset(map(type, self._values))

    def distinct(self) -> Coded:
        """Return the distinct values, and which of them each row has."""
        known: dict[Any, int] = {}
        codes = [known.setdefault(value, len(known)) for value in self._values]
        return list(known), np.array(codes, dtype=np.int64)


class NumberColumn:
    """Integers or floats without nulls: a NumPy array until the last moment."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self._values = values

    def take(self, rows: Picked) -> list[Any]:
        """Return the values of some rows, or of all."""
        values: list[Any] = (self._values if rows is None else self._values[rows]).tolist()
        return values

    def numbers(self) -> npt.NDArray[Any]:
        """Return all values."""
        return self._values

    def distinct(self) -> Coded:
        """Return the distinct values, and which of them each row has."""
        # By hashing, since sorting all rows to find the distinct ones costs several times as much.
        coded = pa.array(self._values).dictionary_encode()
        return coded.dictionary.to_numpy(zero_copy_only=False), coded.indices.to_numpy(zero_copy_only=False)


class TextColumn:
    """Strings without nulls: equal strings are one object, so that look-ups hit by identity."""

    def __init__(self, coded: pa.DictionaryArray) -> None:
        self._codes = coded.indices.to_numpy(zero_copy_only=False)
        # The extra None keeps NumPy from making a fixed-width string array.
        self._words = np.array([*coded.dictionary.to_pylist(), None], dtype=object)

    def take(self, rows: Picked) -> list[Any]:
        """Return the values of some rows, or of all."""
        values: list[Any] = self._words[self._codes if rows is None else self._codes[rows]].tolist()
        return values

    def distinct(self) -> Coded:
        """Return the distinct values, and which of them each row has."""
        return self._words[:-1].tolist(), self._codes


class ArrowColumn:
    """Any other Arrow column, read by the converter of its type."""

    def __init__(self, array: pa.Array, read: Callable[[pa.Array], list[Any]]) -> None:
        self._array = array
        self._read = read

    def take(self, rows: Picked) -> list[Any]:
        """Return the values of some rows, or of all."""
        if rows is None or isinstance(rows, slice):
            return self._read(self._array if rows is None else self._array[rows])
        return self._read(self._array.take(pa.array(rows)))

    def numbers(self, part: int) -> npt.NDArray[Any] | None:
        """Return all values of one part of a tuple, if these are numbers and none is missing."""
        whole = self._array
        if not pa.types.is_struct(whole.type) or whole.null_count:
            return None
        values = whole.field(f"_{part + 1}")
        if values.null_count or not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            return None
        numbers: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
        return numbers

    def distinct(self) -> Coded:
        """Return the distinct values, and which of them each row has."""
        return ListColumn(self.take(None)).distinct()


class KeptColumn:
    """A column that is passed on as it is, from the row to its reply."""

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    def arrow(self, rows: Picked) -> pa.Array:
        """Make Arrow of some rows, or of all."""
        if rows is None or isinstance(rows, slice):
            return self._array if rows is None else self._array[rows]
        return self._array.take(pa.array(rows))

    def take(self, rows: Picked) -> list[Any]:
        """Make values that can travel in a message of some rows, or of all."""
        return list(self.arrow(rows).to_pylist())


class TupleColumn:
    """A key of several columns."""

    def __init__(self, parts: Sequence[Column]) -> None:
        self._parts = parts

    def take(self, rows: Picked) -> list[Any]:
        """Return the tuples of some rows, or of all."""
        return list(zip(*(part.take(rows) for part in self._parts), strict=True))

    def distinct(self) -> Coded:
        """Return the distinct tuples, and which of them each row has."""
        return ListColumn(self.take(None)).distinct()


def column_of(array: pa.Array, hint: Any, *, key: bool = False) -> Column:
    """Return the cheapest column for an Arrow array of a hint; the distinct values of a key are asked for."""
    bare = hint if type(hint) is type else bare_hint(hint)
    if bare in (int, float) and not array.null_count:
        return NumberColumn(array.to_numpy(zero_copy_only=False))
    if bare is str and not array.null_count:
        # A dictionary of other rows would hold words that these rows do not have.
        plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        return (
            TextColumn(plain.dictionary_encode()) if key or _repeats(plain) else ArrowColumn(plain, pa.Array.to_pylist)
        )
    return ArrowColumn(array, reader(hint))


def numbers_of(column: Column, part: int | None) -> npt.NDArray[Any] | None:
    """Return all values of a column, or of one part of its tuples, if they are numbers and none is missing."""
    if part is None:
        return column.numbers() if isinstance(column, NumberColumn) else None
    return column.numbers(part) if isinstance(column, ArrowColumn) else None


def _repeats(texts: pa.Array) -> bool:
    """Say whether texts repeat enough for it to pay to look for equal ones, by the first of them."""
    sample = texts[:SAMPLE_ROWS]
    return len(texts) < SAMPLE_ROWS or 2 * len(sample.unique()) < len(sample)
