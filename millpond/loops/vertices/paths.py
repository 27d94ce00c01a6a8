"""Distances from vertices: in edges, or in weights. Each round works on the vertices that came nearer in the last one.

>>> from millpond.loops.vertices.compressed import Compressed
>>> graph = Compressed.of(np.array([1, 2, 1]), np.array([2, 3, 3]), np.array([1.0, 1.0, 5.0]))
>>> bfs(graph, [1]).tolist(), shortest_paths(graph, [1]).tolist()
([0, 1, 1], [0.0, 1.0, 2.0])
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millpond.errors import LoopError
from millpond.loops.vertices.compressed import Compressed, Floats, Ints

UNREACHED = -1
"""The number of edges to a vertex that can't be reached."""


def bfs(graph: Compressed, sources: Any) -> Ints:
    """Return the least number of edges from any of the sources to each vertex; -1 if there is no way."""
    depths = np.full(graph.size, UNREACHED, dtype=np.int64)
    frontier = np.unique(graph.find(sources))
    depths[frontier] = depth = 0
    while len(frontier):
        depth += 1
        places, _ = graph.edges_of(frontier)
        near = graph.targets[places]
        frontier = np.unique(near[depths[near] == UNREACHED])
        depths[frontier] = depth
    return depths


def shortest_paths(graph: Compressed, sources: Any) -> Floats:
    """Return the least sum of weights from any of the sources to each vertex; infinity if there is no way.

    Edges without weights count 1. Weights must not be below 0.
    """
    distances = np.full(graph.size, np.inf)
    first = np.unique(graph.find(sources))
    distances[first] = 0.0
    return nearer(graph, distances, first)


def nearer(graph: Compressed, distances: Floats, frontier: Ints) -> Floats:
    """Bring distances down that follow from those of a frontier; the others are final, or infinite."""
    weights = np.ones(len(graph.targets)) if graph.weights is None else graph.weights
    if len(weights) and not (weights >= 0).all():
        raise LoopError(
            "MP863",
            "an edge has a weight below 0, or none",
            expected="weights of at least 0: with others, going round in a circle could be shorter for ever",
            found=repr(float(weights[~(weights >= 0)][0])),
        )
    distances = distances.copy()
    while len(frontier):
        places, whose = graph.edges_of(frontier)
        targets = graph.targets[places]
        offered = distances[frontier][whose] + weights[places]
        better = offered < distances[targets]
        targets, offered = targets[better], offered[better]
        np.minimum.at(distances, targets, offered)
        frontier = np.unique(targets)
    return distances
