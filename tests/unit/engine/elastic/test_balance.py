from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.engine.elastic.balance import TOLERANCE, Cheapest, balanced, cost_shares
from millpond.keygroups import Layout

WEIGHTS = st.floats(0, 1000, allow_subnormal=False)


@st.composite
def cases(draw, groups_max=40):
    """Some owners, another number of partitions, and weights."""
    groups = draw(st.integers(1, groups_max))
    aligned = draw(st.booleans())
    instances = draw(st.integers(1, groups))
    before = draw(st.integers(1, groups))
    layout = Layout(groups, before, instances, aligned)
    chosen = [draw(st.integers(0, before - 1)) for _ in layout.atoms]
    owners = tuple(owner for owner, atom in zip(chosen, layout.atoms, strict=True) for _ in atom)
    return layout, owners, draw(st.integers(1, groups)), [draw(WEIGHTS) for _ in range(groups)]


def costs(owners, partitions, weights, units=()):
    held = [0.0] * partitions
    for group, owner in enumerate(owners):
        held[owner] += weights[group] * (units[owner] if units else 1)
    return held


@given(cases())
def test_the_owners_are_ones_that_a_layout_can_have(case):
    layout, owners, partitions, weights = case
    found = balanced(owners, partitions, weights, layout.atoms)
    assert layout.with_owners(found, partitions).owners() == found


@given(cases())
def test_no_cost_is_above_the_ideal_by_more_than_the_tolerance_and_one_atom(case):
    layout, owners, partitions, weights = case
    found = balanced(owners, partitions, weights, layout.atoms)
    atoms = [sum(weights[group] for group in atom) for atom in layout.atoms]
    ideal = sum(weights) / partitions
    assert max(costs(found, partitions, weights)) <= ideal * (1 + TOLERANCE) + max(atoms) + 1e-6


@given(cases())
def test_what_is_balanced_stays_as_it_is(case):
    layout, owners, partitions, weights = case
    once = balanced(owners, partitions, weights, layout.atoms)
    assert balanced(once, partitions, weights, layout.atoms) == once


@given(cases())
def test_every_partition_gets_something_as_long_as_there_is_enough(case):
    layout, owners, partitions, weights = case
    used = set(balanced(owners, partitions, weights, layout.atoms))
    assert len(used) == min(partitions, len(layout.atoms))


@given(cases(groups_max=7), st.data())
def test_the_highest_cost_is_near_that_of_the_best_owners_there_are(case, data):
    layout, owners, partitions, weights = case
    partitions = min(partitions, 3)
    found = max(costs(balanced(owners, partitions, weights, layout.atoms, tolerance=0), partitions, weights))
    every = itertools.product(range(partitions), repeat=len(layout.atoms))
    spread = ([owner for owner, atom in zip(each, layout.atoms, strict=True) for _ in atom] for each in every)
    best = min(max(costs(each, partitions, weights)) for each in spread)
    atoms = [sum(weights[group] for group in atom) for atom in layout.atoms]
    assert found <= min(2 * best, best + max(atoms)) + 1e-6


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 4), (4, 2), (2, 1), (4, 3), (3, 5)])
def test_of_equal_groups_no_more_move_than_must(before, after):
    layout = Layout(120, before, 1, aligned=False)
    found = balanced(layout.owners(), after, [1.0] * 120, layout.atoms)
    moved = sum(now != then for now, then in zip(found, layout.owners(), strict=True))
    must = 120 * (after - before) // after if after > before else 120 * (before - after) // before
    assert moved <= must
    assert max(costs(found, after, [1.0] * 120)) <= 120 / after * (1 + TOLERANCE)


def test_two_partitions_made_of_one_have_ranges_of_groups():
    layout = Layout(128, 1, 1, aligned=False)
    found = balanced(layout.owners(), 2, [1.0] * 128, layout.atoms)
    assert len(list(itertools.groupby(found))) == 2


def test_hot_groups_that_are_together_are_moved_apart():
    weights = [1.0] * 32
    weights[0] = weights[1] = 50.0
    layout = Layout(32, 2, 1, aligned=False)
    found = balanced(layout.owners(), 2, weights, layout.atoms)
    assert found[0] != found[1]
    assert sum(now != then for now, then in zip(found, layout.owners(), strict=True)) <= 3


def test_a_slow_partition_has_as_much_less_as_it_is_slower():
    layout = Layout(128, 2, 1, aligned=False)
    found = balanced(layout.owners(), 2, [1.0] * 128, layout.atoms, [1.0, 3.0])
    assert max(cost_shares(found, 2, [1.0] * 128, [1.0, 3.0])) <= 1 + TOLERANCE + 0.05
    assert 30 <= found.count(1) <= 34


def test_a_slow_partition_keeps_one_group_so_that_it_is_measured():
    layout = Layout(8, 2, 1, aligned=False)
    assert balanced(layout.owners(), 2, [1.0] * 8, layout.atoms, [1.0, 1e6]).count(1) == 1


def test_instances_of_partial_state_move_whole():
    layout = Layout(12, 1, 4, aligned=True)
    found = balanced(layout.owners(), 3, [1.0] * 12, layout.atoms)
    assert all(len({found[group] for group in atom}) == 1 for atom in layout.atoms)
    assert len(set(found)) == 3


def test_as_many_groups_as_a_checkpoint_may_have_are_dealt_out():
    layout = Layout(32_768, 2, 1, aligned=False)
    weights = [float(group % 97) for group in range(32_768)]
    found = balanced(layout.owners(), 16, weights, layout.atoms)
    assert max(cost_shares(found, 16, weights)) <= 1 + 2 * TOLERANCE


def test_the_spread_of_nothing_is_even():
    assert max(cost_shares((0, 0, 1), 2, [0.0, 0.0, 0.0])) == 1.0


def test_of_groups_that_weigh_about_the_same_neighbours_stay_together():
    rng = np.random.default_rng(1)
    weights = rng.poisson(50, 128).astype(float).tolist()
    layout = Layout(128, 1, 1, aligned=False)
    two = balanced(layout.owners(), 2, weights, layout.atoms)
    four = balanced(two, 4, weights, layout.atoms)
    assert len(list(itertools.groupby(two))) <= 12
    assert len(list(itertools.groupby(four))) <= 32
    assert max(cost_shares(four, 4, weights)) <= 1.1


@given(st.lists(st.tuples(WEIGHTS, st.sampled_from([1.0, 2.0, 3.7])), min_size=1), st.lists(WEIGHTS))
def test_the_cheapest_partition_is_found_as_if_all_were_looked_at(partitions, added):
    held, units = [list(one) for one in zip(*partitions, strict=True)]
    cheapest = Cheapest(held, units)
    for weight in added:
        costs = [(one + weight) * unit for one, unit in zip(held, units, strict=True)]
        at = cheapest.take(weight)
        assert costs[at] == min(costs)
        held[at] += weight
