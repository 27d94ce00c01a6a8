"""Loops that survive crashes: values, keys of windows, and graphs. No Spark, no storage.

`iterate` repeats a function of a value. A `Loop` iterates over keys that send each other messages, in rounds;
`run_loop` runs one here, and windows of a stream run them in their epochs. docs/LOOPS.md tells all of it, and
docs/GRAPHS.md what is ready made for graphs.

In reading order: `termination`, `iterate`, `synchrony`, `combining`, `loop`, `contexts`, `lanes`, `kinds`, `program`,
`shards`, `exchanged`, `vertices/`.
"""

from __future__ import annotations

from millpond.loops.contexts import run_loop
from millpond.loops.iterate import Progress, iterate
from millpond.loops.loop import Loop, LoopWindow, persistent, state
from millpond.loops.synchrony import Synchrony, stale, strict
from millpond.loops.termination import Condition, fixpoint, rounds, when, within
from millpond.loops.vertices.ready import (
    Ready,
    bfs,
    connected_components,
    degrees,
    k_core,
    label_propagation,
    pagerank,
    shortest_paths,
    triangles,
)
from millpond.loops.vertices.vertex import Vertex, run_vertices

__all__ = [
    "Condition",
    "Loop",
    "LoopWindow",
    "Progress",
    "Ready",
    "Synchrony",
    "Vertex",
    "bfs",
    "connected_components",
    "degrees",
    "fixpoint",
    "iterate",
    "k_core",
    "label_propagation",
    "pagerank",
    "persistent",
    "rounds",
    "run_loop",
    "run_vertices",
    "shortest_paths",
    "stale",
    "state",
    "strict",
    "triangles",
    "when",
    "within",
]
