"""A graph in DOT, the language of Graphviz: steps are ranks, state stands at its level.

>>> from millpond.graph.model import TaskNode
>>> text = graph_dot(Graph("P", (), (TaskNode("go.0", "go", 0, (), ()),), ()))
>>> [line.strip() for line in text.splitlines() if "rank" in line]
['labelloc=t rankdir=LR fontname=Helvetica', '{ rank=same; "task go.0" }']
"""

from __future__ import annotations

from collections.abc import Iterator

from millpond.graph.model import Edge, Graph
from millpond.graph.text import access_lines, dispatch_text


def graph_dot(graph: Graph) -> str:
    """Write a graph as a digraph: boxes for tasks, cylinders for state, thick edges for one message per turn."""
    return "\n".join(("digraph program {", *(f"  {line}" for line in _lines(graph)), "}")) + "\n"


def _lines(graph: Graph) -> Iterator[str]:
    yield f"label={_text(graph.program)}"
    yield "labelloc=t rankdir=LR fontname=Helvetica"
    yield "node [shape=box style=rounded fontname=Helvetica]"
    yield "edge [fontname=Helvetica fontsize=10]"
    for state in graph.states:
        by = f" by {state.by}" if state.by else ""
        label = _text(state.name, state.type + by, f"{state.distribution}, level {state.level}")
        yield f"{_state(state.name)} [shape=cylinder style=solid label={label}]"
    for task in graph.tasks:
        yield f"{_task(task.name)} [label={_text(task.name, f'step {task.step}', *access_lines(task))}]"
    for number, edge in enumerate(graph.edges):
        yield from _edge(edge, number)
    yield from _ranks(graph)
    for task in graph.tasks:
        for access in task.accesses:
            ways = "both" if access.writes else "none"
            yield f"{_task(task.name)} -> {_state(access.state)} [style=dashed dir={ways} constraint=false]"


def _edge(edge: Edge, number: int) -> Iterator[str]:
    outside = f"outside_{number}"
    source = outside if edge.source is None else _task(edge.source)
    target = outside if edge.target is None else _task(edge.target)
    if outside in (source, target):
        yield f"{outside} [shape=plaintext label={_text('feed' if edge.source is None else 'reply')}]"
    if edge.target is None:
        yield f"{source} -> {target}"
        return
    label = _text(dispatch_text(edge), ", ".join(edge.carries)) if edge.carries else _text(dispatch_text(edge))
    thick = " penwidth=3" if edge.fan_out else ""
    yield f"{source} -> {target} [label={label} tooltip={_text(edge.reason)}{thick}]"


def _ranks(graph: Graph) -> Iterator[str]:
    for step in range(graph.steps):
        tasks = [_task(task.name) for task in graph.tasks if task.step == step]
        states = [_state(state.name) for state in graph.states if state.level == step]
        if tasks or states:
            yield f"{{ rank=same; {'; '.join(tasks + states)} }}"


def _task(name: str) -> str:
    return _text(f"task {name}")


def _state(name: str) -> str:
    return _text(f"state {name}")


def _text(*lines: str) -> str:
    """Return a quoted string of one or more lines."""
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'
