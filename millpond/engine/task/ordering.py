"""The order of rows within an epoch: what makes a run on many partitions equal to the sequential one.

A row's place is (order column, feed, source, position, tie, duplicate, turn, instance). The tie is a hash of the row's
content, so that rows that share a source position (after an explode) have one order everywhere; the duplicate counts
rows that are equal in all of that, and the turn those that loops of one row sent away.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millpond.errors import RowError
from millpond.state.codec.wire import encode_values

Ints = npt.NDArray[np.int64]


def content_tie(values: tuple[Any, ...]) -> int:
    """Hash a row's content to a signed 64-bit integer."""
    try:
        data = encode_values(values)
    except RowError:
        # A type of the user's own, which need not travel to be a parameter.
        data = encode_values(tuple(_bare(value) for value in values))
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big", signed=True)


def _bare(value: Any) -> Any:
    """Return a value with dataclasses and named tuples as plain tuples."""
    if dataclasses.is_dataclass(value):
        return tuple(_bare(getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, tuple):
        return tuple(_bare(part) for part in value)
    if type(value) in (list, set, frozenset):
        return type(value)(_bare(part) for part in value)
    if type(value) is dict:
        return {_bare(key): _bare(part) for key, part in value.items()}
    return value


def source_ranks(sources: pa.Array) -> Ints:
    """Return sources (file paths, topic partitions) as numbers in the order of their names; no source is -1."""
    coded = sources if pa.types.is_dictionary(sources.type) else sources.dictionary_encode()
    names = coded.dictionary.to_pylist()
    if len(names) <= 1 and not coded.null_count:
        return np.zeros(len(sources), dtype=np.int64)
    ranks = np.empty(len(names) + 1, dtype=np.int64)
    for rank, place in enumerate(sorted(range(len(names)), key=lambda at: names[at])):
        ranks[place] = rank
    ranks[len(names)] = -1
    placed: Ints = ranks[coded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)]
    return placed


def path_ranks(paths: pa.Array) -> Ints:
    """Return the paths of messages as numbers in their order; no path comes first."""
    return source_ranks(paths)


@dataclass(slots=True)
class Places:
    """The places of many rows, as columns."""

    order: Ints
    feed: Ints
    source: Ints
    position: Ints
    tie: Ints
    duplicate: Ints
    turn: Ints
    instance: Ints

    def columns(self) -> tuple[Ints, ...]:
        """Return the columns, most significant first."""
        return (self.order, self.feed, self.source, self.position, self.tie, self.duplicate, self.turn, self.instance)

    def __len__(self) -> int:
        return len(self.order)

    def take(self, rows: npt.NDArray[np.intp]) -> Places:
        """Return the places of some rows."""
        return Places(*(column[rows] for column in self.columns()))

    def sorting(self) -> npt.NDArray[np.intp] | None:
        """Return the rows in order; None if they are in order already."""
        varying = [column for column in self.columns() if len(column) and _varies(column)]
        if not varying:
            return None
        if len(varying) == 1:
            column = varying[0]
            return None if bool((column[1:] >= column[:-1]).all()) else np.argsort(column, kind="stable")
        return np.lexsort(varying[::-1])

    def tied(self) -> npt.NDArray[np.intp]:
        """Return the rows whose place equals that of a neighbour; rows must be in order."""
        if len(self) < 2:
            return np.empty(0, dtype=np.intp)
        same = np.ones(len(self) - 1, dtype=bool)
        for column in self.columns():
            same &= column[1:] == column[:-1]
        marked = np.zeros(len(self), dtype=bool)
        marked[1:] |= same
        marked[:-1] |= same
        return np.flatnonzero(marked)


def join_places(parts: list[Places]) -> Places:
    """Put the places of several batches under each other."""
    if len(parts) == 1:
        return parts[0]
    return Places(*(np.concatenate(columns) for columns in zip(*(part.columns() for part in parts), strict=True)))


def _varies(column: Ints) -> bool:
    return bool((column != column[0]).any())
