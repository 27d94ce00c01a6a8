"""Keys of any types as numbers 0, 1, 2, … in the order in which they come, whole columns at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Codes = npt.NDArray[np.int64]


class KeyCodes:
    """Gives each key, of one column or several, a number that it keeps. Null is a key like any other.

    >>> codes = KeyCodes(1)
    >>> codes.encode([pa.chunked_array([["b", "a", "b"]])]).tolist()
    [0, 1, 0]
    >>> codes.encode([pa.chunked_array([["c", "a"]])]).tolist(), codes.decode(np.array([2, 0]))[0].to_pylist()
    ([2, 1], ['c', 'b'])
    """

    def __init__(self, columns: int) -> None:
        self._known: list[pa.Array | None] = [None] * columns
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def encode(self, columns: Sequence[pa.ChunkedArray]) -> Codes:
        """Return the numbers of rows' keys; new keys get the next ones."""
        # Keys that are known stand before the rows: they are the first to come, and so get their numbers again.
        whole = [_behind(known, column) for known, column in zip(self._known, columns, strict=True)]
        codes, size = _encode(whole[0])
        for column in whole[1:]:
            more, width = _encode(column)
            # Two numbers below 2**31 each: rows of a task are fewer.
            codes, size = _encode(pa.array(codes * width + more))
        if size > self._size:
            self._known = [_first_rows(column, codes, size) for column in whole]
        before, self._size = self._size, size
        return codes[before:]

    def decode(self, codes: Codes) -> list[pa.Array]:
        """Return the keys of numbers, a column each."""
        places = pa.array(codes)
        return [known.take(places) for known in self._known if known is not None]


def _behind(known: pa.Array | None, column: pa.ChunkedArray) -> pa.Array:
    chunks = column.chunks if known is None else [known, *column.chunks]
    return pa.concat_arrays(chunks) if chunks else pa.array([], column.type)


def _encode(column: pa.Array) -> tuple[Codes, int]:
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def _first_rows(column: pa.Array, codes: Codes, size: int) -> pa.Array:
    """Return the key of each number: that of the row in which it comes first."""
    first = np.empty(size, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return column.take(pa.array(first))
