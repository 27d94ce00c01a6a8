"""What is ready made is exact: against networkx and scipy, over generated graphs."""

from __future__ import annotations

import collections

import networkx
import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import csgraph

from millpond.errors import LoopError
from millpond.loops.vertices.components import connected_components, joined
from millpond.loops.vertices.compressed import Compressed
from millpond.loops.vertices.cores import core_numbers, degrees, k_core, triangles
from millpond.loops.vertices.labels import label_propagation
from millpond.loops.vertices.paths import bfs, shortest_paths
from millpond.loops.vertices.ranks import pagerank
from tests.unit.loops.vertices.graphs import KINDS, by_id, compressed, edges_of, peer

EVERY = pytest.mark.parametrize(("seed", "kind"), [(seed, kind) for seed in range(12) for kind in KINDS])


def code_of(call):
    with pytest.raises(LoopError) as caught:
        call()
    return caught.value.code


@EVERY
def test_compressed_rows_hold_the_edges(seed, kind):
    graph = compressed(seed, kind, weighted=True)
    _, edges = edges_of(seed, kind)
    held = zip(graph.ids[graph.heads].tolist(), graph.ids[graph.targets].tolist(), graph.weights.tolist(), strict=True)
    assert collections.Counter(held) == collections.Counter(edges)
    assert [graph.targets[a:b].tolist() for a, b in zip(graph.starts, graph.starts[1:], strict=False)] == [
        sorted(graph.targets[a:b].tolist()) for a, b in zip(graph.starts, graph.starts[1:], strict=False)
    ]


@EVERY
def test_pagerank(seed, kind):
    graph = compressed(seed, kind)
    expected = networkx.pagerank(peer(seed, kind, networkx.MultiDiGraph), tol=1e-13, max_iter=500, weight=None)
    found = by_id(graph, pagerank(graph, tolerance=1e-14, rounds=500).ranks)
    assert found == pytest.approx(expected, abs=1e-9)


@EVERY
def test_pagerank_with_weights(seed, kind):
    graph = compressed(seed, kind, weighted=True)
    expected = networkx.pagerank(peer(seed, kind), tol=1e-13, max_iter=500)
    assert by_id(graph, pagerank(graph, tolerance=1e-14, rounds=500).ranks) == pytest.approx(expected, abs=1e-9)


@EVERY
def test_personal_pagerank(seed, kind):
    graph = compressed(seed, kind)
    personal = {int(graph.ids[0]): 1.0, int(graph.ids[-1]): 3.0}
    expected = networkx.pagerank(peer(seed, kind), personalization=personal, tol=1e-13, max_iter=500, weight=None)
    found = pagerank(graph, personal=personal, tolerance=1e-14, rounds=500).ranks
    assert by_id(graph, found) == pytest.approx(expected, abs=1e-9)


@EVERY
def test_ranks_from_an_earlier_graph_come_to_the_same(seed, kind):
    graph = compressed(seed, kind)
    cold = pagerank(graph, tolerance=1e-12, rounds=1000)
    warm = pagerank(graph, tolerance=1e-12, rounds=1000, start=cold.ranks)
    assert warm.rounds <= min(cold.rounds, 1 if kind == "empty" else 2)
    assert warm.ranks == pytest.approx(cold.ranks, abs=1e-10)


@EVERY
def test_connected_components(seed, kind):
    graph = compressed(seed, kind)
    found = by_id(graph, graph.ids[connected_components(graph)])
    groups = networkx.weakly_connected_components(peer(seed, kind))
    assert found == {one: min(group) for group in groups for one in group}


@EVERY
def test_components_of_pieces_are_those_of_all(seed, kind):
    graph = compressed(seed, kind)
    labels = np.arange(graph.size)
    for begin in range(0, len(graph.targets), 7):
        labels = joined(labels, graph.heads[begin : begin + 7], graph.targets[begin : begin + 7])
    assert labels.tolist() == connected_components(graph).tolist()


