from __future__ import annotations

import dataclasses

from millpond.graph.cost import cost_of
from millpond.graph.model import Dispatch, Edge, Graph, StateNode, TaskNode
from millpond.graph.text import why_exact, why_relaxed
from tests.unit.graph.graphs import ANY, BY_KEY, LOOPING, PARTED, touches


def test_the_longest_way_counts_with_the_feed():
    cost = cost_of(PARTED, "buy")
    assert [edge.target for edge in cost.path] == ["buy.0", "buy.1", "buy.3"]
    assert (cost.exchanges, cost.loops) == (3, ())


def test_a_feed_that_may_go_anywhere_takes_no_exchange():
    feed = dataclasses.replace(PARTED.edges[0], dispatch=Dispatch.ANY, key="")
    assert cost_of(dataclasses.replace(PARTED, edges=(feed, *PARTED.edges[1:])), "buy").exchanges == 2


def test_loops_are_found_with_the_tasks_of_a_turn():
    cost = cost_of(LOOPING, "walk")
    assert cost.exchanges == 3
    assert sorted(cost.loops) == [("walk.1",), ("walk.1", "walk.2")]
    assert cost_of(LOOPING, "post").loops == ()


def test_an_entry_point_is_exact_because_of_its_levels():
    assert why_exact(PARTED, "buy").endswith("users at 0, carts at 1, gifts at 1, sales at 2")
    free = Graph("F", (), (TaskNode("f.0", "f", 0, (), ()),), (Edge(None, "f.0", ANY, "", (), "the feed"),))
    assert why_exact(free, "f") == "it touches no state"


def test_a_relaxed_entry_point_says_what_keeps_it_from_being_exact():
    assert why_relaxed(LOOPING, "walk").startswith("a loop crosses a cut")
    states = (
        StateNode("a", "Counter[int]", "partitioned", "", 0),
        StateNode("b", "Counter[int]", "partitioned", "", 1),
    )

    def straight(entry: str, *names: str) -> tuple[tuple[TaskNode, ...], tuple[Edge, ...]]:
        tasks = tuple(TaskNode(f"{entry}.{n}", entry, n, touches(name), ()) for n, name in enumerate(names))
        ends = [None, *(task.name for task in tasks)]
        return tasks, tuple(Edge(ends[n], task.name, BY_KEY, "k", (), "") for n, task in enumerate(tasks))

    def graph(*parts: tuple[tuple[TaskNode, ...], tuple[Edge, ...]]) -> Graph:
        return Graph("R", states, sum((p[0] for p in parts), ()), sum((p[1] for p in parts), ()), frozenset(("r",)))

    assert why_relaxed(graph(straight("r", "a", "b", "a")), "r") == "self.a is visited at steps 0 and 2"
    opposite = why_relaxed(graph(straight("r", "b", "a"), straight("x", "a", "b")), "r")
    assert opposite == "it visits self.b before self.a, and x visits them the other way round"
    assert "could do without" in why_relaxed(graph(straight("r", "a", "b"), straight("x", "a", "b")), "r")
