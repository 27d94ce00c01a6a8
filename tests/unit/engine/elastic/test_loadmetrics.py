from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from millpond import Map, Partitioned, Program, Value, entry
from millpond.clock import ManualClock
from millpond.engine.elastic.loadmetrics import HotKeys, keyed_load, observed, task_loads
from millpond.engine.local_state.openstate import open_state
from millpond.engine.messages import Control, Load, Seen, decode_control
from millpond.engine.onetask import run_in_one_task
from millpond.engine.plan import EpochPlan
from millpond.engine.simulated import Fed, Simulated
from millpond.engine.task import step
from millpond.engine.task.intake import read_feeds
from millpond.engine.task.merging import mark_ties
from millpond.keygroups import Layout, stable_hash
from millpond.state.containers.value import THE_KEY
from tests.programs.keyed import Fraud, Recommender, random_row
from tests.sizes import compile_once

GROUPS = 12


class Visits(Program):
    """Two elements by two keys, so that rows go on to another partition."""

    visits = Partitioned(Map[int, int])
    pages = Partitioned(Map[str, int])

    @entry
    def visit(self, user: int, page: str) -> None:
        self.visits[user] = self.visits.get(user, 0) + 1
        self.pages[page] = self.pages.get(page, 0) + 1


def controls_of(simulated, rows):
    """What the tasks of one epoch tell, and the epoch itself."""
    parent = simulated._checkpoint.parent
    epoch = EpochPlan(parent.epoch + 1, parent)
    told = run_in_one_task(simulated._plan, epoch, simulated._route(Fed(rows)))
    return [decode_control(body) for body in told.column("body").to_pylist()]


@pytest.mark.parametrize("seed", range(4))
def test_rows_are_counted_by_task_and_key_group(tmp_path, seed):
    rng = random.Random(seed)
    rows = [("visit", (rng.randrange(40), rng.choice("abcdefg"))) for _ in range(rng.randrange(1, 300))]
    simulated = Simulated(compile_once(Visits), tmp_path, 3, GROUPS)
    simulated.assign([rng.randrange(3) for _ in range(GROUPS)])
    controls = controls_of(simulated, rows)
    users, pages = (Counter(stable_hash(row[1][at]) % GROUPS for row in rows) for at in (0, 1))
    loads = task_loads(simulated.layout, controls)
    assert len(loads) == 2
    for load, truth in zip(loads, (users, pages), strict=True):
        assert list(load.rows) == [truth[group] for group in range(GROUPS)]
        assert load.total_rows == len(rows)
        assert load.size_bytes > 0
        with_rows = {simulated.layout.owner_of(group) for group in truth}
        assert {at for at, took in enumerate(load.seconds) if took} == with_rows
        for by_group in (load.group_seconds, load.group_bytes):
            assert {group for group, cost in enumerate(by_group) if cost} == truth.keys()
        owners = simulated.layout.owners()
        assert np.bincount(owners, load.group_seconds, 3).tolist() == pytest.approx(load.seconds)
        assert sum(load.group_bytes) == pytest.approx(load.size_bytes, abs=1)


def test_seconds_and_bytes_of_a_partition_and_step_are_shared_out_by_rows():
    def control(partition, loads, seconds, size_bytes):
        packed = [
            Load(
                task, np.array(list(rows), dtype="<u2").tobytes(), np.array(list(rows.values()), dtype="<u4").tobytes()
            )
            for task, rows in loads.items()
        ]
        return Control(0, partition, 0, 0, loads=tuple(packed), busy={0: seconds}, size_bytes=size_bytes)

    layout = Layout(4, 2, 1, aligned=False)
    here, there = control(0, {"a": {0: 6, 1: 2}, "b": {1: 2}}, 1.0, 500), control(1, {"a": {2: 5, 3: 0}}, 3.0, 50)
    a, b = task_loads(layout, [here, there])
    assert a.group_seconds == pytest.approx((0.6, 0.2, 3.0, 0.0))
    assert a.group_bytes == pytest.approx((300, 100, 50, 0))
    assert b.group_seconds == pytest.approx((0.0, 0.2, 0.0, 0.0))
    assert (a.size_bytes, b.size_bytes) == (450, 100)
    assert (a.seconds, b.seconds) == (pytest.approx((0.8, 3.0)), pytest.approx((0.2, 0.0)))


class Accounts(Program):
    """Rows over two keys, gathered, and one element with a single key."""

    balances = Partitioned(Map[int, int])
    fees = Partitioned(Value[int])

    @entry
    def transfer(self, source: int, target: int) -> None:
        self.balances[source] = self.balances.get(source, 0) - 2
        self.balances[target] = self.balances.get(target, 0) + 1
        self.fees.set(self.fees.get(0) + 1)


@pytest.mark.parametrize("seed", range(3))
def test_gathered_rows_count_for_every_key_that_they_touch(tmp_path, seed):
    rng = random.Random(seed)
    # Sources and targets are apart, and half of the rows are from one account.
    rows = [("transfer", (rng.choice([7, rng.randrange(20)]), 100 + rng.randrange(50))) for _ in range(300)]
    simulated = Simulated(compile_once(Accounts), tmp_path, 3, GROUPS)
    controls = controls_of(simulated, rows)
    (load,) = task_loads(simulated.layout, controls)
    truth = Counter(stable_hash(key) % GROUPS for _, keys in rows for key in keys)
    truth[stable_hash(THE_KEY) % GROUPS] += len(rows)
    assert list(load.rows) == [truth[group] for group in range(GROUPS)]
    assert sum(load.worked) == load.total_rows
    assert {at for at, took in enumerate(load.seconds) if took} == {at for at, rows in enumerate(load.worked) if rows}
    hot = HotKeys().add(controls)
    assert [key.key for key in hot] == ["7"], "the only key of an element is no news"


