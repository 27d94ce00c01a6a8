"""Why an entry point equals its plain Python run, or what keeps it from that."""

from __future__ import annotations

from millpond.graph.cost import cost_of, entries_of
from millpond.graph.model import Graph


def why_exact(graph: Graph, entry: str) -> str:
    """Say why an entry point that is not relaxed is exact."""
    levels = {state.name: state.level for state in graph.states}
    touched = dict.fromkeys(access.state for task in graph.tasks if task.entry == entry for access in task.accesses)
    if not touched:
        return "it touches no state"
    if graph.why_sequence(entry):
        return "all rows of its epoch run in input order in one task, as plain Python"
    if graph.why_gathered(entry):
        return "rows that share a key, directly or through others, run in input order in one task"
    return "each element is met at one step only: " + ", ".join(f"{name} at {levels[name]}" for name in touched)


def why_relaxed(graph: Graph, entry: str) -> str:
    """Say what keeps a relaxed entry point from being exact."""
    if cost_of(graph, entry).loops:
        return "a loop crosses a cut, so that an element is met at many steps"
    for name in dict.fromkeys(access.state for task in graph.tasks for access in task.accesses):
        steps = sorted({step for step, state in _visits(graph, entry) if state == name})
        if len(steps) > 1:
            return f"self.{name} is visited at steps {' and '.join(map(str, steps))}"
    for other in entries_of(graph):
        pair = _disagreement(graph, entry, other) if other != entry else None
        if pair:
            return f"it visits self.{pair[0]} before self.{pair[1]}, and {other} visits them the other way round"
    return "@entry(relaxed=True) asks for it; as far as the graph tells, it could do without"


def _visits(graph: Graph, entry: str) -> list[tuple[int, str]]:
    return [(task.step, access.state) for task in graph.tasks if task.entry == entry for access in task.accesses]


def _disagreement(graph: Graph, one: str, other: str) -> tuple[str, str] | None:
    """Two elements that one entry point visits in one order and another in the other."""
    there = _visits(graph, other)
    later = {(second, first) for start, first in there for end, second in there if start < end}
    here = _visits(graph, one)
    pairs = [(first, second) for start, first in here for end, second in here if start < end]
    return next((pair for pair in pairs if pair in later), None)
