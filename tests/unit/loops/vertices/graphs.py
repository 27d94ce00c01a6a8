"""Generated graphs: loops, parallel edges, isolated vertices, several components."""

from __future__ import annotations

import random

import networkx
import numpy as np

from millpond.loops.vertices.compressed import Compressed

KINDS = ("few", "sparse", "dense", "power", "empty")


def edges_of(seed, kind):
    """Return the vertices, and the edges with their weights, of a graph by its seed."""
    draw = random.Random(f"{seed} {kind}")
    size, count = {"few": (6, 5), "sparse": (60, 70), "dense": (25, 220), "power": (80, 260), "empty": (4, 0)}[kind]
    ids = draw.sample(range(-50, 5000), size)
    if kind == "power":
        ends = [(ids[int(draw.paretovariate(0.8)) % size], draw.choice(ids)) for _ in range(count)]
    else:
        ends = [(draw.choice(ids), draw.choice(ids)) for _ in range(count)]
    return sorted(ids), [(a, b, draw.choice([0.0, 0.5, 1.0, 2.25, 7.0])) for a, b in ends]


def compressed(seed, kind, *, weighted=False):
    """Return a graph as arrays."""
    ids, edges = edges_of(seed, kind)
    columns = list(zip(*edges, strict=True)) or [(), (), ()]
    sources, targets = (np.array(one, dtype=np.int64) for one in columns[:2])
    weights = np.array(columns[2], dtype=np.float64) if weighted else None
    return Compressed.of(sources, targets, weights, vertices=np.array(ids, dtype=np.int64))


def peer(seed, kind, make=networkx.MultiDiGraph):
    """Return the same graph as a library has it."""
    ids, edges = edges_of(seed, kind)
    made = make()
    made.add_nodes_from(ids)
    made.add_weighted_edges_from(edges)
    return made


def by_id(graph, values):
    return dict(zip(graph.ids.tolist(), values.tolist(), strict=True))
