"""Communities by label propagation: every vertex takes the label that most of its neighbours have.

>>> from millpond.loops.vertices.compressed import Compressed
>>> label_propagation(Compressed.of(np.array([1, 2, 3, 7]), np.array([2, 3, 1, 8])), rounds=5).tolist()
[0, 0, 0, 3, 3]
"""

from __future__ import annotations

import numpy as np

from millpond.loops.vertices.compressed import Compressed, Ints


def label_propagation(graph: Compressed, *, rounds: int = 20) -> Ints:
    """Return the label of each vertex after at most so many rounds: the number of a vertex.

    All vertices change at once. A vertex has a vote of its own; of labels with equally many votes the least is taken.
    It ends early when nothing changes, or when it swings between two states: with the one that all rounds would have
    come to. Directions and parallel edges do not count.
    """
    plain = graph.simple
    size = plain.size
    own = np.arange(size, dtype=np.int64)
    voters = np.concatenate([plain.heads, own])
    asked = np.concatenate([plain.targets, own])
    labels, before = own, own
    for number in range(rounds):
        fresh = _most(voters, labels[asked], size)
        if np.array_equal(fresh, labels):
            break
        if number and np.array_equal(fresh, before):
            # It swings: whatever is left of the rounds ends in one of the two.
            return fresh if (rounds - number) % 2 else labels
        labels, before = fresh, labels
    return labels


def _most(voters: Ints, votes: Ints, size: int) -> Ints:
    """Return what most votes of each voter are for; of equally many the least."""
    pairs, counts = np.unique(voters * size + votes, return_counts=True)
    whose, label = np.divmod(pairs, size)
    order = np.lexsort((label, -counts, whose))
    first = np.unique(whose[order], return_index=True)[1]
    found: Ints = label[order][first]
    return found
