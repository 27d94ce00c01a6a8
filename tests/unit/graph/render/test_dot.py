from __future__ import annotations

import dataclasses
import shutil
import subprocess

import pytest

from millpond.graph.render.dot import graph_dot
from tests.unit.graph.graphs import LOOPING, PARTED


def test_tasks_states_and_edges_are_there():
    dot = graph_dot(PARTED)
    assert '  "task buy.1" [label="buy.1\\nstep 1\\nchanges carts (keyed)"]\n' in dot
    assert (
        '  "state carts" [shape=cylinder style=solid label="carts\\nMap[int, float]\\npartitioned, level 1"]\n' in dot
    )
    assert (
        '  "task buy.0" -> "task buy.1" [label="by key cart\\ncart, day" tooltip="self.carts is under another key"]\n'
        in dot
    )
    assert '  { rank=same; "task buy.1"; "task buy.2"; "state carts"; "state gifts" }\n' in dot
    assert '  "task buy.0" -> "state users" [style=dashed dir=none constraint=false]\n' in dot


def test_one_message_for_each_turn_is_thick():
    assert "penwidth=3" in graph_dot(LOOPING)
    assert "penwidth" not in graph_dot(PARTED)


def test_quotes_and_backslashes_are_escaped():
    state = dataclasses.replace(PARTED.states[0], type='Map[int, Literal["a\\"]]')
    assert 'Map[int, Literal[\\"a\\\\\\"]]' in graph_dot(
        dataclasses.replace(PARTED, states=(state, *PARTED.states[1:]))
    )


@pytest.mark.skipif(shutil.which("dot") is None, reason="no Graphviz on this machine")
@pytest.mark.parametrize("graph", [PARTED, LOOPING])
def test_graphviz_reads_it(graph):
    done = subprocess.run(["dot", "-Tplain"], input=graph_dot(graph), capture_output=True, text=True, check=True)
    assert done.stdout.startswith("graph")
    assert done.stderr == ""
