"""Edges as columns: those of a snapshot, with what was removed taken out, and as bytes that a checkpoint holds.

>>> edges = Edges.of([("a", 1, ("b", None, None)), ("a", 2, ("c", None, None)), ("a", 3, ("b", None, True))])
>>> edges.sources.tolist(), edges.targets.tolist()
(['a'], ['c'])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millpond.loops.vertices.compressed import Array, Compressed, Floats

EdgeRow = tuple[Any, int, tuple[Any, float | None, bool | None]]
"""A source, the time of the edge, and its target, weight and whether it is removed; without a target, a vertex."""


@dataclass(frozen=True)
class Edges:
    """The edges of a graph: sources, targets, weights if there are any, and vertices that may have no edge."""

    sources: Array
    targets: Array
    weights: Floats | None
    vertices: Array

    @classmethod
    def of(cls, rows: Iterable[EdgeRow]) -> Edges:
        """Return the edges that are there after all rows: a removal takes out all equal edges up to its time."""
        ordered = list(rows)
        gone = [(source, at, row[0]) for source, at, row in ordered if row[2]]
        if gone:
            ordered = _without(ordered, gone)
        sources = [source for source, _, row in ordered if row[0] is not None]
        alone = [source for source, _, row in ordered if row[0] is None]
        kept = [row for _, _, row in ordered if row[0] is not None]
        weights = None
        if any(row[1] is not None for row in kept):
            weights = np.array([1.0 if row[1] is None else row[1] for row in kept], dtype=np.float64)
        return cls(_ids(sources), _ids([row[0] for row in kept]), weights, _ids(alone))

    def __add__(self, other: Edges) -> Edges:
        weights = None
        if self.weights is not None or other.weights is not None:
            weights = np.concatenate([one.known_weights for one in (self, other)])
        return Edges(
            _joined(self.sources, other.sources),
            _joined(self.targets, other.targets),
            weights,
            _joined(self.vertices, other.vertices),
        )

    @property
    def known_weights(self) -> Floats:
        """The weights; an edge without one counts 1."""
        return np.ones(len(self.sources)) if self.weights is None else self.weights

    def graph(self, *, directed: bool) -> Compressed:
        """Return the edges in compressed rows."""
        made = Compressed.of(self.sources, self.targets, self.weights, vertices=self.vertices)
        return made if directed else made.both_ways

    def packed(self) -> bytes:
        """Return the edges as bytes."""
        return packed(
            {"source": self.sources, "target": self.targets},
            {"weight": self.weights} if self.weights is not None else {},
            {"vertex": self.vertices},
        )

    @classmethod
    def unpacked(cls, data: bytes) -> Edges:
        """Read edges."""
        ends, weights, vertices = unpacked(data)
        return cls(ends["source"], ends["target"], weights.get("weight"), vertices["vertex"])


def packed(*tables: dict[str, Array]) -> bytes:
    """Return tables of columns as bytes: Arrow streams, one behind the other."""
    sink = pa.BufferOutputStream()
    for columns in tables:
        table = pa.table({name: pa.array(column) for name, column in columns.items()})
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def unpacked(data: bytes) -> list[dict[str, Array]]:
    """Read tables of columns."""
    source = pa.BufferReader(data)
    found = []
    while source.tell() < len(data):
        table = pa.ipc.open_stream(source).read_all()
        found.append({name: as_array(table[name]) for name in table.column_names})
    return found


def as_array(column: pa.ChunkedArray | pa.Array) -> Array:
    """Return a column as NumPy has it: numbers as they are, text as objects."""
    made: Array = column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
    return made


def _without(rows: Sequence[EdgeRow], gone: Sequence[tuple[Any, int, Any]]) -> list[EdgeRow]:
    last: dict[tuple[Any, Any], int] = {}
    for source, at, target in gone:
        last[source, target] = max(at, last.get((source, target), at))
    return [(source, at, row) for source, at, row in rows if not row[2] and at > last.get((source, row[0]), at - 1)]


def _ids(values: Sequence[Any]) -> Array:
    if not values:
        return np.zeros(0, dtype=np.int64)
    if isinstance(values[0], int) and not isinstance(values[0], bool):
        return np.array(values, dtype=np.int64)
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


def _joined(left: Array, right: Array) -> Array:
    """Return both; of no values the type is not known."""
    if not len(left) or not len(right):
        return right if not len(left) else left
    return np.concatenate([left, right])