@EVERY
def test_distances_in_edges(seed, kind):
    graph = compressed(seed, kind)
    source = int(graph.ids[graph.size // 2])
    expected = networkx.single_source_shortest_path_length(peer(seed, kind), source)
    found = by_id(graph, bfs(graph, [source]))
    assert {key: depth for key, depth in found.items() if depth >= 0} == dict(expected)


@EVERY
def test_distances_in_weights(seed, kind):
    graph = compressed(seed, kind, weighted=True)
    sources = [int(graph.ids[0]), int(graph.ids[graph.size // 2])]
    expected = networkx.multi_source_dijkstra_path_length(peer(seed, kind), set(sources))
    found = by_id(graph, shortest_paths(graph, sources))
    assert {key: far for key, far in found.items() if far < np.inf} == expected


@EVERY
def test_triangles(seed, kind):
    graph = compressed(seed, kind)
    assert by_id(graph, triangles(graph)) == networkx.triangles(networkx.Graph(peer(seed, kind)))


def test_triangles_in_pieces(monkeypatch):
    graph = compressed(3, "dense")
    whole = triangles(graph).tolist()
    monkeypatch.setattr("millpond.loops.vertices.cores._PAIRS_MAX", 5)
    assert triangles(graph).tolist() == whole


@EVERY
def test_cores(seed, kind):
    graph = compressed(seed, kind)
    plain = networkx.Graph(peer(seed, kind))
    plain.remove_edges_from(networkx.selfloop_edges(plain))
    assert by_id(graph, core_numbers(graph)) == networkx.core_number(plain)
    assert set(graph.ids[k_core(graph, 2)].tolist()) == set(networkx.k_core(plain, 2).nodes)


@EVERY
def test_degrees(seed, kind):
    graph, other = compressed(seed, kind), peer(seed, kind)
    outgoing, incoming = degrees(graph)
    assert by_id(graph, outgoing) == dict(other.out_degree)
    assert by_id(graph, incoming) == dict(other.in_degree)


def votes(other, labels):
    fresh = {}
    for one in other.nodes:
        cast = collections.Counter([labels[one], *(labels[near] for near in other[one])])
        fresh[one] = min(cast, key=lambda label: (-cast[label], label))
    return fresh


@EVERY
@pytest.mark.parametrize("rounds", [1, 2, 9, 10])
def test_labels(seed, kind, rounds):
    graph = compressed(seed, kind)
    other = networkx.Graph(peer(seed, kind))
    other.remove_edges_from(networkx.selfloop_edges(other))
    labels = {one: one for one in other.nodes}
    for _ in range(rounds):
        labels = votes(other, labels)
    assert by_id(graph, graph.ids[label_propagation(graph, rounds=rounds)]) == labels


def test_large_graphs_agree_with_scipy():
    draw = np.random.default_rng(5)
    heads = draw.integers(0, 70_000, 90_000)
    tails = draw.integers(0, 70_000, 90_000)
    graph = Compressed.of(heads, tails, vertices=np.arange(70_000))
    matrix = sparse.csr_matrix((np.ones(90_000), (heads, tails)), shape=(70_000, 70_000))
    count, labels = csgraph.connected_components(matrix, directed=False)
    found = connected_components(graph)
    assert len(np.unique(found)) == count
    assert len(np.unique(found * count + labels)) == count
    depths = csgraph.dijkstra(matrix, indices=0, unweighted=True)
    assert np.array_equal(np.where(depths == np.inf, -1, depths), bfs(graph, [0]))


def test_the_order_of_edges_does_not_show_in_a_bit():
    draw = np.random.default_rng(6)
    heads, tails, weights = draw.integers(0, 300, 4000), draw.integers(0, 300, 4000), draw.random(4000)
    mixed = draw.permutation(4000)
    one = pagerank(Compressed.of(heads, tails, weights), rounds=20, tolerance=0.0)
    two = pagerank(Compressed.of(heads[mixed], tails[mixed], weights[mixed]), rounds=20, tolerance=0.0)
    assert one.ranks.tobytes() == two.ranks.tobytes()
    assert one.rounds == 20


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda graph: Compressed.of(np.array([1]), np.array([1, 2])), "MP860"),
        (lambda graph: bfs(graph, [10**6]), "MP861"),
        (lambda graph: pagerank(graph, damping=1.0), "MP862"),
        (lambda graph: pagerank(graph, tolerance=-1.0), "MP862"),
        (lambda graph: pagerank(graph, tolerance=0.0, rounds=None), "MP862"),
        (lambda graph: pagerank(graph, personal={}), "MP862"),
        (lambda graph: pagerank(graph, personal={int(graph.ids[0]): -1.0}), "MP862"),
        (lambda graph: shortest_paths(Compressed.of(np.array([1]), np.array([2]), np.array([-1.0])), [1]), "MP863"),
        (lambda graph: shortest_paths(Compressed.of(np.array([1]), np.array([2]), np.array([np.nan])), [1]), "MP863"),
    ],
)
def test_what_can_not_be_computed_is_refused(call, code):
    graph = compressed(1, "sparse")
    assert code_of(lambda: call(graph)) == code


def test_text_as_ids():
    graph = Compressed.of(np.array(["b", "a"]), np.array(["c", "b"]))
    assert by_id(graph, bfs(graph, ["a"])) == {"a": 0, "b": 1, "c": 2}
    assert code_of(lambda: bfs(graph, ["z"])) == "MP861"
