from __future__ import annotations

import itertools

import pytest

from millpond.compiler.compile import compile_program
from millpond.graph.render.layout import Box, lay_out
from tests.unit.graph.graphs import LOOPING, PARTED
from tests.unit.graph.market import Market

MARKET = compile_program(Market).graph
GRAPHS = [PARTED, LOOPING, MARKET]


def overlap(one: Box, other: Box) -> bool:
    return (
        one.x < other.right and other.x < one.right and one.y < other.y + other.height and other.y < one.y + one.height
    )


def test_the_market_has_fifteen_tasks():
    assert len(MARKET.tasks) == 15


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.program)
def test_no_box_covers_another_and_all_are_inside(graph):
    picture = lay_out(graph)
    boxes = [box for box in picture.boxes if box.kind != "bend"]
    assert [(a.name, b.name) for a, b in itertools.combinations(boxes, 2) if overlap(a, b)] == []
    for box in boxes:
        assert box.x >= 0
        assert box.right <= picture.width
        assert box.y >= 0
        assert box.y + box.height <= picture.height
    names = [box.name for box in boxes if box.kind == "task"]
    assert sorted(names) == sorted(task.name for task in graph.tasks)
    assert {box.name for box in boxes if box.kind == "state"} == {state.name for state in graph.states}


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.program)
def test_steps_are_columns_and_state_stands_below_its_level(graph):
    picture = lay_out(graph)
    at = {(box.kind, box.name): box for box in picture.boxes}
    columns = {int(column.title.split()[1]): column.x for column in picture.columns}
    for task in graph.tasks:
        assert at["task", task.name].x == columns[task.step]
    floor = max(box.y + box.height for box in picture.boxes if box.kind == "task")
    for state in graph.states:
        assert at["state", state.name].x == columns[state.level]
        assert at["state", state.name].y > floor
    assert all(box.x < columns[0] for box in picture.boxes if box.kind == "feed")
    assert all(box.x > max(columns.values()) for box in picture.boxes if box.kind == "reply")


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.program)
def test_no_edge_runs_through_a_task(graph):
    picture = lay_out(graph)
    tasks = [box for box in picture.boxes if box.kind == "task"]
    for line in picture.lines:
        for one, other in itertools.pairwise(line.points[1:-1]):
            for box in tasks:
                inside = min(one.x, other.x) < box.right and box.x < max(one.x, other.x) and box.y < one.y
                assert not (one.y == other.y and inside and one.y < box.y + box.height), (line.edges, box.name)


def test_every_edge_and_access_has_a_line():
    picture = lay_out(LOOPING)
    assert sum(len(line.edges) for line in picture.lines) == len(LOOPING.edges)
    assert len(picture.links) == sum(len(task.accesses) for task in LOOPING.tasks)
    assert {(line.edges[0].source, line.edges[0].target) for line in picture.lines if line.back} == {
        ("walk.2", "walk.1"),
        ("walk.1", "walk.1"),
    }


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.program)
def test_labels_do_not_cover_each_other(graph):
    placed = [line.at for line in lay_out(graph).lines if any(line.label)]
    for one, other in itertools.combinations(placed, 2):
        assert abs(one.x - other.x) > 30 or abs(one.y - other.y) > 12
