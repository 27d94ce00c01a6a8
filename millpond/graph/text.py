"""A graph as text: stable, so that people and tests can compare it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from millpond.graph.model import Access, Dispatch, Edge, Graph, StateNode, TaskNode


def graph_text(
    graph: Graph, *, notes: Mapping[str, str] | None = None, code: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Write a graph: its states, then the tasks of each entry point; `notes` are by entry point, `code` by task."""
    return "\n".join(_lines(graph, notes or {}, code or {})) + "\n"


def _lines(graph: Graph, notes: Mapping[str, str], code: Mapping[str, Sequence[str]]) -> Iterator[str]:
    yield f"program {graph.program}: {_count(graph.steps, 'step')}"
    yield from (_state(state) for state in graph.states)
    incoming = {edge.target: edge for edge in graph.edges if edge.target is not None}
    entries = dict.fromkeys(task.entry for task in graph.tasks)
    for entry in entries:
        yield ""
        yield f"entry {entry}" + (f": {notes[entry]}" if entry in notes else "")
        for task in graph.tasks:
            if task.entry == entry:
                yield from _task(task, incoming[task.name])
                yield from (f"      {line}" for line in code.get(task.name, ()))


def _state(state: StateNode) -> str:
    by = f" by {state.by}" if state.by else ""
    return f"state {state.name}: {state.type}{by}, {state.distribution}, level {state.level}"


def _task(task: TaskNode, edge: Edge) -> Iterator[str]:
    yield f"  task {task.name} at step {task.step}, {dispatch_text(edge)}, because: {edge.reason}"
    yield f"    takes {', '.join(edge.carries) or 'nothing'}"
    yield from (f"    {access_text(access)}" for access in task.accesses)


def dispatch_text(edge: Edge) -> str:
    """How an edge delivers: `by key user`, `one-to-all`."""
    if edge.dispatch is Dispatch.BY_KEY:
        return f"by key {edge.key}" if edge.key else "by the only key"
    return str(edge.dispatch.value)


def access_text(access: Access) -> str:
    """How a task meets a state: `reads ratings (keyed)`."""
    return f"{'changes' if access.writes else 'reads'} {access.state} ({access.mode.value})"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
