"""PageRank by power iteration over compressed rows, from scratch or from the ranks of an earlier graph.

>>> from millpond.loops.vertices.compressed import Compressed
>>> graph = Compressed.of(np.array([1, 2, 3]), np.array([2, 3, 1]))
>>> pagerank(graph).ranks.round(3).tolist()
[0.333, 0.333, 0.333]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from millpond.errors import LoopError
from millpond.loops.vertices.compressed import Compressed, Floats


@dataclass(frozen=True, slots=True)
class Ranked:
    """Ranks by vertex, which add up to 1; the rounds that they took, and how much the last one changed in all."""

    ranks: Floats
    rounds: int
    change: float


def pagerank(
    graph: Compressed,
    *,
    damping: float = 0.85,
    personal: Mapping[Any, float] | None = None,
    tolerance: float = 1e-6,
    rounds: int | None = 100,
    start: Floats | None = None,
) -> Ranked:
    """Rank vertices by the ranks of those that point to them; weights of edges count, if there are any.

    It ends when a round changes less than `tolerance` for each vertex on average, or after so many `rounds`; with a
    tolerance of 0 after exactly so many. With `personal`, whoever jumps goes to these vertices, by their share; so does
    whoever is at a vertex without edges. `start` are ranks to begin with.
    """
    return ranked(graph.reversed, damping=damping, personal=personal, tolerance=tolerance, rounds=rounds, start=start)


def ranked(
    incoming: Compressed,
    *,
    damping: float = 0.85,
    personal: Mapping[Any, float] | None = None,
    tolerance: float = 1e-6,
    rounds: int | None = 100,
    start: Floats | None = None,
) -> Ranked:
    """Rank vertices as `pagerank` does, by the graph with its edges turned round, which is all that is needed."""
    if not 0 <= damping < 1 or not tolerance >= 0 or (rounds is None and not tolerance):
        raise LoopError(
            "MP862",
            "PageRank can't be computed like this",
            expected="a damping from 0 up to 1, and a tolerance above 0 or a number of rounds",
            found=f"damping={damping!r}, tolerance={tolerance!r}, rounds={rounds!r}",
        )
    size = incoming.size
    if not size:
        return Ranked(np.zeros(0), 0, 0.0)
    goal = _goal(incoming, personal)
    out = np.bincount(incoming.targets, weights=incoming.weights, minlength=size)
    hanging = out == 0
    per_out = np.divide(1.0, out, out=np.zeros(size), where=~hanging)
    pulled, share = incoming.targets, incoming.weights
    filled = np.flatnonzero(incoming.degrees)
    begins = incoming.starts[filled]
    ranks = np.full(size, 1.0 / size) if start is None else _shares(start)
    number, change = 0, np.inf
    while rounds is None or number < rounds:
        number += 1
        given = (ranks * per_out)[pulled]
        if share is not None:
            given *= share
        pulls = np.zeros(size)
        if len(begins):
            pulls[filled] = np.add.reduceat(given, begins)
        fresh = damping * (pulls + ranks[hanging].sum() * goal) + (1.0 - damping) * goal
        change = float(np.abs(fresh - ranks).sum())
        ranks = fresh
        if change < size * tolerance:
            break
    return Ranked(ranks, number, change)


def _goal(graph: Compressed, personal: Mapping[Any, float] | None) -> Floats:
    if personal is None:
        return np.full(graph.size, 1.0 / graph.size)
    goal = np.zeros(graph.size)
    if personal:
        goal[graph.find(list(personal))] = list(personal.values())
    if not goal.sum() > 0 or (goal < 0).any():
        raise LoopError(
            "MP862",
            "PageRank can't be computed like this",
            expected="personal= shares of at least one vertex, none below 0",
            found=repr(dict(personal))[:60],
        )
    return _shares(goal)


def _shares(values: Floats) -> Floats:
    total = values.sum()
    return np.full(len(values), 1.0 / len(values)) if not total > 0 else values / total
