"""Tasks that may not hold all their rows at once: in portions they give what plain Python gives."""

from __future__ import annotations

import errno
import random
import shutil
from itertools import pairwise

import pyarrow as pa
import pytest

from millpond import Counter, Map, Partitioned, Program, Value, entry
from millpond.checkpoint.records.times import TaskTimes
from millpond.checkpoint.records.work import Changed
from millpond.compiler.compile import compile_program
from millpond.engine.messages import Control, decode_control
from millpond.engine.plan import BadRows, EpochPlan, Level
from millpond.engine.simulated import Fed, Simulated
from millpond.engine.task import spill, working
from millpond.engine.task.spill import ROW_BYTES, join_controls, run_task
from millpond.engine.task.step import StepRun
from millpond.errors import RowError, StorageError
from millpond.ids import PartitionId
from millpond.keygroups import hash_int
from millpond.program.semantics.epoch_time import epoch_time
from millpond.state.changes import Changes
from tests.programs.keyed import PROGRAMS, Store, Totals, committed_state, fresh_seed, oracle, random_rows
from tests.property.test_time import Alarms, compare, run_both
from tests.unit.engine.task.test_step import totals_batch, without_times
from tests.unit.engine.test_failures_raising_rows import Picky, plain_run

FEW = 4 * ROW_BYTES
"""Memory for a handful of rows."""


@pytest.fixture
def divided(monkeypatch):
    """In how many portions tasks ran, those that were divided."""
    counts = []
    real = spill._as_one

    def as_one(told, step, partition):
        counts.append(len(told))
        return real(told, step, partition)

    monkeypatch.setattr(spill, "_as_one", as_one)
    return counts


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("program", PROGRAMS)
def test_portions_equal_plain_python(program, partitions, tmp_path, divided, monkeypatch):
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", 120)
    rows = random_rows(program, fresh_seed(), 80)
    wanted = oracle(program, rows)
    simulated = Simulated(compile_program(program), tmp_path, partitions, memory_bytes=FEW)
    simulated.epoch(rows[:50])
    simulated.epoch(rows[50:])
    assert simulated.replies() == wanted.replies
    assert committed_state(tmp_path / "checkpoint") == wanted.state
    # The one program whose first step is nothing but partial state can't be divided there.
    assert (max(divided, default=0) > 1) == (program.__name__ != "Words")


@pytest.mark.parametrize("durability", list(Level))
def test_every_level_of_durability_gives_the_same(durability, tmp_path, divided):
    rows = random_rows(Store, fresh_seed(), 60)
    simulated = Simulated(compile_program(Store), tmp_path, 2, durability=durability, memory_bytes=FEW)
    simulated.epoch(rows[:30])
    if durability is Level.REPLAY:
        # What is computed again must be divided as it was: not at all.
        shutil.rmtree(tmp_path / "near")
    simulated = Simulated(compile_program(Store), tmp_path, 1, durability=durability, memory_bytes=3 * FEW)
    assert simulated.replayed == (durability is Level.REPLAY)
    simulated.epoch(rows[30:])
    wanted = oracle(Store, rows)
    told = {number: reply for number, reply in wanted.replies.items() if number >= 30}
    assert simulated.replies() == told
    # Rows that are logged to be run again are held at once.
    assert bool(divided) == (durability is not Level.REPLAY)


def test_timers_fire_as_in_plain_python(tmp_path, divided):
    dice = random.Random(fresh_seed())
    epochs = [
        (dice.randrange(5), [("touch", (dice.choice("abcdefgh"), dice.randrange(-2, 9))) for _ in range(20)])
        for _ in range(4)
    ]
    compare(Alarms, *run_both(Alarms, epochs, tmp_path, 2, memory_bytes=FEW))
    assert max(divided) > 1


@pytest.mark.parametrize("policy", [BadRows.SKIP, BadRows.DEAD_LETTER])
def test_rows_that_raise_are_as_if_never_fed(tmp_path, policy, divided):
    dice = random.Random(7)
    rows = [("put", (dice.randrange(6), dice.randrange(4))) for _ in range(40)]
    expected = plain_run(rows)
    simulated = Simulated(compile_program(Picky), tmp_path, 2, bad_rows=policy, memory_bytes=FEW)
    simulated.epoch(rows[:15])
    outcome = simulated.epoch(rows[15:])
    assert simulated.replies() == expected
    assert outcome.manifest.counters["total.bad.put"] == len(rows) - len(expected)
    assert max(divided) > 1


class Strict(Program):
    """Refuses negative numbers."""

    totals = Partitioned(Map[int, int])

    @entry
    def add(self, key: int, number: int) -> int:
        if number < 0:
            raise ValueError(f"number {number}")
        self.totals[key] = self.totals.get(key, 0) + number
        return self.totals[key]


