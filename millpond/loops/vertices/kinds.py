"""Graphs as what windows iterate: snapshots of edges, by something ready made or by a program of vertices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from millpond.errors import LoopError
from millpond.loops.combining import shard_of
from millpond.loops.contexts import Context
from millpond.loops.kinds import LoopIteration, LoopKind, bounds_of
from millpond.loops.lanes import Bounds, Packed
from millpond.loops.synchrony import Synchrony, strict
from millpond.loops.termination import Condition
from millpond.loops.vertices.edges import EdgeRow, Edges
from millpond.loops.vertices.ready import Outcome, Ready
from millpond.loops.vertices.vertex import Vertex, message_of, vertex_rows
from millpond.state.codec.valuecodec import ValueCodec

VERSION: Final = b"\x01"
"""The first byte of what a snapshot leaves to the next one (docs/FORMAT.md)."""

_TUPLE: Any = tuple
_LIST: Any = list
_DICT: Any = dict


def edge_type(vertex: Any) -> Any:
    """Return the type of rows: a source, microseconds, and target, weight and whether the edge is removed."""
    return _TUPLE[vertex, int, _TUPLE[vertex | None, float | None, bool | None]]


class EdgePacking:
    """Rows of edges as bytes."""

    def __init__(self, vertex: Any) -> None:
        self._one, self._many = ValueCodec(edge_type(vertex)), ValueCodec(_LIST[edge_type(vertex)])

    def pack(self, rows: Iterable[EdgeRow]) -> bytes:
        """Return rows as bytes, in the order of time."""
        return self._many.encode(sorted(rows, key=lambda row: (row[1], self._one.encode(row))))

    def rows(self, packed: Packed) -> list[EdgeRow]:
        """Return rows that were packed by shard."""
        return [row for shard in sorted(packed) for row in self._many.decode(packed[shard])]


class SnapshotKind:
    """Something ready made, over snapshots; if they are `growing`, each has the edges of all before it, too.

    Otherwise a `warm` start takes nothing but what the last snapshot knew of the vertices.
    """

    def __init__(self, ready: Ready, vertex: Any, *, directed: bool = True, growing: bool = False) -> None:
        self.ready, self.vertex, self.directed, self.persists = ready, vertex, directed, growing
        self.module = "snapshots"
        self.row_type = edge_type(vertex)
        self.stored_type = bytes
        self.carried_type = bytes
        self.result_names = ready.names
        self.result_hints = (vertex, *(vertex if hint is None else hint for hint in ready.hints))

    def __reduce__(self) -> tuple[Any, ...]:
        return _snapshots, (self.ready, self.vertex, self.directed, self.persists)

    def pack(self, rows: Iterable[EdgeRow]) -> bytes:
        """Return rows as bytes."""
        return EdgePacking(self.vertex).pack(rows)

    def begin(self, window: Bounds, packed: Packed, carried: Any) -> Snapshot:  # noqa: ARG002
        """Compute a snapshot: as a whole, since nothing of it is a round by itself."""
        edges = Edges.of(EdgePacking(self.vertex).rows(packed))
        if carried and carried[:1] != VERSION:
            raise LoopError(
                "MP868",
                "what the last snapshot left was written by another version",
                expected=f"version {VERSION[0]}",
                found=f"version {carried[0]}",
                hint="go on with the version that wrote it, or begin a new checkpoint",
            )
        return Snapshot(self.ready.grow(edges, carried[1:], directed=self.directed))

    def thaw(self, window: Bounds, stored: Any, carried: Any) -> Snapshot:  # noqa: ARG002
        """Go on with a snapshot, which is never stored before it is over."""
        raise AssertionError(window)

    def nothing(self) -> Any:
        """Return what the first snapshot begins with."""
        return b""


class Snapshot:
    """What came of a snapshot."""

    ended = True

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def advance(self, budget: int | None) -> int:  # noqa: ARG002
        """Do nothing: it is over."""
        return 0

    def rows(self) -> list[tuple[Any, ...]]:
        """Return a row for each vertex."""
        return list(zip(*(column.tolist() for column in self._outcome.columns.values()), strict=True))

    def persisted(self) -> Any:
        """Return what the next snapshot begins with."""
        return VERSION + self._outcome.carried

    def stored(self) -> Any:
        """Return nothing: it is over."""
        return b""


class VertexKind(LoopKind):
    """A program of vertices, over snapshots."""

    def __init__(
        self,
        program: type[Vertex],
        until: Condition,
        synchrony: Synchrony = strict,
        *,
        vertex: Any,
        directed: bool = True,
    ) -> None:
        super().__init__(program, until, synchrony, key=vertex, columns={"target": vertex}, message=message_of(program))
        self.row_type = edge_type(vertex)
        self.vertex, self.directed = vertex, directed

    def __reduce__(self) -> tuple[Any, ...]:
        return _vertices, (self.loop, self.until, self.synchrony, self.vertex, self.directed)

    def pack(self, rows: Iterable[EdgeRow]) -> bytes:
        """Return rows as bytes."""
        return EdgePacking(self.vertex).pack(rows)

    wide = True

    def shards(self, key: Any, row: Any) -> list[int]:
        """Return the shards of both ends of an edge: a vertex is entered with the edges that come to it, too."""
        return sorted({shard_of(end) for end in (key, row[0]) if end is not None})

    def entered(self, shard: int, packed: bytes) -> dict[Any, list[Any]]:
        """Return the vertices of a shard, with their edges."""
        rows = vertex_rows(Edges.of(EdgePacking(self.vertex).rows({shard: packed})), directed=self.directed)
        return {vertex: own for vertex, own in rows if shard_of(vertex) == shard}

    def begin(self, window: Bounds, packed: Packed, carried: Any) -> LoopIteration:
        """Begin with all vertices of a snapshot."""
        made = Context(self.loop, self.until, self.synchrony, window=bounds_of(window), carried=carried)
        made.enter(vertex_rows(Edges.of(EdgePacking(self.vertex).rows(packed)), directed=self.directed))
        return LoopIteration(self, made)


def _snapshots(ready: Ready, vertex: Any, directed: bool, growing: bool) -> SnapshotKind:
    return SnapshotKind(ready, vertex, directed=directed, growing=growing)


def _vertices(program: type[Vertex], until: Condition, synchrony: Synchrony, vertex: Any, directed: bool) -> VertexKind:
    return VertexKind(program, until, synchrony, vertex=vertex, directed=directed)
