"""Programs of vertices: `compute` is called in every round for vertices with messages, in the first one for all.

>>> from millpond.loops import Vertex, fixpoint, run_vertices, state
>>> class Hops(Vertex):
...     combine = min
...     hops: int = state(99)
...
...     def compute(self, messages: list[int]) -> None:
...         nearer = 0 if self.id == "a" else min(messages, default=99)
...         if nearer < self.hops:
...             self.hops = nearer
...             self.send_out(nearer + 1)
...
...     def finalize(self) -> int:
...         return self.hops
>>> run_vertices(Hops, [("a", "b"), ("b", "c"), ("d", "a")], until=fixpoint())
{'a': 0, 'b': 1, 'c': 2, 'd': 99}
"""

from __future__ import annotations

import typing
from collections.abc import Iterable
from typing import Any

from millpond.loops.contexts import Context
from millpond.loops.loop import Loop, state
from millpond.loops.synchrony import Synchrony, strict
from millpond.loops.termination import Condition
from millpond.loops.vertices.edges import EdgeRow, Edges

Ends = tuple[Any, float | None]
"""The target of an edge, and its weight if it has one."""


class Vertex(Loop):
    """The base of programs of vertices: a loop whose keys are the vertices of a graph, each with its edges.

    `edges` are those that leave it, as pairs of target and weight, in the order of the targets; of a graph without
    directions those that touch it. State that is declared by `persistent` gives the next snapshot a warm start.
    """

    edges: list[Ends] = state(factory=list)
    in_degree: int = state(0)

    @property
    def id(self) -> Any:
        """The vertex."""
        return self.key

    @property
    def is_source(self) -> bool:
        """Whether no edge comes to it."""
        return self.in_degree == 0

    @property
    def is_sink(self) -> bool:
        """Whether no edge leaves it."""
        return not self.edges

    @property
    def neighbors(self) -> list[Any]:
        """The targets of its edges."""
        return [target for target, _ in self.edges]

    def send_out(self, message: Any) -> None:
        """Send a message along every edge."""
        for target, _ in self.edges:
            self.send(target, message)

    def compute(self, messages: list[Any]) -> None:
        """Work on the messages of a round; in the first one there are none."""

    def entry(self, rows: list[Any]) -> None:
        """Take the edges, and compute for the first time."""
        ((self.edges, self.in_degree),) = rows
        self.compute([])

    def step(self, messages: list[Any]) -> None:
        """Compute."""
        self.compute(messages)


def vertex_rows(edges: Edges, *, directed: bool) -> list[tuple[Any, list[Any]]]:
    """Return the vertices of a graph, each with what `entry` gets: its edges, and how many come to it."""
    graph = edges.graph(directed=directed)
    ids, targets = graph.ids.tolist(), graph.ids[graph.targets].tolist()
    weights: list[float | None] = [None] * len(targets) if graph.weights is None else graph.weights.tolist()
    starts = graph.starts.tolist()
    coming = graph.reversed.degrees.tolist()
    ends = list(zip(targets, weights, strict=True))
    return [(one, [(ends[starts[place] : starts[place + 1]], coming[place])]) for place, one in enumerate(ids)]


def message_of(vertex: type[Vertex]) -> Any:
    """Return the type of messages, as `compute` declares it."""
    hint = typing.get_type_hints(vertex.compute).get("messages")
    found = typing.get_args(hint)
    return found[0] if found else Any


def run_vertices(
    vertex: type[Vertex],
    edges: Iterable[tuple[Any, ...]],
    *,
    until: Condition,
    synchrony: Synchrony = strict,
    directed: bool = True,
) -> dict[Any, Any]:
    """Run a program of vertices over edges, given as pairs or with a weight; return its results by vertex."""
    rows: list[EdgeRow] = [(one[0], 0, (one[1], one[2] if len(one) > 2 else None, None)) for one in edges]
    made = Context(vertex, until, synchrony)
    made.enter(vertex_rows(Edges.of(rows), directed=directed))
    made.advance()
    return made.results()
