from __future__ import annotations

import dataclasses

import pytest

from millpond.errors import ProgramError
from millpond.graph.model import Access, Dispatch, Edge, Graph, Mode, StateNode, TaskNode, Touch
from millpond.graph.render.dot import graph_dot
from millpond.graph.render.mermaid import graph_mermaid
from millpond.graph.render.svg import graph_svg
from millpond.graph.text import access_text, dispatch_text, graph_text
from tests.unit.graph.graphs import LOOPING, PARTED

STATE = StateNode("counts", "Map[str, list[int]]", "partitioned", "", 1)
FIRST = TaskNode("go.0", "go", 0, (), (3,))
SECOND = TaskNode("go.1", "go", 1, (Access("counts", Mode.KEYED, writes=True),), (4,))
FEED = Edge(None, "go.0", Dispatch.ANY, "", ("word",), "the feed")
MOVE = Edge("go.0", "go.1", Dispatch.BY_KEY, "key__0", ("key__0",), "the key is computed")
REPLY = Edge("go.1", None, Dispatch.ANY, "", (), "the reply")
GRAPH = Graph("P", (STATE,), (FIRST, SECOND), (FEED, MOVE, REPLY))


def test_a_graph_is_written_with_its_states_tasks_and_edges():
    assert graph_text(GRAPH, notes={"go": "exact"}, code={"go.1": ["4 | x"]}) == (
        "program P: 2 steps\n"
        "state counts: Map[str, list[int]], partitioned, level 1\n"
        "\n"
        "entry go: exact\n"
        "  exact because: each element is met at one step only: counts at 1\n"
        "  exchanges: 1 (by key key__0)\n"
        "  task go.0 at step 0, any, because: the feed\n"
        "    takes word\n"
        "  task go.1 at step 1, by key key__0, because: the key is computed\n"
        "    takes key__0\n"
        "    changes counts (keyed)\n"
        "      4 | x\n"
        "\n"
        "allocation: 2 nodes\n"
        "  node 1: state counts on a node of its own; with task go.1\n"
        "    on Spark: step 1, in the partition that owns the key, on the executor that has its state\n"
        "  node 2: task go.0, of its own, since it meets no state\n"
        "    on Spark: step 0, in the partition that its row is in by then, or is dealt to\n"
    )


TOUCHES = (
    Touch("counts", "a", reads=True, writes=True),
    Touch("counts", "b.lower()", reads=True, writes=True),
    Touch("log", "", reads=False, writes=True),
    Touch("names", "a", reads=True, writes=False),
    Touch("names", "b", reads=False, writes=True),
    Touch("total", "", reads=True, writes=True),
)
GATHERED = Graph(
    "P",
    tuple(StateNode(name, "Map[str, int]", "partitioned", "", 0) for name in ("counts", "log", "names", "total")),
    (TaskNode("go.0", "go", 0, (Access("counts", Mode.KEYED, writes=True),), (3,), TOUCHES),),
    (Edge(None, "go.0", Dispatch.GATHERED, "", ("a", "b"), "the feed"),),
    gathered=(("go", "go visits self.counts twice (lines 3, 4)"),),
)


def test_what_a_gathered_task_reads_and_writes_is_told():
    assert graph_text(GATHERED).splitlines()[6:16] == [
        "entry go",
        "  exact because: rows that share a key, directly or through others, run in input order in one task",
        "  go: gathered, because go visits self.counts twice (lines 3, 4)",
        "  exchanges: 1 (gathered), after a look at the keys, however many rows share keys",
        "  task go.0 at step 0, gathered, because: the feed",
        "    takes a, b",
        "    reads counts[a], counts[b.lower()]; writes both",
        "    writes log",
        "    reads names[a]; writes names[b]",
        "    reads total; writes it",
    ]
    for drawn in (graph_mermaid(GATHERED), graph_dot(GATHERED), graph_svg(GATHERED)):
        assert "reads counts[a], counts[b.lower()]; writes both" in drawn


def test_an_element_of_gathered_entry_points_belongs_to_them_alone():
    other = TaskNode("look.0", "look", 0, (Access("counts", Mode.KEYED, writes=False),), (9,))
    with pytest.raises(ProgramError) as refused:
        dataclasses.replace(GATHERED, tasks=(*GATHERED.tasks, other))
    assert refused.value.code == "MP194"


def test_hints_and_loops_are_told_with_what_they_cost():
    told = graph_text(LOOPING, hints={"walk": ["move line 3 up"]})
    assert "  hint: move line 3 up\n" in told
    assert "  warning: the number of steps depends on data: walk.1 -> walk.2 -> walk.1 is a loop\n" in told
    assert "    each further turn takes 2 more steps, 0.30 s or more on Spark" in told
    assert (
        "  task walk.1 at step 1 or later\n    from walk.0 by key at, because: self.seen is under another key\n" in told
    )


def test_a_task_with_several_ways_on_names_them():
    assert "    goes on to buy.1, buy.2, buy.3, the reply\n" in graph_text(PARTED)
    assert "    goes on to post.1 for each turn, the reply\n" in graph_text(LOOPING)


def test_a_graph_is_drawn():
    drawn = graph_mermaid(GRAPH)
    assert drawn.startswith("flowchart LR\n")
    assert '  task_go_0 -->|"by key key__0: key__0"| task_go_1\n' in drawn
    assert "  task_go_1 <-.-> state_counts\n" in drawn


def test_what_mermaid_would_read_as_markup_is_quoted():
    state = dataclasses.replace(STATE, type='Map[str, "<b>"]')
    assert "&quot;&lt;b&gt;&quot;" in graph_mermaid(dataclasses.replace(GRAPH, states=(state,)))


def test_words_for_dispatch_and_access():
    assert dispatch_text(dataclasses.replace(MOVE, key="")) == "by the only key"
    assert dispatch_text(dataclasses.replace(MOVE, dispatch=Dispatch.ONE_TO_ALL)) == "one-to-all"
    assert access_text(Access("counts", Mode.GLOBAL, writes=False)) == "reads counts (global)"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"states": (STATE, STATE)}, "MP190"),
        ({"tasks": (FIRST, dataclasses.replace(SECOND, step=2))}, "MP191"),
        ({"edges": (dataclasses.replace(FEED, target="no.0"),)}, "MP192"),
        ({"edges": (dataclasses.replace(MOVE, source="go.1", target="go.0"),)}, "MP193"),
    ],
)
def test_a_graph_that_does_not_hold_together_is_refused(change, code):
    with pytest.raises(ProgramError) as refused:
        dataclasses.replace(GRAPH, **change)
    assert refused.value.code == code
