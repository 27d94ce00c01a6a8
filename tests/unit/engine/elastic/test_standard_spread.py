"""Rows that may run anywhere are dealt out by load, and make up for what state can't."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.engine.elastic import Elastic, Observed, Reason, Standard, TaskLoad
from millpond.engine.elastic.standard import dealt_out
from millpond.keygroups import Layout
from tests.sizes import some_of

GROUPS = 64
INTERVAL_S = 4.0

WEIGHTS = st.floats(0, 1000, allow_subnormal=False)


@st.composite
def cases(draw, groups_max=40, partitions_max=6):
    """What partitions hold, free rows by key group, and what a unit costs each partition."""
    partitions = draw(st.integers(1, partitions_max))
    held = [draw(WEIGHTS) for _ in range(partitions)]
    free = draw(st.lists(WEIGHTS, min_size=1, max_size=groups_max))
    return held, free, [draw(st.sampled_from([1.0, 1.0, 2.0, 5.0])) for _ in range(partitions)]


def costs_of(held, free, units, chosen):
    weights = list(held)
    for weight, at in zip(free, chosen, strict=True):
        weights[at] += weight
    return [weight * unit for weight, unit in zip(weights, units, strict=True)]


@given(cases())
def test_no_cost_is_above_the_ideal_by_more_than_one_key_group_unless_it_was_before(case):
    held, free, units = case
    chosen = dealt_out(held, free, units)
    assert len(chosen) == len(free)
    prices = sum(1 / unit for unit in units)
    # Groups without rows are dealt out as if they had half of what the lightest has.
    weight = sum(held) + sum(free) + free.count(0.0) * min((one for one in free if one), default=1.0)
    bound = (weight + len(units) * max(free)) / prices
    assert (
        max(costs_of(held, free, units, chosen))
        <= max(bound, *(a * b for a, b in zip(held, units, strict=True))) + 1e-6
    )


@given(cases(groups_max=5, partitions_max=3))
def test_it_is_never_twice_as_bad_as_the_best_of_all_ways(case):
    held, free, units = case
    best = min(
        max(costs_of(held, free, units, chosen)) for chosen in itertools.product(range(len(held)), repeat=len(free))
    )
    if len(set(units)) == 1:
        assert max(costs_of(held, free, units, dealt_out(held, free, units))) <= 2 * best + 1e-6


@given(cases())
def test_the_same_load_is_dealt_out_in_the_same_way(case):
    assert dealt_out(*case) == dealt_out(*case)


class Cluster:
    """Two executors, a partition each: every row is parsed, which needs no state, and then counted by key."""

    def __init__(self, parse_s, count_s, speeds=(1.0, 1.0)):
        self.parse_s, self.count_s = parse_s, count_s
        self.layout = Layout(GROUPS, 2, 1, aligned=False)
        self.policy = Standard(Elastic(least=2), 2)
        self.speeds = list(speeds)
        self.decisions = []
        self.epochs = 0

    def run(self, rows, epochs):
        return [self.epoch(rows) for _ in range(epochs)]

    def epoch(self, rows):
        self.epochs += 1
        counts = np.array(rows)
        parsed = np.bincount(self.layout.carriers(), weights=counts, minlength=2)
        counted = np.bincount(self.layout.owners(), weights=counts, minlength=2)
        free_s = [work * self.parse_s / speed for work, speed in zip(parsed, self.speeds, strict=True)]
        bound_s = [work * self.count_s / speed for work, speed in zip(counted, self.speeds, strict=True)]
        told = tuple(int(count) for count in rows)
        tasks = (
            TaskLoad("add.0", told, tuple(free_s), 0, tuple(int(one) for one in parsed), free=True),
            TaskLoad("add.1", told, tuple(bound_s), 0, tuple(int(one) for one in counted)),
        )
        seconds = tuple(a + b for a, b in zip(free_s, bound_s, strict=True))
        owners = self.layout.owners()
        seen = Observed(
            self.epochs,
            owners,
            2,
            self.layout.atoms,
            tasks,
            seconds,
            max(INTERVAL_S, *seconds),
            ("a", "b"),
            self.layout.spread or (),
        )
        decision = self.policy.decide(seen)
        if decision is not None:
            self.decisions.append(decision)
            same = decision.owners == owners
            owned = self.layout if same else self.layout.with_owners(decision.owners, decision.partitions)
            self.layout = owned.with_spread(decision.spread)
        return max(seconds)


EVEN = [100] * GROUPS


def test_a_slow_executor_is_first_relieved_of_rows_that_need_no_state():
    cluster = Cluster(parse_s=0.0009, count_s=0.0001)
    healthy = cluster.run(EVEN, 10)[-1]
    assert cluster.decisions == []
    cluster.speeds[1] = 0.25
    slow = cluster.epoch(EVEN)
    relieved = cluster.run(EVEN, 20)[-1]
    assert slow == pytest.approx(4 * healthy)
    assert relieved < 1.8 * healthy
    assert {decision.reason for decision in cluster.decisions} == {Reason.SLOW}
    assert "rows of tasks without state run elsewhere" in cluster.decisions[0].told
    assert cluster.layout.in_ranges, "no state moved"


def test_state_moves_if_rows_that_need_none_are_too_few():
    cluster = Cluster(parse_s=0.0001, count_s=0.0009)
    healthy = cluster.run(EVEN, 10)[-1]
    cluster.speeds[1] = 0.25
    relieved = cluster.run(EVEN, 20)[-1]
    assert relieved < 1.8 * healthy
    assert cluster.decisions[0].moved(Layout(GROUPS, 2, 1, aligned=False).owners()) > 0


@settings(max_examples=some_of(100))
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0001, 0.0005, 0.0009]), st.sampled_from([0.2, 0.5, 1.0]))
def test_a_steady_load_ends_in_steady_shares(seed, parse_s, speed):
    rng = np.random.default_rng(seed)
    cluster = Cluster(parse_s, 0.001 - parse_s, (1.0, speed))
    rows = rng.zipf(1.8, GROUPS).clip(1, 4000).tolist()
    cluster.run(rows, 60)
    settled = len(cluster.decisions)
    cluster.run(rows, 60)
    assert len(cluster.decisions) == settled, "no flapping"
