"""Columns of a batch as Python lists, converted as late and as cheaply as their type allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond.runtime.arrowtypes import bare_hint, reader

Rows = npt.NDArray[np.intp]
Picked = Rows | slice | None
"""Some rows by number, a run of rows, or all of them."""

Units = tuple[list[Any], list[int]]
"""Distinct keys, each with its key group."""


class Column(Protocol):
    """One variable of many rows."""

    def take(self, rows: Picked) -> list[Any]:
        """The values of some rows, or of all."""
        ...

    def distinct(self, groups: npt.NDArray[np.int32]) -> Units:
        """The distinct values with the key group of each."""
        ...


class ListColumn:
    """Values that are Python objects already."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = values

    def take(self, rows: Picked) -> list[Any]:
        """The values of some rows, or of all."""
        if rows is None or isinstance(rows, slice):
            return list(self._values if rows is None else self._values[rows])
        values = self._values
        return [values[row] for row in rows.tolist()]

    def distinct(self, groups: npt.NDArray[np.int32]) -> Units:
        """The distinct values with the key group of each."""
        seen = dict(zip(self._values, groups.tolist(), strict=True))
        return list(seen), list(seen.values())


class NumberColumn:
    """Integers or floats without nulls: a NumPy array until the last moment."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self._values = values

    def take(self, rows: Picked) -> list[Any]:
        """The values of some rows, or of all."""
        values: list[Any] = (self._values if rows is None else self._values[rows]).tolist()
        return values

    def distinct(self, groups: npt.NDArray[np.int32]) -> Units:
        """The distinct values with the key group of each."""
        # By hashing, since sorting all rows to find the distinct ones costs several times as much.
        coded = pa.array(self._values).dictionary_encode()
        units = coded.dictionary.to_numpy(zero_copy_only=False)
        of_unit = np.empty(len(units), dtype=groups.dtype)
        of_unit[coded.indices.to_numpy(zero_copy_only=False)] = groups
        return units.tolist(), of_unit.tolist()


class TextColumn:
    """Strings without nulls: equal strings are one object, so that look-ups hit by identity."""

    def __init__(self, coded: pa.DictionaryArray) -> None:
        self._codes = coded.indices.to_numpy(zero_copy_only=False)
        # The extra None keeps NumPy from making a fixed-width string array.
        self._words = np.array([*coded.dictionary.to_pylist(), None], dtype=object)

    def take(self, rows: Picked) -> list[Any]:
        """The values of some rows, or of all."""
        values: list[Any] = self._words[self._codes if rows is None else self._codes[rows]].tolist()
        return values

    def distinct(self, groups: npt.NDArray[np.int32]) -> Units:
        """The distinct values with the key group of each."""
        first = np.full(len(self._words), -1, dtype=np.int64)
        first[self._codes[::-1]] = np.arange(len(self._codes) - 1, -1, -1)
        used = np.flatnonzero(first >= 0)
        return self._words[used].tolist(), groups[first[used]].tolist()


class ArrowColumn:
    """Any other Arrow column, read by the converter of its type."""

    def __init__(self, array: pa.Array, read: Callable[[pa.Array], list[Any]]) -> None:
        self._array = array
        self._read = read

    def take(self, rows: Picked) -> list[Any]:
        """The values of some rows, or of all."""
        if rows is None or isinstance(rows, slice):
            return self._read(self._array if rows is None else self._array[rows])
        return self._read(self._array.take(pa.array(rows)))

    def distinct(self, groups: npt.NDArray[np.int32]) -> Units:
        """The distinct values with the key group of each."""
        return ListColumn(self.take(None)).distinct(groups)


class KeptColumn:
    """A column that is passed on as it is, from the row to its reply."""

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    def arrow(self, rows: Picked) -> pa.Array:
        """Some rows, or all, as Arrow."""
        if rows is None or isinstance(rows, slice):
            return self._array if rows is None else self._array[rows]
        return self._array.take(pa.array(rows))

    def take(self, rows: Picked) -> list[Any]:
        """Some rows, or all, as values that can travel in a message."""
        return list(self.arrow(rows).to_pylist())


class TupleColumn:
    """A key of several columns."""

    def __init__(self, parts: Sequence[Column]) -> None:
        self._parts = parts

    def take(self, rows: Picked) -> list[Any]:
        """The tuples of some rows, or of all."""
        return list(zip(*(part.take(rows) for part in self._parts), strict=True))

    def distinct(self, groups: npt.NDArray[np.int32]) -> Units:
        """The distinct tuples with the key group of each."""
        return ListColumn(self.take(None)).distinct(groups)


def column_of(array: pa.Array, hint: Any) -> Column:
    """The cheapest column for an Arrow array of a hint."""
    bare = bare_hint(hint)
    if bare in (int, float) and not array.null_count:
        return NumberColumn(array.to_numpy(zero_copy_only=False))
    if bare is str and not array.null_count:
        return TextColumn(array.dictionary_encode())
    return ArrowColumn(array, reader(hint))