def test_the_first_failure_in_input_order_is_told_whatever_portion_it_is_in(tmp_path, divided):
    dice = random.Random(fresh_seed())
    for turn in range(5):
        rows = [("add", (dice.randrange(50), 1)) for _ in range(60)]
        bad = sorted(dice.sample(range(60), 4))
        for number, at in enumerate(bad):
            rows[at] = ("add", (dice.randrange(50), -1 - number))
        simulated = Simulated(compile_program(Strict), tmp_path / str(turn), 1, memory_bytes=FEW)
        with pytest.raises(RowError, match="raised ValueError: number -1"):
            simulated.epoch(rows)
        assert simulated.fed == 0
    assert max(divided) > 1


def test_bad_rows_are_counted_once(tmp_path, divided):
    rows = [("add", (None if at % 10 == 0 else at, 1)) for at in range(60)]
    simulated = Simulated(compile_program(Strict), tmp_path, 2, bad_rows=BadRows.SKIP, memory_bytes=FEW)
    outcome = simulated.epoch(rows)
    assert outcome.manifest.counters["total.bad.add"] == 6
    assert outcome.manifest.counters["total.fed.add"] == 54
    assert max(divided) > 1


def test_two_attempts_tell_the_same_in_whatever_batches_rows_arrive(tmp_path, divided):
    seed = fresh_seed()
    simulated = Simulated(compile_program(Totals), tmp_path, 1, memory_bytes=FEW)
    epoch = EpochPlan(1, simulated._checkpoint.parent)
    positions = list(range(200))
    seen = []
    for turn in range(4):
        dice = random.Random(seed + turn)
        dice.shuffle(positions)
        batch = totals_batch([at % 37 for at in positions], positions)
        if turn % 2:
            # Rows of one feed with one task travel without their key groups.
            batch = batch.drop_columns(["grp", "feed"])
        cuts = [0, *sorted(dice.sample(range(1, 200), 5)), 200]
        batches = [batch.slice(low, high - low) for low, high in pairwise(cuts)]
        task = StepRun(simulated._plan, epoch, 0, PartitionId(0))
        seen.append(without_times(run_task(task, iter(batches))))
    assert seen[0] == seen[2]
    assert seen[1] == seen[3]
    # Four bytes of a column less are four bytes less to hold.
    (with_groups,), (without,) = ([row["body"] for row in rows] for rows in (seen[0], seen[1]))
    assert with_groups["changed"] == without["changed"]
    assert min(divided) > 1


def test_a_portion_holds_no_more_rows_than_fit_unless_one_key_group_has_them(tmp_path, monkeypatch):
    sizes = []
    real = StepRun.run

    def run(self, batches):
        held = list(batches)
        sizes.append(sum(batch.num_rows for batch in held))
        return real(self, held)

    monkeypatch.setattr(StepRun, "run", run)
    simulated = Simulated(compile_program(Strict), tmp_path, 1, key_groups=64, memory_bytes=20 * (ROW_BYTES + 300))
    simulated.epoch([("add", (at, 1)) for at in range(400)] + [("add", (7, 1))] * 50)
    crowd = sum(1 for at in range(400) if hash_int(at) % 64 == hash_int(7) % 64) + 50
    assert max(sizes) == crowd
    assert sorted(sizes)[-2] <= 20 + 6
    assert sum(sizes) == 450


def test_large_values_count(tmp_path, divided):
    rows = [("put", (str(at), "x" * 10_000)) for at in range(40)]
    compiled = compile_program(Store)
    simulated = Simulated(compiled, tmp_path, 1, memory_bytes=200_000)
    simulated.epoch(rows)
    by_rows, divided[:] = list(divided), []
    assert max(by_rows) > 1
    # Rows are small now, but what they read is not.
    simulated.epoch([("get", (str(at),)) for at in range(40)])
    assert max(divided) > 1
    assert simulated.replies() == oracle(Store, [*rows, *(("get", (str(at),)) for at in range(40))]).replies


class Shared(Program):
    """All rows meet one value."""

    last = Partitioned(Value[int])

    @entry
    def note(self, number: int) -> int:
        before = self.last.get(0)
        self.last.set(number)
        return before


class Wandering(Program):
    """Where a row goes next follows from state: a loop that no order of steps allows."""

    ways = Partitioned(Map[int, int])

    @entry(relaxed=True)
    def walk(self, place: int, steps: int) -> int:
        while steps:
            place = self.ways.setdefault(place, place + 1)
            steps -= 1
        return place


class Paid(Program):
    """Two keys of one element in one row."""

    accounts = Partitioned(Map[int, int])

    @entry
    def pay(self, source: int, target: int) -> int:
        self.accounts[source] = self.accounts.get(source, 0) - 1
        self.accounts[target] = self.accounts.get(target, 0) + 1
        return self.accounts[source]


