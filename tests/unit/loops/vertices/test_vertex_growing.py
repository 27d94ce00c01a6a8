"""Graphs that grow give what the whole graph gives; removals; snapshots in a program; programs of vertices."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import networkx
import numpy as np
import pytest

from millpond.errors import LoopError
from millpond.loops import (
    Vertex,
    bfs,
    connected_components,
    degrees,
    fixpoint,
    k_core,
    label_propagation,
    pagerank,
    persistent,
    rounds,
    run_vertices,
    shortest_paths,
    state,
    triangles,
    within,
)
from millpond.loops.program import loop_program
from millpond.loops.vertices.edges import Edges
from millpond.loops.vertices.kinds import SnapshotKind, VertexKind
from millpond.loops.vertices.ready import must_be_ready
from millpond.testing import assert_equals_plain, at, crash, simulate
from millpond.windowing import tumbling
from tests.unit.loops.vertices.graphs import KINDS, edges_of, peer

READY = {
    "degrees": degrees(),
    "components": connected_components(),
    "paths": shortest_paths([3, 11, -(10**6)]),
    "bfs": bfs([3, 11]),
    "labels": label_propagation(rounds=6),
    "triangles": triangles(),
    "cores": k_core(),
    "pagerank": pagerank(tolerance=1e-14, rounds=500),
}


def rows_of(seed, kind, *, text=False):
    ids, edges = edges_of(seed, kind)
    name = (lambda one: f"v{one}") if text else (lambda one: one)
    rows = [(name(a), at_, (name(b), weight, None)) for at_, (a, b, weight) in enumerate(edges)]
    return [(name(one), 0, (None, None, None)) for one in ids[:3]] + rows


def table(columns):
    names = list(columns)
    return {row[0]: row[1:] for row in zip(*(columns[name].tolist() for name in names), strict=True)}


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("name", READY)
def test_a_growing_graph_gives_what_the_whole_gives(name, directed, text):
    ready = READY[name]
    if text and name in {"paths", "bfs"}:
        ready = type(ready)(["v3", "v11"])
    for seed, kind in enumerate(KINDS):
        rows = rows_of(seed, kind, text=text)
        carried = b""
        for begin in range(0, len(rows) + 1, 23):
            columns, carried = ready.grow(Edges.of(rows[begin : begin + 23]), carried, directed=directed)
        expected = table(ready.run(Edges.of(rows), directed=directed))
        found = table(columns)
        assert found.keys() == expected.keys()
        for key, cells in expected.items():
            assert found[key] == pytest.approx(cells, abs=1e-9)
        assert all(type(cell) is type(wanted) for cell, wanted in zip(found[key], cells, strict=True))


@pytest.mark.parametrize("seed", range(6))
def test_removed_edges_are_gone(seed):
    draw = random.Random(seed)
    rows, there = [], []
    for now in range(120):
        a, b = draw.randrange(6), draw.randrange(6)
        gone = draw.random() < 0.3
        rows.append((a, now, (b, None, gone)))
        there = [edge for edge in there if edge != (a, b)] if gone else [*there, (a, b)]
    draw.shuffle(rows)
    edges = Edges.of(rows)
    assert sorted(zip(edges.sources.tolist(), edges.targets.tolist(), strict=True)) == sorted(there)


def test_edges_come_back_from_bytes():
    for rows in (rows_of(2, "power"), rows_of(2, "power", text=True), []):
        edges = Edges.of(rows)
        again = Edges.unpacked(edges.packed())
        for name in ("sources", "targets", "vertices"):
            assert getattr(again, name).tolist() == getattr(edges, name).tolist()
        assert np.array_equal(again.known_weights, edges.known_weights)


class Ranks(Vertex):
    combine = sum
    aggregators: ClassVar = {"change": sum}
    rank: float = persistent(1.0)
    started: bool = state(False)

    def compute(self, messages: list[float]) -> None:
        if self.started:
            fresh = 0.15 + 0.85 * sum(messages)
            self.report("change", abs(fresh - self.rank))
            self.rank = fresh
        self.started = True
        if not self.is_sink:
            self.send_out(self.rank / len(self.edges))

    def finalize(self) -> float:
        return self.rank


class Far(Vertex):
    combine = min
    far: float = state(float("inf"))

    def compute(self, messages: list[float]) -> None:
        nearer = 0.0 if self.id == 0 else min(messages, default=float("inf"))
        if nearer < self.far:
            self.far = nearer
            for target, weight in self.edges:
                self.send(target, nearer + (1.0 if weight is None else weight))

    def finalize(self) -> float | None:
        return self.far if self.far < float("inf") else None


class Shape(Vertex):
    def finalize(self) -> int:
        return 100 * self.in_degree + 10 * len(self.neighbors) + 2 * self.is_source + self.is_sink


@pytest.mark.parametrize("seed", range(5))
def test_vertices_find_shortest_paths(seed):
    _, edges = edges_of(seed, "sparse")
    edges = [(a % 40, b % 40, weight) for a, b, weight in edges]
    other = networkx.MultiDiGraph()
    other.add_weighted_edges_from([(0, 0, 1.0), *edges])
    expected = networkx.single_source_dijkstra_path_length(other, 0)
    assert run_vertices(Far, [(0, 0, 1.0), *edges], until=fixpoint()) == expected


def test_vertices_know_their_edges():
    assert run_vertices(Shape, [(1, 2), (1, 3), (2, 3)], until=fixpoint()) == {1: 22, 2: 110, 3: 201}
    assert run_vertices(Shape, [(1, 2), (2, 2)], until=fixpoint(), directed=False) == {1: 110, 2: 220}


def test_vertices_rank():
    edges = [(1, 2), (2, 3), (3, 1), (3, 2)]
    found = run_vertices(Ranks, edges, until=within(1e-12, of="change") | rounds(400))
    expected = networkx.pagerank(networkx.DiGraph(edges), tol=1e-14, max_iter=500)
    assert {key: rank / 3 for key, rank in found.items()} == pytest.approx(expected, abs=1e-9)


START = datetime(2024, 1, 1, tzinfo=UTC)


def steps_of(seed, kind="sparse"):
    _, edges = edges_of(seed, kind)
    moments = [START + timedelta(seconds=40 * place / len(edges)) for place in range(len(edges))]
    return [at(moment, ("add", a, (b, weight, None))) for moment, (a, b, weight) in zip(moments, edges, strict=True)]


def by_second(run):
    found = {}
    for fired in run.fired:
        for begin, _, vertex, *cells in fired.reply:
            found.setdefault(int((begin - START).total_seconds()), {})[vertex] = tuple(cells)
    return found


def part(seed, begin, end, kind="sparse"):
    _, edges = edges_of(seed, kind)
    chosen = [one for place, one in enumerate(edges) if begin <= 40 * place / len(edges) < end]
    return Edges.of([(a, 0, (b, weight, None)) for a, b, weight in chosen])


@pytest.mark.parametrize(
    ("name", "growing"), [("pagerank", False), ("pagerank", True), ("components", True), ("paths", True)]
)
def test_snapshots_in_a_program(name, growing):
    kind = SnapshotKind(READY[name], int, growing=growing)
    program = loop_program(kind, tumbling("10 s"))
    faults = [crash(at="computed", epoch=2), crash(at="committed", epoch=4)]
    run = simulate(program, steps_of(4), epochs=5, partitions=3, faults=faults, close=True)
    found = by_second(run)
    assert sorted(found) == [0, 10, 20, 30]
    for second, vertices in found.items():
        expected = table(READY[name].run(part(4, 0 if growing else second, second + 10)))
        assert vertices.keys() == expected.keys()
        for vertex, cells in expected.items():
            assert vertices[vertex] == pytest.approx(cells, abs=1e-9)


def test_a_program_of_vertices_goes_on_after_a_crash_and_carries_ranks_on():
    kind = VertexKind(Ranks, rounds(7), vertex=int)
    program = loop_program(kind, tumbling("10 s"), budget=2)
    calm = simulate(program, steps_of(4), epochs=6, close=True)
    assert_equals_plain(calm)
    faults = [crash(at="computed", epoch=3), crash(at="published", epoch=5)]
    run = simulate(program, steps_of(4), epochs=6, partitions=4, faults=faults, close=True)
    assert by_second(run) == by_second(calm), "to the last bit"
    assert sorted(by_second(run)) == [0, 10, 20, 30]


def test_what_is_no_algorithm_is_refused():
    with pytest.raises(LoopError) as caught:
        must_be_ready(pagerank)
    assert caught.value.code == "MP866"


def test_networkx_has_the_same_components_as_text():
    rows = rows_of(3, "sparse", text=True)
    found = table(connected_components().run(Edges.of(rows)))
    other = networkx.Graph(peer(3, "sparse"))
    named = {one: min(f"v{each}" for each in group) for group in networkx.connected_components(other) for one in group}
    assert all(found[f"v{one}"] == (label,) for one, label in named.items() if f"v{one}" in found)
