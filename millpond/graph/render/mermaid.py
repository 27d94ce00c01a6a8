"""A graph as a Mermaid flowchart.

>>> from millpond.graph.model import StateNode, TaskNode
>>> state, task = StateNode("m", "Map", "partitioned", "", 0), TaskNode("go.0", "go", 0, (), ())
>>> print(graph_mermaid(Graph("P", (state,), (task,), ())), end="")
flowchart LR
  state_m[("m<br/>Map<br/>partitioned")]
  task_go_0["go.0<br/>step 0"]
"""

from __future__ import annotations

from collections.abc import Iterator

from millpond.graph.model import Graph
from millpond.graph.text import access_lines, dispatch_text


def graph_mermaid(graph: Graph) -> str:
    """Draw a graph: a box per task, a cylinder per state, the carried variables on the edges."""
    return "\n".join(("flowchart LR", *(f"  {line}" for line in _lines(graph)))) + "\n"


def _lines(graph: Graph) -> Iterator[str]:
    for state in graph.states:
        yield f'{_state(state.name)}[("{state.name}<br/>{_quoted(state.type)}<br/>{state.distribution}")]'
    for task in graph.tasks:
        sets = [_quoted(line) for line in access_lines(task)] if task.touches else []
        yield f'{_task(task.name)}["{"<br/>".join((task.name, f"step {task.step}", *sets))}"]'
    for edge in graph.edges:
        if edge.target is None:
            assert edge.source is not None
            yield f"{_task(edge.source)} --> {_task(edge.source)}_reply([reply])"
            continue
        source = f"{_task(edge.target)}_feed([feed])" if edge.source is None else _task(edge.source)
        label = f"{dispatch_text(edge)}: {', '.join(edge.carries)}" if edge.carries else dispatch_text(edge)
        arrow = "==>" if edge.fan_out else "-->"
        yield f'{source} {arrow}|"{_quoted(label)}"| {_task(edge.target)}'
    for task in graph.tasks:
        for access in task.accesses:
            arrow = "<-.->" if access.writes else "-.-"
            yield f"{_task(task.name)} {arrow} {_state(access.state)}"


def _task(name: str) -> str:
    return f"task_{name.replace('.', '_')}"


def _state(name: str) -> str:
    return f"state_{name}"


def _quoted(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
