"""A graph in compressed rows: the vertices as numbers, the targets of each in one array.

>>> graph = Compressed.of(np.array(["a", "b", "a"]), np.array(["b", "c", "c"]))
>>> graph.ids.tolist(), graph.starts.tolist(), graph.targets.tolist()
(['a', 'b', 'c'], [0, 2, 3, 3], [1, 2, 2])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from millpond.errors import LoopError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Compressed:
    """Vertices by `ids`, sorted; the edges of vertex v are those from `starts[v]` up to `starts[v + 1]`.

    Edges of a vertex are in the order of their targets and weights; parallel edges and loops are kept as they are.
    `weights` are those of the edges, if there are any.
    """

    ids: Array
    starts: Ints
    targets: Ints
    weights: Floats | None = None

    @classmethod
    def of(
        cls,
        sources: Array,
        targets: Array,
        weights: Array | None = None,
        *,
        vertices: Array | None = None,
    ) -> Compressed:
        """Make a graph of edges from sources to targets; `vertices` may have more than the edges name."""
        if len(sources) != len(targets) or (weights is not None and len(weights) != len(sources)):
            raise LoopError(
                "MP860",
                "the columns of edges are not of one length",
                expected="a source, a target, and a weight if there are weights, for each edge",
                found=f"{len(sources)} and {len(targets)}" + ("" if weights is None else f" and {len(weights)}"),
            )
        ids, heads, tails = numbered(sources, targets, vertices)
        given = None if weights is None else np.asarray(weights, dtype=np.float64)
        return cls.numbered(ids, heads, tails, given)

    @classmethod
    def numbered(cls, ids: Array, heads: Ints, tails: Ints, weights: Floats | None = None) -> Compressed:
        """Make a graph of edges between vertices by their numbers."""
        starts = np.zeros(len(ids) + 1, dtype=np.int64)
        np.cumsum(np.bincount(heads, minlength=len(ids)), out=starts[1:])
        if weights is None:
            return cls(ids, starts, _sorted(heads, tails, len(ids)))
        order = _order(heads, tails, weights, len(ids))
        return cls(ids, starts, tails[order], weights[order])

    @property
    def size(self) -> int:
        """The number of vertices."""
        return len(self.ids)

    @cached_property
    def heads(self) -> Ints:
        """The source of each edge."""
        return np.repeat(np.arange(self.size, dtype=np.int64), self.degrees)

    @cached_property
    def degrees(self) -> Ints:
        """The number of edges that leave each vertex."""
        return np.diff(self.starts)

    @cached_property
    def reversed(self) -> Compressed:
        """The same graph with every edge turned round."""
        return Compressed.numbered(self.ids, self.targets, self.heads, self.weights)

    @cached_property
    def both_ways(self) -> Compressed:
        """The graph with every edge in both directions; a loop stays one edge."""
        own = self.heads != self.targets
        heads = np.concatenate([self.heads, self.targets[own]])
        tails = np.concatenate([self.targets, self.heads[own]])
        weights = None if self.weights is None else np.concatenate([self.weights, self.weights[own]])
        return Compressed.numbered(self.ids, heads, tails, weights)

    @cached_property
    def simple(self) -> Compressed:
        """The graph both ways, without loops and parallel edges, and without weights."""
        whole = self.both_ways
        keep = whole.heads != whole.targets
        # Edges are in the order of head and target, so equal ones are neighbours.
        keep[1:] &= (whole.heads[1:] != whole.heads[:-1]) | (whole.targets[1:] != whole.targets[:-1])
        return Compressed.numbered(self.ids, whole.heads[keep], whole.targets[keep])

    def without(self, gone: Array) -> Compressed:
        """Return the graph without edges, given by a mask over them."""
        weights = None if self.weights is None else self.weights[~gone]
        return Compressed.numbered(self.ids, self.heads[~gone], self.targets[~gone], weights)

    def find(self, given: Any) -> Ints:
        """Return the numbers of vertices by their ids, or refuse those that there are not."""
        wanted = np.atleast_1d(np.asarray(given, dtype=self.ids.dtype))
        places = np.searchsorted(self.ids, wanted)
        missing = places >= self.size
        missing[~missing] = self.ids[places[~missing]] != wanted[~missing]
        if missing.any():
            raise LoopError(
                "MP861",
                "there is no such vertex",
                expected="a vertex of the graph",
                found=repr(wanted[missing].tolist()[0])[:60],
            )
        return places.astype(np.int64)

    def edges_of(self, vertices: Ints) -> tuple[Ints, Ints]:
        """Return the edges that leave some vertices, by their places, and the place among the vertices of each."""
        counts = self.degrees[vertices]
        whose = np.repeat(np.arange(len(vertices), dtype=np.int64), counts)
        first = np.repeat(self.starts[vertices] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        return first + np.arange(len(whose), dtype=np.int64), whose


def numbered(sources: Array, targets: Array, vertices: Array | None = None) -> tuple[Array, Ints, Ints]:
    """Return the ids of all vertices, sorted, and the numbers of sources and targets among them."""
    more = np.asarray([], dtype=sources.dtype) if vertices is None else np.asarray(vertices)
    if _is_dense(sources, targets, more):
        return _numbered_dense(sources, targets, more)
    ids, places = np.unique(np.concatenate([sources, targets, more]), return_inverse=True)
    places = places.astype(np.int64, copy=False)
    return ids, places[: len(sources)], places[len(sources) : len(sources) + len(targets)]


def _is_dense(*parts: Array) -> bool:
    """Say whether ids are whole numbers in a range that is not much wider than there are of them."""
    if any(part.dtype.kind not in "iu" for part in parts):
        return False
    full = [part for part in parts if len(part)]
    if not full:
        return False
    low, high = min(int(part.min()) for part in full), max(int(part.max()) for part in full)
    return high - low < 4 * sum(map(len, full)) + 1024


def _numbered_dense(sources: Array, targets: Array, more: Array) -> tuple[Array, Ints, Ints]:
    """Number ids by a table of which there are, without sorting them."""
    full = [part for part in (sources, targets, more) if len(part)]
    low, high = min(int(part.min()) for part in full), max(int(part.max()) for part in full)
    there = np.zeros(high - low + 1, dtype=bool)
    for part in full:
        there[part.astype(np.int64) - low] = True
    number = np.cumsum(there, dtype=np.int64) - 1
    ids = (np.flatnonzero(there) + low).astype(sources.dtype)
    return ids, number[sources.astype(np.int64) - low], number[targets.astype(np.int64) - low]


def _sorted(heads: Ints, tails: Ints, size: int) -> Ints:
    """Return the targets in the order of head and tail: both are sorted as one number, which beats any order."""
    bits = max(1, size - 1).bit_length()
    if 2 * bits > 63:
        return tails[np.lexsort((tails, heads))]
    keys = heads << bits
    keys |= tails
    keys.sort()
    keys &= (1 << bits) - 1
    return keys


def _order(heads: Ints, tails: Ints, weights: Floats, size: int) -> Ints:
    """Return the order of edges by head, tail and weight: it does not depend on the order in which they came."""
    order = np.argsort(weights, kind="stable")
    for keys in (tails, heads):
        # NumPy sorts numbers of 16 bits in linear time; four bytes are two of these.
        for shift in range(0, max(1, (size - 1).bit_length()), 16):
            part = (keys >> shift).astype(np.uint16)
            order = order[np.argsort(part[order], kind="stable")]
    return order