@pytest.mark.parametrize("program", [Recommender, Fraud])
def test_every_row_of_every_step_is_counted(tmp_path, program):
    rng = random.Random(1)
    rows = [random_row(program, rng, number) for number in range(60)]
    simulated = Simulated(compile_once(program), tmp_path, 3, GROUPS, 4)
    controls = controls_of(simulated, rows)
    loads = task_loads(simulated.layout, controls)
    assert {load.task for load in loads} <= {task.name for task in simulated._plan.tasks}
    firsts = {entry.tasks[0].name for entry in simulated._plan.program.entries.values()}
    assert sum(load.total_rows for load in loads if load.task in firsts) >= len(rows)
    seen = observed(1, simulated.layout, controls, 2.0)
    assert all(took > 0 for took in seen.seconds), "the time of every step is told by the last one"
    assert seen.utilisation == pytest.approx(sum(seen.seconds) / 3 / 2.0)
    last = [control for control in controls if control.busy]
    assert {tuple(sorted(control.busy)) for control in last} == {tuple(range(simulated._plan.steps))}


def test_what_is_told_does_not_depend_on_the_order_of_rows():
    rng = random.Random(3)
    units = list(range(50))
    codes = np.array([rng.choice([7, 7, 7, 9, rng.randrange(50)]) for _ in range(500)])
    groups = np.array([unit % GROUPS for unit in units])
    wanted = keyed_load("t", units, groups, codes)
    assert [key for key, _ in wanted.hot] == ["7", "9"]
    shuffled = rng.sample(units, len(units))
    places = np.argsort(np.array(shuffled))
    assert keyed_load("t", shuffled, groups[np.array(shuffled)], places[codes]) == wanted


def test_a_key_is_hot_while_many_rows_are_for_it():
    hot = HotKeys()

    def told(rows, *keys):
        packed = np.array([rows], dtype="<u4").tobytes()
        return [Control(0, 0, 0, 0, loads=(Load("add.0", b"\0\0", packed, keys),))]

    (found,) = hot.add(told(1000, ("'whale'", 400)))
    assert (found.task, found.key, round(found.share, 2)) == ("add.0", "'whale'", 0.4)
    for _ in range(12):
        left = hot.add(told(1000))
    assert left == ()


@pytest.mark.parametrize("rows", [70, 1000, 10**9])
def test_a_hot_key_is_forgotten_when_its_task_has_no_rows_any_more(rows):
    hot = HotKeys()
    packed = np.array([rows], dtype="<u4").tobytes()
    assert hot.add([Control(0, 0, 0, 0, loads=(Load("add.0", b"\0\0", packed, (("7", rows),)),))])
    other = [Control(0, 0, 0, 0, loads=(Load("add.1", b"\0\0", np.array([100], dtype="<u4").tobytes()),))]
    for _ in range(50):
        left = hot.add(other)
    assert left == ()


def test_time_in_which_state_is_opened_and_restored_is_not_time_at_work(tmp_path, monkeypatch):
    clock = ManualClock()
    monkeypatch.setattr(step, "_CLOCK", clock)

    opened = []

    def open_slowly(*given):
        clock.advance(3000)
        opened.append(open_state(*given))
        return opened[-1]

    def read_slowly(*given):
        clock.advance(500)
        return read_feeds(*given)

    def wait_for_state(*given):
        clock.advance(4000)
        opened[-1].restore_s += 4.0
        return mark_ties(*given)

    monkeypatch.setattr(step, "open_state", open_slowly)
    monkeypatch.setattr(step, "read_feeds", read_slowly)
    monkeypatch.setattr(step, "mark_ties", wait_for_state)
    simulated = Simulated(compile_once(Visits), tmp_path, 2, GROUPS)
    controls = controls_of(simulated, [("visit", (number, "abcdefg"[number % 7])) for number in range(40)])
    assert observed(1, simulated.layout, controls, 10.0).seconds == (0.5, 0.5)
    spent = [(control.spent["open"], control.spent["restore"]) for control in controls if control.spent]
    assert spent == [(3.0, 4.0)] * 2, "what waiting took is told as before"
    gathered = Simulated(compile_once(Accounts), tmp_path / "gathered", 2, GROUPS)
    controls = controls_of(gathered, [("transfer", (number, number + 1)) for number in range(40)])
    assert max(observed(1, gathered.layout, controls, 10.0).seconds) == 0.5


def test_an_epoch_without_reports_is_seen_as_one_without_work():
    layout = Layout(4, 2, 1, aligned=False)
    seen = observed(3, layout, [], 0.0)
    assert (seen.tasks, seen.seconds, seen.utilisation, seen.rows.sum()) == ((), (0.0, 0.0), 0.0, 0.0)


def test_the_executor_of_a_partition_is_told_by_its_last_task():
    layout = Layout(4, 2, 1, aligned=False)
    controls = [Control(0, 0, 0, 0), Control(1, 0, 0, 0, seen=Seen("host/a")), Control(1, 1, 0, 0, seen=Seen("host/b"))]
    assert observed(1, layout, controls, 1.0).places == ("host/a", "host/b")
