"""Degrees, triangles and cores: what holds a graph together. Directions do not count for the last two.

>>> from millpond.loops.vertices.compressed import Compressed
>>> graph = Compressed.of(np.array([1, 2, 3, 3]), np.array([2, 3, 1, 4]))
>>> triangles(graph).tolist(), core_numbers(graph).tolist(), degrees(graph)[1].tolist()
([1, 1, 1, 0], [2, 2, 2, 1], [1, 1, 1, 1])
"""

from __future__ import annotations

import numpy as np

from millpond.loops.vertices.compressed import Compressed, Ints

_PAIRS_MAX = 1 << 22
"""So many pairs of edges are looked at together, whatever the size of the graph."""


def degrees(graph: Compressed) -> tuple[Ints, Ints]:
    """Return how many edges leave each vertex, and how many come to it; parallel edges and loops count."""
    return graph.degrees, np.bincount(graph.targets, minlength=graph.size)


def triangles(graph: Compressed) -> Ints:
    """Return in how many triangles each vertex is."""
    plain = graph.simple
    size = plain.size
    # Every edge goes to the end with more edges, so that no vertex has many; each triangle is then found once.
    rank = np.empty(size, dtype=np.int64)
    rank[np.lexsort((np.arange(size), plain.degrees))] = np.arange(size)
    keep = rank[plain.heads] < rank[plain.targets]
    led = Compressed.numbered(plain.ids, plain.heads[keep], plain.targets[keep])
    known = led.heads * size + led.targets
    counts = np.zeros(size, dtype=np.int64)
    begin = 0
    work = np.cumsum(led.degrees[led.targets])
    while begin < len(led.targets):
        done = work[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(work, done + _PAIRS_MAX, side="right")))
        heads, middles = led.heads[begin:end], led.targets[begin:end]
        places, whose = led.edges_of(middles)
        last = led.targets[places]
        wanted = heads[whose] * size + last
        at = np.searchsorted(known, wanted)
        at[at == len(known)] = 0
        closed = known[at] == wanted
        for corner in (heads[whose][closed], middles[whose][closed], last[closed]):
            counts += np.bincount(corner, minlength=size)
        begin = end
    return counts


def core_numbers(graph: Compressed) -> Ints:
    """Return for each vertex the largest k for which it is in the k-core: there all have k neighbours or more."""
    plain = graph.simple
    left = plain.degrees.copy()
    cores = np.zeros(plain.size, dtype=np.int64)
    alive = np.ones(plain.size, dtype=bool)
    level = 0
    while alive.any():
        level = max(level, int(left[alive].min()))
        peeled = np.flatnonzero(alive & (left <= level))
        while len(peeled):
            cores[peeled] = level
            alive[peeled] = False
            places, _ = plain.edges_of(peeled)
            near = plain.targets[places]
            np.subtract.at(left, near[alive[near]], 1)
            near = np.unique(near[alive[near]])
            peeled = near[left[near] <= level]
    return cores


def k_core(graph: Compressed, k: int) -> Ints:
    """Return the numbers of the vertices in the k-core."""
    return np.flatnonzero(core_numbers(graph) >= k)
