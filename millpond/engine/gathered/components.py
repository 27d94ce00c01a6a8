"""Which keys must be together: connected components over the keys that rows share, spread over partitions.

>>> connected(4, np.array([0, 2]), np.array([1, 3])).tolist()
[0, 0, 2, 2]
"""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

GIANT_SHARE = 0.75
"""A component with more of the rows than this bounds the time of all: sending the rest elsewhere saves next to nothing,
and costs a look at every row."""

LARGE_SHARE = 0.01
"""Components with more of a partition's share of rows than this are placed one by one; smaller ones fill the rest."""


def connected(count: int, left: Ints, right: Ints) -> Ints:
    """Label `count` nodes so that nodes joined by edges, directly or through others, have one label: the least of them.

    Roots hook onto smaller neighbours, then all paths are halved until they are flat; edges inside a component are
    forgotten on the way. So long chains take few rounds.
    """
    parent = np.arange(count, dtype=np.int64)
    while len(left):
        one, other = parent[left], parent[right]
        apart = one != other
        left, right = one[apart], other[apart]
        np.minimum.at(parent, np.maximum(left, right), np.minimum(left, right))
        while not np.array_equal(flat := parent[parent], parent):
            parent = flat
    return parent


def neighbours(owners: Ints, nodes: Ints) -> tuple[Ints, Ints]:
    """Edges that join all nodes of one owner, as a chain; owners must be sorted."""
    same = owners[1:] == owners[:-1]
    return nodes[:-1][same], nodes[1:][same]


def packed(weights: Ints, partitions: int) -> Ints:
    """Choose a partition for each component, so that all weigh about the same: large ones first, small ones in bulk."""
    placed = np.zeros(len(weights), dtype=np.int64)
    order = np.argsort(-weights, kind="stable")
    share = float(weights.sum()) / partitions
    large = order[weights[order] > share * LARGE_SHARE]
    loads = [(0, partition) for partition in range(partitions)]
    for component in large.tolist():
        load, partition = heapq.heappop(loads)
        placed[component] = partition
        heapq.heappush(loads, (load + int(weights[component]), partition))
    small = order[len(large) :]
    room = np.array([max(share - load, 0.0) for load, _ in sorted(loads, key=lambda load: load[1])])
    bounds = np.cumsum(room)
    before = np.cumsum(weights[small]) - weights[small]
    placed[small] = np.minimum(np.searchsorted(bounds, before, side="right"), partitions - 1)
    return placed
