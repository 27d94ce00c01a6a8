"""Which states and tasks belong together on a node, by the four steps of the SDG paper, and what Spark makes of it.

1. States that are met inside one loop go to one node. So do those that one task meets: the paper's tasks meet one each.
2. Every other state goes to a node of its own.
3. A task goes to the node of the state that it meets.
4. A task without state goes to a node of its own.

Spark runs the steps of an epoch one after the other, each on all partitions. So nodes are not machines here: a node is
a step and a way to choose the partition. What follows from the paper and what does not is said for each.

>>> from millpond.graph.model import Access, Mode, StateNode
>>> states = tuple(StateNode(name, "Map[str, int]", "partitioned", "", 0) for name in "ab")
>>> task = TaskNode("go.0", "go", 0, tuple(Access(name, Mode.KEYED, writes=True) for name in "ab"), ())
>>> [(node.states, node.together.value) for node in allocate(Graph("P", states, (task,), ()))]
[(('a', 'b'), 'one task meets them')]
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from millpond.graph.model import Dispatch, Graph, TaskNode


class Together(enum.Enum):
    """Why states are on one node."""

    LOOP = "one loop meets them"
    TASK = "one task meets them"
    ALONE = "a node of its own"


@dataclass(frozen=True, slots=True)
class Node:
    """States that are kept together, with the tasks that meet them; or a single task that meets none."""

    states: tuple[str, ...]
    tasks: tuple[str, ...]
    together: Together = Together.ALONE
    because: str = ""
    """What keeps several states together: the tasks of a loop, or a task."""

    def __post_init__(self) -> None:
        assert self.states or len(self.tasks) == 1, "a task without state shares its node with nobody"
        assert (len(self.states) > 1) == (self.together is not Together.ALONE), "a single state is kept with nothing"


def allocate(graph: Graph) -> tuple[Node, ...]:
    """Allocate all states and tasks of a graph to nodes: every one to exactly one."""
    reasons = _reasons(graph)
    home: dict[str, tuple[str, ...]] = {state.name: (state.name,) for state in graph.states}
    why: dict[tuple[str, ...], tuple[Together, str]] = {}
    for together, because, states in reasons:
        joined = tuple(state for state in home if any(state in home[one] for one in states))
        if len(joined) > 1:
            first = next((why[home[one]] for one in joined if home[one] in why), (together, because))
            home |= dict.fromkeys(joined, joined)
            why[joined] = first
    met = {task.name: next(iter(_met(task)), None) for task in graph.tasks}
    with_states = [
        Node(
            states,
            tuple(task for task, state in met.items() if state in states),
            *why.get(states, (Together.ALONE, "")),
        )
        for states in dict.fromkeys(home.values())
    ]
    return (*with_states, *(Node((), (task,)) for task, state in met.items() if state is None))


def allocation_lines(graph: Graph) -> Iterator[str]:
    """Say for each node what is on it and why, and how Spark honours that."""
    nodes = allocate(graph)
    yield f"allocation: {len(nodes)} {'node' if len(nodes) == 1 else 'nodes'}"
    for number, node in enumerate(nodes, 1):
        yield f"  node {number}: {_held(node)}"
        yield f"    on Spark: {_on_spark(graph, node)}"
    if sum(1 for node in nodes if node.states) > 1:
        yield (
            "  nodes share their partitions: Spark runs one step after the other, and partitions of one node alone"
            " would be idle at the steps of all others"
        )


def _reasons(graph: Graph) -> Iterator[tuple[Together, str, list[str]]]:
    """Yield what brings states together, in the order of the steps."""
    tasks = {task.name: task for task in graph.tasks}
    for loop in _loops(graph):
        yield Together.LOOP, ", ".join(loop), list(dict.fromkeys(state for name in loop for state in _met(tasks[name])))
    for task in graph.tasks:
        if not graph.why_sequence(task.entry):
            yield Together.TASK, task.name, _met(task)


def _loops(graph: Graph) -> list[tuple[str, ...]]:
    """Return the tasks that can be met again after each other, loop by loop; loops that share a task are one."""
    after: dict[str, set[str]] = {task.name: set() for task in graph.tasks}
    for edge in graph.edges:
        if edge.source is not None and edge.target is not None:
            after[edge.source].add(edge.target)
    reached = {name: _reached(name, after) for name in after}
    loops = [tuple(other for other in after if other in reached[name] and name in reached[other]) for name in after]
    return list(dict.fromkeys(loop for loop in loops if loop))


def _reached(name: str, after: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    left = [name]
    while left:
        for other in after[left.pop()] - found:
            found.add(other)
            left.append(other)
    return found


def _met(task: TaskNode) -> list[str]:
    """Return the states that a task meets; a gathered one tells all of them by what it touches."""
    return list(dict.fromkeys([*(access.state for access in task.accesses), *(touch.state for touch in task.touches)]))


def _held(node: Node) -> str:
    tasks = _names("task", node.tasks)
    if not node.states:
        return f"{tasks}, of its own, since it meets no state"
    match node.together:
        case Together.LOOP:
            why = f"on one node, since the loop of {node.because} meets them"
        case Together.TASK:
            why = f"on one node, since task {node.because} meets them"
        case Together.ALONE:
            why = "on a node of its own"
    if not node.tasks:
        return f"{_names('state', node.states)} {why}; no task meets it"
    return f"{_names('state', node.states)} {why}; with {tasks}"


def _names(word: str, names: Iterable[str]) -> str:
    found = list(names)
    return f"{word}{'' if len(found) == 1 else 's'} {', '.join(found)}"


def _on_spark(graph: Graph, node: Node) -> str:
    tasks = [task for task in graph.tasks if task.name in node.tasks]
    if not tasks:
        return "kept, and met at no step"
    if not node.states:
        return f"{_steps(graph, tasks)}, {_way(graph, tasks[0])}"
    by_themselves = [task for task in tasks if not graph.why_sequence(task.entry)]
    if not by_themselves:
        return "in the one task of the epoch, which reads what partitions own from their stores"
    tasks = by_themselves
    if any(graph.why_gathered(task.entry) for task in tasks):
        return (
            f"{_steps(graph, tasks)}, in the partition that a row's component is sent to, which reads"
            " what others own from their stores"
        )
    partial = all(state.distribution == "partial" for state in graph.states if state.name in node.states)
    place = "in the partition that has the instance" if partial else "in the partition that owns the key"
    text = f"{_steps(graph, tasks)}, {place}, on the executor that has its state"
    if node.together is Together.LOOP:
        text += "; a turn under another key moves to the partition of that key, since one node would be one core"
    return text


def _steps(graph: Graph, tasks: list[TaskNode]) -> str:
    steps = sorted({task.step for task in tasks})
    later = " or later" if any(task.entry in graph.relaxed for task in tasks) else ""
    *some, last = map(str, steps)
    return f"{'steps ' + ', '.join(some) + ' and' if some else 'step'} {last}{later}"


def _way(graph: Graph, task: TaskNode) -> str:
    """Return where a task without state runs."""
    ways = {edge.dispatch for edge in graph.edges if edge.target == task.name}
    if Dispatch.ALL_TO_ONE in ways:
        return "in the partition that its request belongs to"
    return "in the partition that its row is in by then, or is dealt to"
