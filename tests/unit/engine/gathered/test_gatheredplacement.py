"""Connected components over shared keys, against a plain search, and their packing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.engine.gathered.gatheredplacement import connected, neighbours, packed


def labels_by_search(count, edges):
    """The least node of each component, found by walking."""
    near = {node: set() for node in range(count)}
    for one, other in edges:
        near[one].add(other)
        near[other].add(one)
    labels = [-1] * count
    for node in range(count):
        if labels[node] < 0:
            waiting = [node]
            while waiting:
                at = waiting.pop()
                if labels[at] < 0:
                    labels[at] = node
                    waiting += near[at]
    return labels


def label(count, edges):
    left, right = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    return connected(count, left, right).tolist()


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.tuples(*[st.integers(0, n - 1)] * 2)))))
def test_components_are_those_that_a_walk_finds(case):
    count, edges = case
    assert label(count, edges) == labels_by_search(count, edges)


@pytest.mark.parametrize("shape", ["path", "shuffled path", "star", "caterpillar", "cycle"])
def test_long_chains_and_stars_are_one_component(shape):
    count = 20_000
    nodes = np.arange(count)
    if shape == "shuffled path":
        nodes = np.random.default_rng(1).permutation(count)
    left, right = nodes[:-1], nodes[1:]
    if shape == "star":
        left = np.full(count - 1, count - 1)
        right = np.arange(count - 1)
    if shape == "caterpillar":
        leaves, spine = np.arange(count - 100), count - 1 - np.arange(100)
        left = np.concatenate([leaves, spine[:-1]])
        right = np.concatenate([spine[leaves % 100], spine[1:]])
    if shape == "cycle":
        left, right = nodes, np.roll(nodes, 1)
    assert not connected(count, left, right).any()


@given(st.lists(st.lists(st.integers(0, 30), max_size=5), max_size=20))
def test_nodes_of_one_owner_are_joined(sets):
    owners = np.array([owner for owner, nodes in enumerate(sets) for _ in nodes], dtype=np.int64)
    nodes = np.array([node for of in sets for node in of], dtype=np.int64)
    edges = [(nodes[0], other) for nodes in sets if nodes for other in nodes[1:]]
    assert connected(31, *neighbours(owners, nodes)).tolist() == labels_by_search(31, edges)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=300), st.integers(1, 9))
def test_packing_places_every_component_and_no_partition_far_above_its_share(weights, partitions):
    placed = packed(np.array(weights, dtype=np.int64), partitions)
    assert len(placed) == len(weights)
    assert set(placed.tolist()) <= set(range(partitions))
    loads = np.bincount(placed, weights=weights, minlength=partitions)
    assert loads.max() <= 2 * sum(weights) / partitions + 2 * max(weights)


def test_many_small_components_are_spread_evenly():
    weights = np.ones(100_000, dtype=np.int64)
    loads = np.bincount(packed(weights, 7), minlength=7)
    assert loads.max() - loads.min() <= 2
