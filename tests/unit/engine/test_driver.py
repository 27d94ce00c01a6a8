"""The driver: what it asks of its engine and in which order, and what it makes durable before it goes on."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta

import pytest

from millpond import BoundedLoss, Counter, Map, Partial, Partitioned, Program, entry, on_timer
from millpond.engine.simulated import Simulated
from millpond.errors import EpochError
from millpond.program.semantics.epoch_time import epoch_time
from millpond.storage.backends.files import FileStorage
from tests.sizes import compile_once

NOW = 1_700_000_000_000_000
SECOND = 1_000_000


class Alarms(Program):
    """Rows set timers, some of which are due at once."""

    rung = Partitioned(Map[str, int])

    @entry
    def set(self, key: str, seconds: int) -> None:
        self.ring.set(key, self.now + timedelta(seconds=seconds))

    @on_timer
    def ring(self, key: str, at: datetime) -> int:
        self.rung[key] = self.rung.get(key, 0) + 1
        return self.rung[key]


class Walk(Program):
    """Rows leave messages if an epoch has few steps."""

    visits = Partitioned(Counter[int])

    @entry(relaxed=True)
    def walk(self, at: int, steps: int) -> int:
        while steps > 0:
            self.visits[at] += 1
            at, steps = at + 1, steps - 1
        return at


class Notes(Program):
    """Timers change instances of partial state, whose loss is borne."""

    notes = Partial(Counter[str], merge=lambda counts: sum(counts, Counter()))
    rung = Partitioned(Counter[str], durability=BoundedLoss(events=10**6, within="1000000 s"))

    @entry
    def set(self, key: str) -> None:
        self.notes[key] += 1
        self.ring.set(key, self.now)

    @on_timer
    def ring(self, key: str, at: datetime) -> None:
        self.rung[key] += 1


class Watched(Simulated):
    """Writes down what it is asked for."""

    dies = ""

    def __init__(self, *given, **named):
        self.asked, self.commits, self.next_layout = [], [], None
        super().__init__(*given, **named)

    def compute_rows(self, rows, request):
        self.note("rows", request)
        return super().compute_rows(rows, request)

    def compute_messages(self, left, request):
        self.note("messages", request)
        return super().compute_messages(left, request)

    def compute_timers(self, due, firing, request):
        self.note("timers", request)
        return super().compute_timers(due, firing, request)

    def note(self, what, request):
        if self.dies == what:
            raise InterruptedError(what)
        self.asked.append((what, request.parent.epoch))

    def rebalanced(self, layout):
        return layout if self.next_layout is None else self.next_layout

    def on_commit(self, epoch):
        self.commits.append(epoch)


def started(program, folder, *, now=NOW, **named):
    with epoch_time(now):
        return Watched(compile_once(program), folder, 2, 8, **named)


def test_timers_that_are_due_fire_in_an_epoch_of_their_own_after_the_rows(tmp_path):
    run = started(Alarms, tmp_path)
    with epoch_time(NOW):
        run.epoch([("set", ("a", 0)), ("set", ("b", 9))])
    assert run.asked == [("rows", 0), ("timers", 1), ("rows", 1)]
    with epoch_time(NOW + 9 * SECOND):
        assert run.tick().manifest.epoch == 3
    assert run.asked[3:] == [("timers", 2), ("rows", 2)]
    assert run.replies() == {}


def test_messages_that_an_epoch_leaves_are_worked_on_before_the_next_rows(tmp_path):
    run = started(Walk, tmp_path, steps_max=2)
    assert run.epoch([("walk", (1, 5))]).manifest.epoch == len(run.asked) > 1
    assert [what for what, _ in run.asked] == ["rows"] + ["messages"] * (len(run.asked) - 1)
    assert run.replies() == {0: 6}


def test_a_start_goes_on_where_the_last_run_died(tmp_path):
    for program, rows, dies in ((Alarms, [("set", ("a", 0))], "timers"), (Walk, [("walk", (1, 5))], "messages")):
        folder = tmp_path / program.__name__
        run = started(program, folder, steps_max=2)
        run.dies = dies
        with epoch_time(NOW), pytest.raises(InterruptedError):
            run.epoch(rows)
        assert (dies, 1) in started(program, folder, now=NOW + SECOND, steps_max=2).asked


def test_every_commit_is_heard_with_what_its_tasks_reported(tmp_path):
    run = started(Alarms, tmp_path)
    with epoch_time(NOW):
        run.epoch([("set", ("a", 0))])
        run.epoch([])
    assert [one.outcome.manifest.epoch for one in run.commits] == [1, 2, 3]
    assert [len(one.controls) for one in run.commits] == [2, 2, 2]
    assert all(one.seconds > 0 and one.consolidation_s is None for one in run.commits)


def test_an_engine_says_who_owns_what_before_rows_come(tmp_path):
    run = started(Alarms, tmp_path)
    run.next_layout = run.layout.with_owners([1] * 8)
    with epoch_time(NOW):
        assert run.epoch([("set", ("a", 5))]).manifest.ownership.owners(8) == (1,) * 8
    assert run.layout is run.next_layout


def test_a_tick_that_nobody_wants_when_its_turn_comes_does_nothing(tmp_path):
    run = started(Alarms, tmp_path)
    with epoch_time(NOW):
        run.epoch([("set", ("a", 1))])
    with epoch_time(NOW + SECOND):
        assert run._driver.tick(lambda: False) is None
        assert run._driver.tick(lambda: True) is not None


def test_messages_are_not_given_to_other_feeds(tmp_path):
    run = started(Walk, tmp_path, steps_max=2)
    run.dies = "messages"
    with pytest.raises(InterruptedError):
        run.epoch([("walk", (1, 5))])
    run._driver._sources = ("another",)
    with pytest.raises(EpochError) as caught:
        run._driver._finish(NOW)
    assert caught.value.code == "MP407"


@pytest.mark.parametrize("instances", [None, 6])
def test_what_timers_left_unsynced_at_a_start_is_durable_before_instances_change(tmp_path, instances):
    run = started(Notes, tmp_path, instances=4)
    run.dies = "timers"
    with epoch_time(NOW), pytest.raises(InterruptedError):
        run.epoch([("set", (f"k{at}",)) for at in range(20)])
    again = started(Notes, tmp_path, now=NOW + SECOND, instances=instances)
    assert [what for what, _ in again.asked] == ["timers", "rows"]
    fired = next(delta for delta in again._checkpoint.head.deltas if delta.epoch == 2)
    kept = FileStorage(tmp_path / "checkpoint")
    durable = [kept.contains(state.file.name) for state in fired.files if state.file.name in fired.lazy_names]
    assert durable
    assert all(durable) == (instances is not None)
    # Whoever saves keys from now on knows what is not durable, and nothing else.
    assert again._driver._bounded_loss._saving._saver.dirty_keys == (0 if instances else 20)
    if instances:
        shutil.rmtree(tmp_path / "near", ignore_errors=True)
        assert started(Notes, tmp_path, now=NOW + 2 * SECOND).loss is None