@pytest.mark.parametrize(
    ("program", "row"),
    [
        (Shared, lambda dice: ("note", (dice.randrange(9),))),
        (Wandering, lambda dice: ("walk", (dice.randrange(9), 1))),
        (Paid, lambda dice: ("pay", (dice.randrange(9), 9 + dice.randrange(9)))),
    ],
)
def test_what_can_not_be_divided_runs_at_once(program, row, tmp_path, divided):
    dice = random.Random(fresh_seed())
    rows = [row(dice) for _ in range(50)]
    simulated = Simulated(compile_program(program), tmp_path, 2, memory_bytes=FEW)
    with epoch_time(0):
        simulated.epoch(rows)
    plain = program()
    assert simulated.replies() == {at: getattr(plain, name)(*words) for at, (name, words) in enumerate(rows)}
    assert divided == []


class Two(Program):
    """Two steps by key, the second with other keys."""

    seen = Partitioned(Counter[int])
    words = Partitioned(Counter[str])

    @entry
    def see(self, number: int) -> int:
        self.seen[number] += 1
        word = f"w{self.seen[number]}"
        self.words[word] += 1
        return self.words[word]


def test_messages_between_steps_come_from_all_portions_and_go_to_all(tmp_path, divided):
    rows = [("see", (at % 17,)) for at in range(90)]
    simulated = Simulated(compile_program(Two), tmp_path, 2, memory_bytes=FEW)
    simulated.epoch(rows)
    wanted = oracle(Two, rows)
    assert simulated.replies() == wanted.replies
    assert committed_state(tmp_path / "checkpoint") == wanted.state
    assert len(divided) > 2


def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path, monkeypatch):
    simulated = Simulated(compile_program(Strict), tmp_path, 1, memory_bytes=FEW)
    rows = [("add", (at, 1)) for at in range(60)]

    def full(**_):
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(spill.tempfile, "TemporaryFile", full)
        with pytest.raises(StorageError, match="MP307"):
            simulated.epoch(rows)
    assert simulated.fed == 0
    simulated.epoch(rows)
    assert simulated.replies() == dict.fromkeys(range(60), 1)


def test_no_file_is_left(tmp_path):
    simulated = Simulated(compile_program(Strict), tmp_path, 1, memory_bytes=FEW)
    simulated.epoch([("add", (at, 1)) for at in range(60)])
    local = tmp_path / "local-1"
    assert [path.name for path in local.iterdir() if not path.is_dir()] == []


def test_counters_are_added_and_moments_compared():
    first, second = TaskTimes(9, {"rows": 7}), TaskTimes(4, {"rows": 3, "more": -5})
    one = Control(0, 1, 5, 2, changed=Changed(Changes([b"b"], [b"1"]), growth=3), counters={"fed.rows": 5}, times=first)
    two = Control(
        0,
        1,
        4,
        0,
        changed=Changed(Changes([b"a"], [None]), growth=-1),
        counters={"fed.rows": 4, "late.rows": 1},
        times=second,
    )
    joined = join_controls([one, two])
    assert (joined.received, joined.sent) == (9, 2)
    assert joined.changed == Changed(Changes([b"a", b"b"], [None, b"1"]), growth=2)
    assert joined.counters == {"fed.rows": 9, "late.rows": 1}
    assert joined.times == TaskTimes(4, {"rows": 7, "more": -5})


def test_times_of_portions_are_added_and_those_of_earlier_steps_told_once():
    one = Control(1, 0, 0, 0, busy={0: 2.0, 1: 0.5}, spent={"read": 1.0})
    two = Control(1, 0, 0, 0, busy={0: 2.0, 1: 0.25}, spent={"read": 0.5, "save": 1.0})
    joined = join_controls([one, two])
    assert joined.busy == {0: 2.0, 1: 0.75}
    assert joined.spent == {"read": 1.5, "save": 1.0}


def test_the_time_of_an_earlier_step_is_that_of_all_its_portions(tmp_path, divided):
    simulated = Simulated(compile_program(Two), tmp_path, 1, memory_bytes=FEW)
    epoch = EpochPlan(1, simulated._checkpoint.parent)
    (batch,) = simulated._route(Fed([("see", (at,)) for at in range(60)]))
    first = StepRun(simulated._plan, epoch, 0, PartitionId(0))
    told = run_task(first, [batch])
    noted = first._store().view()
    (took,) = noted.busy(1).values()
    noted.close()
    last = run_task(StepRun(simulated._plan, epoch, 1, PartitionId(0)), [told])
    bodies = pa.Table.from_batches([last]).column("body").to_pylist()
    busy = next(decode_control(body).busy for body in bodies if body is not None)
    assert busy[0] == took > 0
    assert divided[0] > 1
