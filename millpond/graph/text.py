"""A graph as text: stable, so that people and tests can compare it.

>>> from millpond.graph.model import Mode
>>> state = StateNode("counts", "Counter[str]", "partitioned", "", level=0)
>>> task = TaskNode("add.0", "add", 0, (Access("counts", Mode.KEYED, writes=True),), (5,))
>>> feed = Edge(None, "add.0", Dispatch.BY_KEY, "word", ("word",), "the key of counts")
>>> print(graph_text(Graph("Words", (state,), (task,), (feed,))), end="")
program Words: 1 step
state counts: Counter[str], partitioned, level 0
<BLANKLINE>
entry add
  exact because: each element is met at one step only: counts at 0
  exchanges: 1 (by key word)
  task add.0 at step 0, by key word, because: the key of counts
    takes word
    changes counts (keyed)
<BLANKLINE>
allocation: 1 node
  node 1: state counts on a node of its own; with task add.0
    on Spark: step 0, in the partition that owns the key, on the executor that has its state
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from millpond.graph.allocation import allocation_lines
from millpond.graph.cost import cost_of, entries_of
from millpond.graph.model import Access, Dispatch, Edge, Graph, StateNode, TaskNode, Touch

STEP_SECONDS = 0.15
"""What a step costs on Spark even if it has no rows, measured on two cores."""


def graph_text(
    graph: Graph,
    *,
    notes: Mapping[str, str] | None = None,
    hints: Mapping[str, Sequence[str]] | None = None,
    code: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Write a graph: its states, then each entry point, what it costs, and its tasks; last, what runs together where.

    `notes` and `hints` are by entry point, `code` by task.
    """
    return "\n".join(_lines(graph, notes or {}, hints or {}, code or {})) + "\n"


def _lines(
    graph: Graph, notes: Mapping[str, str], hints: Mapping[str, Sequence[str]], code: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    yield f"program {graph.program}: {count(graph.steps, 'step')}"
    yield from (_state(state) for state in graph.states)
    for entry in entries_of(graph):
        yield ""
        yield f"entry {entry}" + (f": {notes[entry]}" if entry in notes else "")
        yield from (f"  {line}" for line in entry_facts(graph, entry))
        yield from (f"  hint: {hint}" for hint in hints.get(entry, ()))
        for task in graph.tasks:
            if task.entry == entry:
                yield from _task(task, graph)
                yield from (f"      {line}" for line in code.get(task.name, ()))
    yield ""
    yield from allocation_lines(graph)


def entry_facts(graph: Graph, entry: str) -> Iterator[str]:
    """Say whether an entry point is exact, how many exchanges it takes, and where that depends on data."""
    cost = cost_of(graph, entry)
    if entry in graph.relaxed:
        yield f"relaxed because: {why_relaxed(graph, entry)}"
        yield "  a task is atomic; rows of other entry points may come in between wherever this one moves"
    else:
        yield f"exact because: {why_exact(graph, entry)}"
    if graph.why_sequence(entry):
        yield f"{entry}: in sequence, because {graph.why_sequence(entry)}"
        yield "exchanges: 1, to the one task in which all rows of an epoch run that has rows of it; others are as fast"
        return
    if graph.why_gathered(entry):
        yield f"{entry}: gathered, because {graph.why_gathered(entry)}"
        yield "exchanges: 1 (gathered), after a look at the keys, however many rows share keys"
        return
    ways = [dispatch_text(edge) for edge in cost.path if edge.source is not None or edge.dispatch is not Dispatch.ANY]
    yield f"exchanges: {cost.exchanges} ({', '.join(ways)})" if ways else "exchanges: none"
    for loop in cost.loops:
        yield f"warning: the number of steps depends on data: {' -> '.join((*loop, loop[0]))} is a loop"
        yield (
            f"  each further turn takes {count(len(loop), 'more step')}, {len(loop) * STEP_SECONDS:.2f} s or more on"
            " Spark however few rows are left; past the step budget of an epoch they go on in the next one"
        )


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
    """Return two elements that one entry point visits in one order and another in the other."""
    there = _visits(graph, other)
    later = {(second, first) for start, first in there for end, second in there if start < end}
    here = _visits(graph, one)
    pairs = [(first, second) for start, first in here for end, second in here if start < end]
    return next((pair for pair in pairs if pair in later), None)


def _state(state: StateNode) -> str:
    by = f" by {state.by}" if state.by else ""
    return f"state {state.name}: {state.type}{by}, {state.distribution}, level {state.level}"


def _task(task: TaskNode, graph: Graph) -> Iterator[str]:
    incoming = [edge for edge in graph.edges if edge.target == task.name]
    outgoing = [edge for edge in graph.edges if edge.source == task.name]
    step = f"step {task.step}" + (" or later" if task.entry in graph.relaxed else "")
    if len(incoming) == 1:
        yield f"  task {task.name} at {step}, {dispatch_text(incoming[0])}, {_because(incoming[0])}"
        yield f"    takes {', '.join(incoming[0].carries) or 'nothing'}"
    else:
        yield f"  task {task.name} at {step}"
        for edge in incoming:
            yield f"    from {edge.source or 'the feed'} {dispatch_text(edge)}, {_because(edge)}"
            yield f"      takes {', '.join(edge.carries) or 'nothing'}"
    yield from (f"    {line}" for line in access_lines(task))
    if len(outgoing) > 1:
        yield f"    goes on to {', '.join(_target(edge) for edge in outgoing)}"


def _because(edge: Edge) -> str:
    return f"because: {edge.reason}" + (", one message for each turn" if edge.fan_out else "")


def _target(edge: Edge) -> str:
    if edge.target is None:
        return "the reply"
    return f"{edge.target} for each turn" if edge.fan_out else edge.target


def dispatch_text(edge: Edge) -> str:
    """Return how an edge delivers: `by key user`, `one-to-all`."""
    if edge.dispatch is Dispatch.BY_KEY:
        return f"by key {edge.key}" if edge.key else "by the only key"
    return str(edge.dispatch.value)


def access_lines(task: TaskNode) -> list[str]:
    """Return how a task meets its states; of a gathered one, its read and write sets."""
    if not task.touches:
        return [access_text(access) for access in task.accesses]
    states = dict.fromkeys(touch.state for touch in task.touches)
    return [_touched([touch for touch in task.touches if touch.state == state]) for state in states]


def _touched(touches: Sequence[Touch]) -> str:
    """Return what is read and what is written of one state: `reads accounts[a], accounts[b]; writes both`."""
    read = [_place(touch) for touch in touches if touch.reads]
    written = [_place(touch) for touch in touches if touch.writes]
    if read and read == written:
        all_of_them = {1: "it", 2: "both"}.get(len(read), "all")
        return f"reads {', '.join(read)}; writes {all_of_them}"
    parts = [("reads", read), ("writes", written)]
    return "; ".join(f"{verb} {', '.join(places)}" for verb, places in parts if places)


def _place(touch: Touch) -> str:
    return f"{touch.state}[{touch.key}]" if touch.key else touch.state


def access_text(access: Access) -> str:
    """Return how a task meets a state: `reads ratings (keyed)`."""
    return f"{'changes' if access.writes else 'reads'} {access.state} ({access.mode.value})"


def count(number: int, word: str) -> str:
    """Return a number with its word: `1 step`, `2 steps`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
