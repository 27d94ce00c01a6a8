"""The standard policy against a simulated cluster: a load that comes, executors of some speed, owners that move."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.engine.elastic import Consecutive, Elastic, Observed, Reason, Standard, TaskLoad
from millpond.engine.elastic.balance import cost_shares
from millpond.engine.elastic.options import elastic_of
from millpond.errors import ElasticError
from millpond.keygroups import Layout
from tests.sizes import sized, some_of

GROUPS = 64
INTERVAL_S = 1.0


class Cluster:
    """Partitions on executors with a speed each, in rows per second; every epoch lasts as long as it must.

    A task costs as much as `fixed` rows, whatever it has; times are off by a factor about `noise`.
    """

    def __init__(
        self, partitions=1, *, options=None, most=8, speeds=None, overhead_s=0.0, fixed=0.0, noise=0.0, seed=0
    ):
        self.overhead_s = overhead_s
        self.fixed = fixed
        self.noise = noise
        self.rng = np.random.default_rng(seed)
        self.layout = Layout(GROUPS, partitions, 1, aligned=False)
        self.options = options or Elastic()
        self.policy = Standard(self.options, most)
        self.speeds = speeds or {"": 1000.0}
        self.decisions = []
        self.epochs = 0
        self.queued = None
        self.trigger_s = INTERVAL_S
        self.interval_s = INTERVAL_S

    def place(self, partition):
        return sorted(self.speeds)[partition % len(self.speeds)]

    def epoch(self, counts):
        """One epoch with so many rows for each key group; return how long its tasks took."""
        self.epochs += 1
        held = np.bincount(self.layout.owners(), weights=counts, minlength=self.layout.partitions)
        places = tuple(self.place(number) for number in range(self.layout.partitions))
        seconds = tuple(
            float((self.fixed + rows) / self.speeds[place] * np.exp(self.noise * self.rng.normal()))
            for rows, place in zip(held, places, strict=True)
        )
        task = TaskLoad("add.0", tuple(counts), seconds, 0)
        epoch_s = max(seconds) + self.overhead_s
        self.interval_s = max(self.trigger_s, epoch_s)
        seen = Observed(
            self.epochs,
            self.layout.owners(),
            self.layout.partitions,
            self.layout.atoms,
            (task,),
            seconds,
            self.interval_s,
            places if len(self.speeds) > 1 else ("",) * self.layout.partitions,
            epoch_s=epoch_s,
            fed_rows=round(sum(counts)),
            queued_rows=self.queued,
        )
        decision = self.policy.decide(seen)
        if decision is not None:
            self.decisions.append(decision)
            self.layout = self.layout.with_owners(decision.owners, decision.partitions)
        return max(seconds)

    def run(self, counts, epochs):
        return [self.epoch(counts) for _ in range(epochs)]

    def share(self, place):
        """What the partitions of an executor own, by an even share."""
        mine = [self.place(owner) == place for owner in self.layout.owners()]
        return sum(mine) / GROUPS * len(self.speeds)


def even(rows):
    return [rows / GROUPS] * GROUPS


def test_rising_load_takes_more_partitions():
    cluster = Cluster()
    for rows in (100, 500, 900, 1800, 3600):
        cluster.run(even(rows), 20)
    assert cluster.layout.partitions == 8
    assert {decision.reason for decision in cluster.decisions} == {Reason.BUSY}
    assert cluster.epoch(even(3600)) <= 0.6


def test_falling_load_takes_fewer_partitions():
    cluster = Cluster(8)
    cluster.run(even(4000), 20)
    assert cluster.layout.partitions == 8
    cluster.run(even(100), 100)
    assert cluster.layout.partitions == 1
    assert {decision.reason for decision in cluster.decisions} == {Reason.IDLE}


def test_never_more_than_most_nor_fewer_than_least():
    cluster = Cluster(2, options=Elastic(least=2), most=4)
    cluster.run(even(100_000), 60)
    assert cluster.layout.partitions == 4
    cluster.run(even(1), 200)
    assert cluster.layout.partitions == 2


@given(st.integers(1, 20_000), st.integers(1, 8))
@settings(max_examples=some_of(60), deadline=None)
def test_a_steady_load_ends_in_a_steady_number(rows, partitions):
    cluster = Cluster(partitions)
    cluster.run(even(rows), 120)
    settled = len(cluster.decisions)
    cluster.run(even(rows), 120)
    assert len(cluster.decisions) == settled, "no flapping"


def test_epochs_that_fall_behind_for_what_they_cost_without_rows_take_more_partitions():
    rows, overhead_s = 550, 0.5
    assert rows / 1000 < Elastic().busy * (rows / 1000 + overhead_s), "partitions are not busy by themselves"
    cluster = Cluster(overhead_s=overhead_s)
    assert cluster.epoch(even(rows)) + overhead_s > INTERVAL_S
    assert cluster.run(even(rows), 20)[-1] + overhead_s < INTERVAL_S
    assert cluster.layout.partitions == 2


@given(st.integers(1, 6000), st.integers(1, 8), st.floats(0, 1.2))
@settings(max_examples=some_of(60), deadline=None)
def test_a_steady_load_ends_in_a_steady_number_whatever_an_epoch_costs(rows, partitions, overhead_s):
    cluster = Cluster(partitions, overhead_s=overhead_s)
    cluster.run(even(rows), 120)
    settled = len(cluster.decisions)
    cluster.run(even(rows), 120)
    assert len(cluster.decisions) == settled, "no flapping"


def test_a_short_peak_changes_nothing():
    cluster = Cluster(2)
    for _ in range(10):
        cluster.run(even(600), 6)
        cluster.run(even(1900), 2)
    assert cluster.decisions == []


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=some_of(40), deadline=None)
def test_a_load_that_jumps_about_is_not_followed_at_every_jump(seed):
    rng = np.random.default_rng(seed)
    cluster = Cluster(4)
    for _ in range(200):
        cluster.epoch(even(float(rng.uniform(1200, 3000))))
    assert len(cluster.decisions) <= 6


@given(st.lists(st.integers(0, 400), min_size=GROUPS, max_size=GROUPS), st.integers(2, 8))
@settings(max_examples=some_of(40), deadline=None)
def test_skewed_weights_are_balanced_within_a_bound(counts, partitions):
    cluster = Cluster(partitions, options=Elastic(least=partitions), most=partitions)
    cluster.run(counts, 40)
    if sum(counts) / partitions / 1000 < cluster.options.ignored_s:
        return
    ideal = sum(counts) / partitions
    held = np.bincount(cluster.layout.owners(), weights=counts, minlength=partitions)
    assert held.max() <= max(ideal * cluster.options.uneven / 0.9, ideal * 1.05 + max(counts)) * 1.1


def test_hot_groups_are_moved_apart():
    counts = [10.0] * GROUPS
    counts[0] = counts[1] = counts[2] = 500.0
    cluster = Cluster(4, most=4)
    cluster.run(counts, 10)
    assert [decision.reason for decision in cluster.decisions] == [Reason.UNEVEN]
    owners = cluster.layout.owners()
    assert len({owners[0], owners[1], owners[2]}) == 3
    assert "key groups move" in cluster.decisions[0].told


def test_a_slow_executor_is_relieved_until_epochs_are_short_again_and_gets_its_share_back():
    cluster = Cluster(4, most=4, speeds={"a": 4000.0, "b": 4000.0})
    healthy = cluster.run(even(8000), 10)[-1]
    cluster.speeds["b"] = 1000.0
    slow = cluster.run(even(8000), 1)[-1]
    relieved = cluster.run(even(8000), 20)[-1]
    assert slow == 4 * healthy
    assert relieved <= 1.8 * healthy
    assert [decision.reason for decision in cluster.decisions] == [Reason.SLOW]
    assert "executor b takes 4.0 times as long" in cluster.decisions[0].told
    cluster.speeds["b"] = 4000.0
    assert cluster.run(even(8000), 20)[-1] <= 1.1 * healthy
    assert [decision.reason for decision in cluster.decisions] == [Reason.SLOW, Reason.FASTER]
    assert "executor b is faster again" in cluster.decisions[1].told


def two_executors(**options):
    return Cluster(2, options=Elastic(least=2), most=2, speeds={"a": 4000.0, "b": 4000.0}, **options)


def test_one_epoch_of_an_executor_that_is_far_out_of_line_moves_nothing():
    cluster = two_executors()
    cluster.run(even(2000), 10)
    cluster.speeds["b"] /= 20
    cluster.run(even(2000), 1)
    cluster.speeds["b"] *= 20
    cluster.run(even(2000), 20)
    assert cluster.decisions == []


def test_one_epoch_whose_rows_are_far_out_of_line_moves_nothing():
    cluster = Cluster(2, options=Elastic(least=2), most=2)
    cluster.run(even(600), 10)
    cluster.run([200.0] * 20 + [1.0] * (GROUPS - 20), 1)
    cluster.run(even(600), 20)
    assert cluster.decisions == []


@pytest.mark.parametrize("reports", [1, 2, 3, 5])
def test_what_lasts_is_acted_on_after_the_reports(reports):
    cluster = Cluster(2, options=Elastic(least=2, reports=reports), most=2, speeds={"a": 4000.0, "b": 4000.0})
    cluster.run(even(2000), 10)
    cluster.speeds["b"] /= 20
    cluster.run(even(2000), reports - 1)
    assert cluster.decisions == []
    cluster.run(even(2000), 1)
    assert [decision.reason for decision in cluster.decisions] == [Reason.SLOW]
    assert "20.0 times" in cluster.decisions[0].told


@pytest.mark.parametrize(("executors", "partitions"), [(2, 2), (2, 4), (4, 4), (4, 8), (8, 8)])
@pytest.mark.parametrize("fixed", [0, 300, 1250, 5000])
@pytest.mark.parametrize("seed", range(sized(3, 1)))
def test_an_executor_that_is_fast_again_gets_its_share_back_whatever_a_task_costs(executors, partitions, fixed, seed):
    speeds = dict.fromkeys("abcdefgh"[:executors], 4000.0)
    options = Elastic(least=partitions, most=partitions)
    cluster = Cluster(partitions, options=options, most=partitions, speeds=speeds, fixed=fixed, noise=0.1, seed=seed)
    cluster.run(even(2500 * executors), 10)
    assert cluster.decisions == []
    cluster.speeds["b"] /= 5
    cluster.run(even(2500 * executors), 30)
    assert 0.1 < cluster.share("b") < 0.6, "it has less, by how slow it is, and not ever less"
    cluster.speeds["b"] *= 5
    cluster.run(even(2500 * executors), 15)
    assert cluster.share("b") >= 1 / options.uneven, "the rest is noise"


def test_an_executor_in_the_place_of_a_slow_one_gets_the_share_that_this_had():
    cluster = Cluster(4, options=Elastic(least=4), most=4, speeds=dict.fromkeys("abcd", 4000.0))
    cluster.speeds["b"] /= 5
    cluster.run(even(8000), 10)
    assert cluster.share("b") < 0.5
    cluster.speeds = dict.fromkeys(("a", "better", "c", "d"), 4000.0)
    cluster.run(even(8000), 10)
    assert cluster.share("better") == pytest.approx(1.0, abs=0.1)


def test_partitions_whose_executors_nobody_tells_are_taken_for_equally_fast():
    layout, counts = Layout(8, 2, 1, aligned=False), (90,) * 4 + (1,) * 4
    seen = Observed(1, layout.owners(), 2, layout.atoms, (TaskLoad("add.0", counts, (0.9, 0.1), 0),), (0.9, 0.1), 3.0)
    policy = Standard(Elastic(least=2), 2)
    assert [policy.decide(seen) is None for _ in range(3)] == [True, True, False]


def test_a_partition_of_few_rows_is_not_taken_for_slow_because_its_task_costs_something():
    cluster = two_executors(fixed=2500)
    cluster.run([150.0] * 32 + [5.0] * 32, 30)
    assert [decision.reason for decision in cluster.decisions] == [Reason.UNEVEN]
    assert cluster.share("b") > 1


def test_executors_that_differ_a_little_keep_what_they_have():
    cluster = Cluster(4, most=4, speeds={"a": 4000.0, "b": 3300.0})
    cluster.run(even(8000), 40)
    assert cluster.decisions == []


def test_an_executor_that_is_gone_is_forgotten():
    cluster = Cluster(2, most=2, speeds={"a": 4000.0, "b": 1000.0})
    cluster.run(even(2000), 2)
    cluster.speeds = {"a": 4000.0, "c": 4000.0}
    cluster.run(even(2000), 3)
    assert cluster.decisions == []


def test_small_epochs_are_not_looked_at():
    cluster = Cluster(2, options=Elastic(least=2), most=4)
    counts = [0.0] * GROUPS
    counts[0] = 20.0
    counts[1] = 20.0
    cluster.run(counts, 20)
    assert cluster.decisions == []


@pytest.mark.parametrize("between", [0.0, 0.01])
def test_reports_with_small_epochs_between_them_are_not_in_a_row(between):
    counts = np.array([100.0] * 32 + [1.0] * 32)
    cluster = Cluster(2, options=Elastic(least=2), most=2)
    for _ in range(10):
        cluster.run(counts, 2)
        cluster.run(counts * between, 5)
    assert cluster.decisions == []
    cluster.run(counts, 3)
    assert [decision.reason for decision in cluster.decisions] == [Reason.UNEVEN]


@pytest.mark.parametrize("rows", [0, 600])
@pytest.mark.parametrize(
    ("partitions", "options", "wanted", "told"),
    [
        (1, Elastic(least=4), 4, "out of its limits (least=4): 4 instead of 1"),
        (8, Elastic(most=2), 2, "out of its limits (most=2): 2 instead of 8"),
        (1, Elastic(least=100), GROUPS, "out of its limits (least=100): 64 instead of 1"),
    ],
)
def test_a_number_beyond_the_limits_is_brought_into_them(rows, partitions, options, wanted, told):
    cluster = Cluster(partitions, options=options, most=options.most or 100)
    cluster.epoch(even(rows))
    assert [decision.reason for decision in cluster.decisions] == [Reason.LIMITS]
    assert cluster.decisions[0].told.endswith(told)
    assert cluster.layout.partitions == len(set(cluster.layout.owners())) == wanted
    cluster.run(even(rows), 5)
    assert len(cluster.decisions) == 1


def test_more_partitions_than_a_limit_that_nobody_named_stay():
    cluster = Cluster(8, most=2)
    cluster.run(even(4000), 20)
    assert cluster.decisions == []


def test_epochs_without_rows_are_not_busy():
    cluster = Cluster(1)
    cluster.run([0.0] * GROUPS, 10)
    assert cluster.decisions == []


def test_one_hot_group_that_nothing_helps_moves_nothing_back_and_forth():
    counts = [0.0] * GROUPS
    counts[5] = 3000.0
    cluster = Cluster(4, options=Elastic(least=4), most=4)
    cluster.run(counts, 40)
    assert len(cluster.decisions) <= 1
    assert max(cost_shares(cluster.layout.owners(), 4, counts)) == 4


def test_a_detector_wants_its_reports_in_a_row():
    detector = Consecutive(0.7, 3)
    assert [detector.met(value) for value in (0.8, 0.9, 0.7, 0.8, 0.8, 0.8, 0.8)] == [*[False] * 5, True, True]
    detector.reset()
    assert not detector.met(0.9)
    low = Consecutive(0.2, 2, below=True)
    assert [low.met(value) for value in (0.1, 0.2, 0.1, 0.1)] == [False, False, False, True]


@pytest.mark.parametrize("mode", ["off", "advise", "act"])
def test_a_word_stands_for_options(mode):
    assert elastic_of(mode) == Elastic(mode=mode)
    assert elastic_of(mode).decides == (mode != "off")
    given = Elastic(most=3)
    assert elastic_of(given) is given


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "on"},
        {"least": 0},
        {"least": True},
        {"least": 3, "most": 2},
        {"most": 1.5},
        {"busy": 0},
        {"busy": 1.5},
        {"uneven": 1},
        {"slow": "2"},
        {"reports": 0},
        {"ignored": "-2 s"},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ElasticError) as caught:
        Elastic(**options)
    assert caught.value.code == "MP681"
