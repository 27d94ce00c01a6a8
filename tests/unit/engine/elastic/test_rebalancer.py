from __future__ import annotations

import numpy as np
import pytest

from millpond.clock import ManualClock
from millpond.engine.elastic import Decision, Elastic, HotKey, Reason
from millpond.engine.elastic.rebalancer import Rebalancer, hot_key_advice
from millpond.engine.messages import Control, Load
from millpond.errors import ElasticError
from millpond.keygroups import Layout
from tests.programs.keyed import Recommender, Totals
from tests.sizes import compile_once

PROGRAM = compile_once(Totals)
TASK = PROGRAM.entries["add"].tasks[0].name
LAYOUT = Layout(8, 2, 1, aligned=False)


def controls(layout, rows, busy=1.0, hot=()):
    """What the tasks of an epoch tell that had so many rows for each key group."""
    told = []
    for partition in range(layout.partitions):
        groups = [group for group in layout.groups_of(partition) if rows[group]]
        counts = np.array([rows[group] for group in groups], dtype="<u4")
        load = Load(TASK, np.array(groups, dtype="<u2").tobytes(), counts.tobytes(), hot if partition == 0 else ())
        told.append(Control(0, partition, 0, 0, loads=(load,), busy={0: busy}))
    return told


class Once:
    """A policy that moves key group 0 to partition 1, at once."""

    def decide(self, seen):
        owners = (1, *seen.owners[1:])
        return None if owners == seen.owners else Decision(Reason.UNEVEN, owners, seen.partitions, "moving group 0")


def test_what_is_decided_holds_from_the_next_epoch_on():
    rebalancer = Rebalancer(PROGRAM, Elastic(policy=Once()), 2)
    assert rebalancer.take(LAYOUT) is LAYOUT
    told = rebalancer.note(1, LAYOUT, controls(LAYOUT, [5] * 8), 0.5)
    assert (told.partitions, told.groups_moved, told.advice) == (2, 0, ("moving group 0",))
    after = rebalancer.take(LAYOUT)
    assert after.owners() == (1, 0, 0, 0, 1, 1, 1, 1)
    assert rebalancer.take(after) is after
    told = rebalancer.note(2, after, controls(after, [5] * 8), 0.5)
    assert (told.groups_moved, told.advice) == (1, ())
    assert told.skew == pytest.approx(5 / 4)
    assert told.loads[0].rows == (5,) * 8


@pytest.mark.parametrize("mode", ["off", "advise"])
def test_what_is_only_told_changes_nothing(mode):
    rebalancer = Rebalancer(PROGRAM, Elastic(mode=mode, policy=Once()), 2)
    told = rebalancer.note(1, LAYOUT, controls(LAYOUT, [5] * 8), 0.5)
    assert len(told.advice) == (mode == "advise")
    assert rebalancer.take(LAYOUT) is LAYOUT


def test_the_number_that_somebody_asks_for_comes_before_what_was_decided():
    rebalancer = Rebalancer(PROGRAM, Elastic(policy=Once()), 2)
    rebalancer.note(1, LAYOUT, controls(LAYOUT, [5] * 8), 0.5)
    rebalancer.ask(4, LAYOUT)
    after = rebalancer.take(LAYOUT)
    assert after.partitions == 4
    assert sorted(after.owners().count(number) for number in range(4)) == [2, 2, 2, 2]
    assert after.moved_since(LAYOUT) == 4
    assert rebalancer.take(after) is after


def test_a_number_that_is_asked_for_spreads_the_rows():
    rebalancer = Rebalancer(PROGRAM, "off", 2)
    one = Layout(8, 1, 1, aligned=False)
    rebalancer.note(1, one, controls(one, [700, 1, 1, 1, 1, 1, 1, 1]), 0.5)
    rebalancer.ask(2, one)
    owners = rebalancer.take(one).owners()
    assert owners.count(owners[0]) <= 3, "the heavy group has few beside it"


@pytest.mark.parametrize("partitions", [0, 9, "2", True, None])
def test_numbers_that_can_not_be_are_refused(partitions):
    with pytest.raises(ElasticError) as caught:
        Rebalancer(PROGRAM, "off", 2).ask(partitions, LAYOUT)
    assert caught.value.code == "MP682"


def test_busy_partitions_become_more_by_the_time_between_epochs():
    clock = ManualClock()
    rebalancer = Rebalancer(PROGRAM, Elastic(reports=2), 4, clock)
    layout = LAYOUT
    for epoch in range(1, 4):
        clock.advance(1000)
        rebalancer.note(epoch, layout, controls(layout, [50] * 8, busy=0.9), 0.95)
        layout = rebalancer.take(layout)
    assert layout.partitions == 4
    idle = Rebalancer(PROGRAM, Elastic(reports=2), 4, clock)
    for epoch in range(1, 4):
        clock.advance(10_000)
        idle.note(epoch, LAYOUT, controls(LAYOUT, [50] * 8, busy=0.9), 0.95)
    assert idle.take(LAYOUT) is LAYOUT, "a partition that works for a tenth of the time is not busy"


def test_a_hot_key_is_told_once_as_long_as_it_is_hot():
    rebalancer = Rebalancer(PROGRAM, "advise", 2)
    rows = [900, *[10] * 7]
    first = rebalancer.note(1, LAYOUT, controls(LAYOUT, rows, hot=(("7", 890),)), 0.5)
    second = rebalancer.note(2, LAYOUT, controls(LAYOUT, rows, hot=(("7", 890),)), 0.5)
    assert [hot.key for hot in second.hot_keys] == ["7"]
    assert len(first.advice) == 1
    assert "key 7 has 9" in first.advice[0]
    assert second.advice == ()


def test_the_advice_names_the_element_and_its_rewrite():
    told = hot_key_advice(PROGRAM, HotKey(TASK, "7", 0.42))
    assert told.startswith(f"key 7 has 42% of the rows of {TASK}, and one key has one owner")
    assert "totals = Partial(Map[int, tuple[int, float]], merge=...)" in told
    partial = compile_once(Recommender)
    last = partial.entries["recommend"].tasks[-1].name
    assert "Partial(" not in hot_key_advice(partial, HotKey(last, "7", 0.42))


def test_what_was_seen_is_told_below_the_graph():
    rebalancer = Rebalancer(PROGRAM, "off", 2)
    assert rebalancer.summary() == "seen so far: no epoch\n"
    rebalancer.note(4, LAYOUT, controls(LAYOUT, [900, *[10] * 7], hot=(("7", 890),)), 2.0)
    first, task, hot = rebalancer.summary().splitlines()
    assert first == "seen in epoch 4, on 2 partitions at work for 50% of the time"
    assert task == f"  task {TASK}: 970 rows, 2.00 s"
    assert hot.startswith("  hot: key 7 has 92% of the rows")
    assert "Partial(" in hot


def test_rows_that_wait_are_told_of_epochs_that_took_some():
    rebalancer = Rebalancer(PROGRAM, "off", 2)
    rebalancer.queue(12_000)
    assert rebalancer.note(1, LAYOUT, controls(LAYOUT, [5] * 8), 0.5, 40).queued_rows == 12_000
    assert "  waiting in the sources: 12,000 rows\n" in rebalancer.summary()
    assert rebalancer.note(2, LAYOUT, controls(LAYOUT, [5] * 8), 0.5).queued_rows is None, "timers ask no source"
    assert "waiting" not in rebalancer.summary()
    rebalancer.queue(None)
    assert rebalancer.note(3, LAYOUT, controls(LAYOUT, [5] * 8), 0.5, 40).queued_rows is None
