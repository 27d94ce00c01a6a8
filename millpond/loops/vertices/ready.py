"""What is ready made, as users name it: `graph.run(pagerank(rounds=20))`. Each gives columns by vertex.

Over a growing graph, each takes what it knew before and the edges that are new. Components and degrees keep nothing but
themselves; the others keep the edges, and begin where they were.

>>> from millpond.loops.vertices.edges import Edges
>>> edges = Edges.of([(1, 0, (2, None, None)), (3, 0, (2, None, None))])
>>> connected_components().run(edges)
{'vertex': array([1, 2, 3]), 'component': array([1, 1, 1])}
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from millpond.errors import LoopError
from millpond.loops.vertices import components, cores, labels, paths, ranks
from millpond.loops.vertices.compressed import Array, Compressed, Floats, Ints, numbered
from millpond.loops.vertices.edges import Edges, packed, unpacked

VERTEX: Final = "vertex"


class Outcome(NamedTuple):
    """Columns by vertex, the vertex first; and what to go on with when the graph grows."""

    columns: dict[str, Array]
    carried: bytes


class Ready(ABC):
    """An algorithm over a graph: `names` are the columns that it gives beside the vertex, `hints` their types.

    A hint of None stands for the type of a vertex.
    """

    names: ClassVar[tuple[str, ...]]
    hints: ClassVar[tuple[Any, ...]]

    def run(self, edges: Edges, *, directed: bool = True) -> dict[str, Array]:
        """Run over a graph that is all there; return columns by vertex, the vertex first."""
        graph = edges.graph(directed=directed)
        return {VERTEX: graph.ids, **dict(zip(self.names, self.computed(graph, {}, edges), strict=True))}

    def grow(self, edges: Edges, carried: bytes, *, directed: bool) -> Outcome:
        """Run over a graph that had other edges before, of which `carried` tells."""
        whole = edges
        before: dict[str, Array] = {}
        if carried:
            before, *_ = unpacked(carried[_length(carried) :])
            whole = Edges.unpacked(carried[8 : _length(carried)]) + edges
        graph = whole.graph(directed=directed)
        columns = {VERTEX: graph.ids, **dict(zip(self.names, self.computed(graph, before, edges), strict=True))}
        return Outcome(columns, _carried(whole, columns))

    @abstractmethod
    def computed(self, graph: Compressed, before: Mapping[str, Array], new: Edges) -> list[Array]:
        """Return the columns of a graph, of which some were known `before` the `new` edges."""


def _carried(whole: Edges, columns: Mapping[str, Array]) -> bytes:
    edges = whole.packed()
    return (8 + len(edges)).to_bytes(8, "big") + edges + packed(dict(columns))


def _length(carried: bytes) -> int:
    return int.from_bytes(carried[:8], "big")


@dataclass(frozen=True)
class pagerank(Ready):  # noqa: N801 - it is called as a function
    """Ranks that add up to 1, by the ranks of those that point to a vertex; over a growing graph from the last ones."""

    damping: float = 0.85
    personal: Mapping[Any, float] | None = None
    tolerance: float = 1e-6
    rounds: int | None = 100

    names = ("rank",)
    hints = (float,)

    def computed(self, graph: Compressed, before: Mapping[str, Array], new: Edges) -> list[Array]:  # noqa: ARG002
        """Return the ranks."""
        start = None if not before else _known(graph, before, "rank", 1.0 / max(1, graph.size))
        return [self._ranked(graph.reversed, start)]

    def run(self, edges: Edges, *, directed: bool = True) -> dict[str, Array]:
        """Run over a graph that is all there; the edges need to be sorted by their targets alone."""
        if not directed:
            return super().run(edges, directed=directed)
        incoming = Compressed.of(edges.targets, edges.sources, edges.weights, vertices=edges.vertices)
        return {VERTEX: incoming.ids, "rank": self._ranked(incoming, None)}

    def _ranked(self, incoming: Compressed, start: Floats | None) -> Floats:
        found = ranks.ranked(
            incoming, damping=self.damping, personal=self.personal, tolerance=self.tolerance, rounds=self.rounds,
            start=start,
        )  # fmt: skip
        return found.ranks


@dataclass(frozen=True)
class connected_components(Ready):  # noqa: N801
    """The component of each vertex, by its least vertex; directions do not count."""

    names = ("component",)
    hints = (None,)

    def run(self, edges: Edges, *, directed: bool = True) -> dict[str, Array]:  # noqa: ARG002
        """Run over a graph that is all there; it need not be sorted."""
        return self._joined(edges, b"")

    def grow(self, edges: Edges, carried: bytes, *, directed: bool) -> Outcome:  # noqa: ARG002
        """Join what is known by the new edges; edges need not be kept."""
        columns = self._joined(edges, carried)
        return Outcome(columns, packed(columns))

    def _joined(self, edges: Edges, carried: bytes) -> dict[str, Array]:
        sources, targets, more = edges.sources, edges.targets, edges.vertices
        if carried:
            before, *_ = unpacked(carried)
            sources = before[VERTEX] if not len(sources) else np.concatenate([sources, before[VERTEX]])
            targets = before["component"] if not len(targets) else np.concatenate([targets, before["component"]])
        ids, heads, tails = numbered(sources, targets, more if len(more) else None)
        found = components.joined(np.arange(len(ids), dtype=np.int64), heads, tails)
        return {VERTEX: ids, "component": ids[found]}

    def computed(self, graph: Compressed, before: Mapping[str, Array], new: Edges) -> list[Array]:  # noqa: ARG002
        """Return the components."""
        return [graph.ids[components.connected_components(graph)]]


@dataclass(frozen=True)
class degrees(Ready):  # noqa: N801
    """How many edges leave each vertex, and how many come to it."""

    names = ("out_degree", "in_degree")
    hints = (int, int)

    def grow(self, edges: Edges, carried: bytes, *, directed: bool) -> Outcome:
        """Count the new edges; edges need not be kept."""
        graph = edges.graph(directed=directed)
        columns = {VERTEX: graph.ids, **dict(zip(self.names, cores.degrees(graph), strict=True))}
        if carried:
            before, *_ = unpacked(carried)
            ids = np.union1d(before[VERTEX], graph.ids) if len(graph.ids) else before[VERTEX]
            counted: dict[str, Array] = {VERTEX: ids}
            for name in self.names:
                total = np.zeros(len(ids), dtype=np.int64)
                for one in (before, columns):
                    if len(one[VERTEX]):
                        total[np.searchsorted(ids, one[VERTEX])] += one[name]
                counted[name] = total
            columns = counted
        return Outcome(columns, packed(columns))

    def computed(self, graph: Compressed, before: Mapping[str, Array], new: Edges) -> list[Array]:  # noqa: ARG002
        """Return both degrees."""
        return list(cores.degrees(graph))


@dataclass(frozen=True)
class shortest_paths(Ready):  # noqa: N801
    """The least sum of weights on a way from one of the sources; infinity if there is no way."""

    sources: Sequence[Any]

    names = ("distance",)
    hints = (float,)

    def computed(self, graph: Compressed, before: Mapping[str, Array], new: Edges) -> list[Array]:
        """Return the distances: those that were known may come down, where new edges leave."""
        known = _known(graph, before, "distance", np.inf)
        there = [one for one in self.sources if _has(graph, one)]
        first = graph.find(there) if there else np.zeros(0, dtype=np.int64)
        known[first] = 0.0
        frontier = first if not before else np.unique(np.concatenate([first, _ends(graph, new)]))
        return [paths.nearer(graph, known, frontier[np.isfinite(known[frontier])])]


@dataclass(frozen=True)
class bfs(Ready):  # noqa: N801
    """The least number of edges on a way from one of the sources; -1 if there is no way."""

    sources: Sequence[Any]

    names = ("depth",)
    hints = (int,)

    def computed(self, graph: Compressed, before: Mapping[str, Array], new: Edges) -> list[Array]:
        """Return the depths: those that were known may come down, where new edges leave."""
        plain = Compressed(graph.ids, graph.starts, graph.targets)
        known = {name: np.where(one < 0, np.inf, one) if name == "depth" else one for name, one in before.items()}
        renamed = {"distance" if name == "depth" else name: one for name, one in known.items()}
        (far,) = shortest_paths(self.sources).computed(plain, renamed, new)
        return [np.where(np.isfinite(far), far, paths.UNREACHED).astype(np.int64)]


@dataclass(frozen=True)
class label_propagation(Ready):  # noqa: N801
    """The community of each vertex, after at most so many rounds in which all take what most neighbours have."""

    rounds: int = 20

    names = ("label",)
    hints = (None,)

    def computed(self, graph: Compressed, before: Mapping[str, Array], new: Edges) -> list[Array]:  # noqa: ARG002
        """Return the labels."""
        return [graph.ids[labels.label_propagation(graph, rounds=self.rounds)]]


@dataclass(frozen=True)
class triangles(Ready):  # noqa: N801
    """In how many triangles each vertex is; directions do not count."""

    names = ("triangles",)
    hints = (int,)

    def computed(self, graph: Compressed, before: Mapping[str, Array], new: Edges) -> list[Array]:  # noqa: ARG002
        """Return the counts."""
        return [cores.triangles(graph)]


@dataclass(frozen=True)
class k_core(Ready):  # noqa: N801
    """The largest k for which each vertex is in the k-core; directions do not count."""

    names = ("core",)
    hints = (int,)

    def computed(self, graph: Compressed, before: Mapping[str, Array], new: Edges) -> list[Array]:  # noqa: ARG002
        """Return the core numbers."""
        return [cores.core_numbers(graph)]


def must_be_ready(given: object) -> Ready:
    """Return an algorithm, or refuse what is none."""
    if not isinstance(given, Ready):
        raise LoopError(
            "MP866",
            "this can't run over a graph",
            expected="pagerank(), connected_components(), ... of millpond.loops, or a class derived from Vertex",
            found=repr(given)[:60],
        )
    return given


def _known(graph: Compressed, before: Mapping[str, Array], name: str, missing: float) -> Floats:
    """Return what was known of the vertices of a graph."""
    found = np.full(graph.size, missing)
    if before and len(before[VERTEX]):
        found[np.searchsorted(graph.ids, before[VERTEX])] = before[name]
    return found


def _has(graph: Compressed, one: Any) -> bool:
    place = int(np.searchsorted(graph.ids, one)) if graph.size else 0
    return place < graph.size and bool(graph.ids[place] == one)


def _ends(graph: Compressed, new: Edges) -> Ints:
    """Return the vertices at which new edges lie."""
    if not len(new.sources):
        return np.zeros(0, dtype=np.int64)
    return np.searchsorted(graph.ids, np.concatenate([new.sources, new.targets])).astype(np.int64)
