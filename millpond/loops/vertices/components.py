"""Connected components, by hooking and halving over arrays.

>>> from millpond.loops.vertices.compressed import Compressed
>>> connected_components(Compressed.of(np.array([5, 1]), np.array([3, 2]))).tolist()
[0, 0, 2, 2]
"""

from __future__ import annotations

import numpy as np

from millpond.loops.vertices.compressed import Compressed, Ints


def connected_components(graph: Compressed) -> Ints:
    """Return for each vertex the number of the first vertex of its component; directions do not count."""
    return joined(np.arange(graph.size, dtype=np.int64), graph.heads, graph.targets)


def joined(labels: Ints, heads: Ints, tails: Ints) -> Ints:
    """Join components by more edges: `labels` are the first vertices of those that there are."""
    labels = labels.copy()
    left, right = labels[heads], labels[tails]
    open_edges = left != right
    left, right = left[open_edges], right[open_edges]
    while len(left):
        # Each root takes the least root that it is joined to; so trees grow, and no circle can come of it.
        np.minimum.at(labels, np.maximum(left, right), np.minimum(left, right))
        labels = halved(labels)
        left, right = labels[left], labels[right]
        open_edges = left != right
        left, right = left[open_edges], right[open_edges]
    return labels


def halved(labels: Ints) -> Ints:
    """Let every vertex point to the root of its tree."""
    while True:
        above = labels[labels]
        if np.array_equal(above, labels):
            return labels
        labels = above
