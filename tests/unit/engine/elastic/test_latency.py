from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millpond.engine.elastic import Latency, Observed, Reason, TaskLoad
from millpond.engine.elastic.latency import Waits, accepts, less_waiting, mean_latency, measured
from millpond.keygroups import Layout


def one(own, wait):
    return Waits(np.array([own]), np.array([[wait]]))


def rows(count):
    return np.array([float(count)])


def test_the_move_that_the_printed_sign_takes_is_refused():
    """Own 1, wait 0.01, 90 rows at the donor and 100 at the receiver: 371 before, 383 after 20 more at the receiver."""
    wait = one(1.0, 0.01)
    assert wait.total(rows(90)) + wait.total(rows(100)) == 371
    assert wait.total(rows(70)) + wait.total(rows(120)) == 383
    assert not accepts(wait, wait, rows(90), rows(100), rows(20))


def test_a_move_to_a_partition_with_less_to_do_is_taken():
    assert accepts(one(1.0, 0.01), one(1.0, 0.01), rows(120), rows(80), rows(20))


def test_a_fast_partition_gets_more_than_an_even_share():
    layout = Layout(100, 2, 1, aligned=False)
    waits = [one(0.001, 0.0005), one(0.004, 0.002)]
    counts = np.full((1, 100), 10.0)
    owners = less_waiting(layout.owners(), layout.atoms, counts, waits)
    assert 70 <= owners.count(0) <= 90
    assert mean_latency(owners, counts, waits) < mean_latency(layout.owners(), counts, waits)


@given(
    st.lists(st.integers(0, 50), min_size=12, max_size=12),
    st.lists(st.floats(0.001, 1), min_size=3, max_size=3),
    st.randoms(use_true_random=False),
)
def test_a_round_never_makes_rows_wait_longer(counts, owns, rng):
    layout = Layout(12, 3, 1, aligned=False)
    owners = tuple(rng.randrange(3) for _ in range(12))
    waits = [one(own, own / 2) for own in owns]
    told = np.array([counts], dtype=float)
    moved = less_waiting(owners, layout.atoms, told, waits)
    if sum(counts):
        assert mean_latency(moved, told, waits) <= mean_latency(owners, told, waits) * (1 + 1e-9)


def observed(seconds, counts, layout, epoch=1):
    task = TaskLoad("add.0", tuple(counts), tuple(seconds), 0)
    return Observed(epoch, layout.owners(), layout.partitions, layout.atoms, (task,), tuple(seconds), 1.0)


def test_what_rows_take_is_measured_and_a_partition_without_rows_is_like_the_others():
    layout = Layout(4, 4, 1, aligned=False)
    waits = measured(observed([2.0, 1.0, 0.0, 0.0], [4, 4, 4, 0], layout))
    assert [round(float(wait.own[0]), 6) for wait in waits] == [0.5, 0.25, 0.0, 0.25]


def test_the_policy_waits_for_its_reports_and_then_says_what_it_gains():
    layout = Layout(16, 2, 1, aligned=False)
    policy = Latency(reports=2)
    counts = [10] * 8 + [1] * 8
    seen = observed([0.8, 0.08], counts, layout)
    assert policy.decide(seen) is None
    decision = policy.decide(seen)
    assert decision.reason is Reason.LATENCY
    assert decision.moved(seen.owners) > 0
    assert "ms instead of" in decision.told
    even = observed([0.4, 0.4], [5] * 16, layout)
    assert [policy.decide(even) for _ in range(4)] == [None] * 4


def test_nothing_is_decided_if_no_owner_changes():
    policy = Latency(reports=1)
    assert policy.decide(observed([0.0, 0.0], [5] * 16, Layout(16, 2, 1, aligned=False))) is None
