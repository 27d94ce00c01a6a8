"""The four steps of the allocation: what is together, what is apart, and that it is all there once."""

from __future__ import annotations

from collections import Counter
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.compiler.compile import compile_program
from millpond.graph.allocation import Node, Together, allocate, allocation_lines
from millpond.graph.model import Access, Dispatch, Edge, Graph, Mode, StateNode, TaskNode
from tests.programs.keyed import Recommender
from tests.sizes import some_of
from tests.unit.graph.graphs import LOOPING, PARTED
from tests.unit.graph.test_text import GATHERED


@st.composite
def graphs(draw):
    """Any graph of a relaxed entry point, whose tasks may meet any states and go on to any tasks."""
    states = [f"s{n}" for n in range(draw(st.integers(0, 5)))]
    tasks = [f"go.{n}" for n in range(draw(st.integers(1, 6)))]
    met = {
        task: draw(st.lists(st.sampled_from(states), unique=True, max_size=2) if states else st.just([]))
        for task in tasks
    }
    moves = draw(st.lists(st.tuples(st.sampled_from(tasks), st.sampled_from(tasks)), unique=True, max_size=9))
    return Graph(
        "P",
        tuple(StateNode(state, "Map[int, int]", "partitioned", "", 0) for state in states),
        tuple(
            TaskNode(task, "go", step, tuple(Access(state, Mode.KEYED, writes=True) for state in met[task]), (1,))
            for step, task in enumerate(tasks)
        ),
        tuple(Edge(source, target, Dispatch.BY_KEY, "k", (), "moves") for source, target in moves),
        relaxed=frozenset({"go"}),
    )


def closure(pairs):
    """All pairs that follow: plainly, by adding until nothing is new."""
    found = set(pairs)
    while True:
        more = {(a, d) for (a, b), (c, d) in product(found, found) if b == c} - found
        if not more:
            return found
        found |= more


@settings(max_examples=some_of(200), deadline=None)
@given(graphs())
def test_states_are_together_if_a_loop_or_a_task_meets_them_and_else_apart(graph):
    met = {task.name: {access.state for access in task.accesses} for task in graph.tasks}
    ways = closure((edge.source, edge.target) for edge in graph.edges)
    in_one_loop = {(a, b) for a, b in ways if (b, a) in ways} | {(task, task) for task in met}
    side_by_side = {(s, t) for a, b in in_one_loop for s in met[a] for t in met[b]}
    wanted = closure(side_by_side | {(state.name, state.name) for state in graph.states})
    nodes = allocate(graph)
    assert {(s, t) for node in nodes for s, t in product(node.states, node.states)} == wanted


@settings(max_examples=some_of(200), deadline=None)
@given(graphs())
def test_every_state_and_every_task_has_one_node_and_tasks_are_with_what_they_meet(graph):
    nodes = allocate(graph)
    placed = Counter(name for node in nodes for name in (*node.states, *node.tasks))
    assert placed == Counter([*(state.name for state in graph.states), *(task.name for task in graph.tasks)])
    for task in graph.tasks:
        (node,) = [node for node in nodes if task.name in node.tasks]
        assert {access.state for access in task.accesses} <= set(node.states)
        assert bool(node.states) == bool(task.accesses)
    assert len(list(allocation_lines(graph))) >= 1 + 2 * len(nodes)


def test_the_worked_example_of_the_paper_comes_out():
    assert allocate(compile_program(Recommender).graph) == (
        Node(("ratings",), ("rate.0", "recommend.0")),
        Node(("together",), ("rate.1", "recommend.1")),
        Node((), ("recommend.2",)),
    )


def test_what_keeps_states_together_is_told():
    told = "\n".join(allocation_lines(LOOPING))
    assert "states nodes, seen on one node, since the loop of walk.1, walk.2 meets them; with tasks walk.0" in told
    assert "steps 0, 1 and 2 or later" in told
    assert "one node would be one core" in told
    assert {node.together for node in allocate(PARTED)} == {Together.ALONE}
    (gathered,) = allocate(GATHERED)
    assert gathered.together is Together.TASK
    assert "a row's component" in "\n".join(allocation_lines(GATHERED))
