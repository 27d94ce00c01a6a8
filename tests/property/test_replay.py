"""Durability by replay: what an epoch changed is near and may be lost; computing it again gives back every byte."""

from __future__ import annotations

import random
import shutil
import signal
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

from examples.baskets import Baskets
from millpond import Counter, Partial, Partitioned, Program, entry
from millpond.checkpoint.read.history import History
from millpond.checkpoint.read.verify import verify
from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots import snapshots
from millpond.engine.durability.replaying import check_durability, could_replay, replay_lost
from millpond.engine.plan import Level
from millpond.engine.simulated import Simulated
from millpond.engine.task import working
from millpond.errors import MillpondError
from millpond.storage.backends.files import FileStorage
from millpond.storage.composed.unsynced import UnsyncedStorage
from tests.children import in_child
from tests.fuzz.transactions.worlds.bank import Bank
from tests.programs.keyed import PROGRAMS, Store, fresh_seed, oracle, random_rows, say
from tests.sizes import compile_once, sized

EPOCH_ROWS = 12


@pytest.fixture(autouse=True)
def _files(monkeypatch):
    """Small changes become files too."""
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", 60)


def run_on(program, folder, partitions, rows, **options):
    """Feed what is not committed yet; return the run."""
    run = Simulated(compile_once(program), folder, partitions, durability=Level.REPLAY, **options)
    while run.fed < len(rows):
        run.epoch(rows[run.fed : run.fed + EPOCH_ROWS])
    return run


def lose(folder, rng):
    """What a lost machine leaves: the checkpoint alone, or with torn files."""
    if rng.random() < 0.5:
        shutil.rmtree(folder / "near", ignore_errors=True)
    for path in sorted((folder / "near").rglob("*")):
        if path.is_file() and rng.random() < 0.4:
            path.chmod(0o600)
            path.write_bytes(path.read_bytes()[: rng.randrange(30)])
    for local in sorted(folder.glob("local-*")):
        if rng.random() < 0.7:
            shutil.rmtree(local)


@pytest.mark.parametrize("every", sized([1_000, 2], [2]))
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_state_that_was_near_and_is_lost_comes_back(tmp_path, monkeypatch, program, every):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", every)
    rng = random.Random(fresh_seed())
    rows = random_rows(program, rng.randrange(1_000), 60)
    replayed = 0
    for end in (24, 36, 60):
        run = run_on(program, tmp_path, rng.choice((1, 2, 3)), rows[:end])
        replayed += run.replayed
        lose(tmp_path, rng)
    run = run_on(program, tmp_path, 2, rows)
    wanted = oracle(program, rows)
    storage = UnsyncedStorage(FileStorage(tmp_path / "checkpoint"), tmp_path / "near")
    assert read_state(storage) == wanted.state
    say("replayed", replayed + run.replayed)


def test_nothing_of_an_epoch_is_kept_but_its_input(tmp_path):
    rows = random_rows(PROGRAMS[0], 3, 30)
    run_on(PROGRAMS[0], tmp_path, 2, rows)
    kept = FileStorage(tmp_path / "checkpoint")
    assert kept.list("deltas") == []
    assert kept.list("inputs")


def test_going_back_to_exactly_once_computes_what_is_not_kept(tmp_path):
    program = PROGRAMS[0]
    rows = random_rows(program, 3, 36)
    run_on(program, tmp_path, 2, rows[:24])
    run = Simulated(compile_once(program), tmp_path, 2)
    assert run.replayed == 2
    run.epoch(rows[24:])
    assert read_state(FileStorage(tmp_path / "checkpoint")) == oracle(program, rows).state
    assert Simulated(compile_once(program), tmp_path, 3).replayed == 0


def test_readers_tell_what_is_only_near_and_verify_checks_the_rows(tmp_path):
    program = PROGRAMS[0]
    rows = random_rows(program, 3, 24)
    run_on(program, tmp_path, 2, rows)
    kept = FileStorage(tmp_path / "checkpoint")
    history = History(kept)
    name = next(iter(program.elements()))
    assert code_of(lambda: history.reader(name, history.point())) == "MP456"
    assert verify(kept, everything=True).problems == []
    path = tmp_path / "checkpoint" / kept.list("inputs")[0]
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1])
    assert [problem.error.code for problem in verify(kept, everything=True).problems] == ["MP301"]
    path.unlink()
    assert [problem.error.code for problem in verify(kept, everything=True).problems] == ["MP304"]


def test_an_epoch_that_comes_out_differently_is_told(tmp_path, monkeypatch):
    program = PROGRAMS[0]
    run_on(program, tmp_path, 2, random_rows(program, 3, 24))
    shutil.rmtree(tmp_path / "near")
    for local in tmp_path.glob("local-*"):
        shutil.rmtree(local)
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", 10**6)  # As if another version divided changes in another way.
    assert code_of(lambda: run_on(program, tmp_path, 2, [])) == "MP491"


def test_gathered_programs_are_refused(tmp_path):
    assert code_of(lambda: Simulated(compile_once(Bank), tmp_path, durability=Level.REPLAY)) == "MP492"


def code_of(call):
    with pytest.raises(MillpondError) as caught:
        call()
    return caught.value.code


def test_other_feeds_can_not_compute_epochs_again(tmp_path):
    program = PROGRAMS[1]
    run = run_on(program, tmp_path, 2, random_rows(program, 3, 24))
    shutil.rmtree(tmp_path / "near")
    others = replace(run._plan, feeds=run._plan.feeds[::-1])
    assert code_of(lambda: replay_lost(others, run.storage, run._checkpoint)) == "MP490"


def test_what_can_not_be_is_refused():
    compiled = compile_once(PROGRAMS[0])
    assert check_durability(compiled, Level.REPLAY) is Level.REPLAY
    assert code_of(lambda: check_durability(compiled, Level.REPLAY, one_host=False)) == "MP493"


@pytest.mark.parametrize("part", ["ttl", "timers"])
def test_programs_whose_state_time_changes_are_refused(part):
    class Expiring(Program):
        seen = Partitioned(Counter[str], ttl=timedelta(hours=1))

        @entry
        def visit(self, key: str) -> None:
            self.seen[key] += 1

    compiled = compile_once(Expiring if part == "ttl" else Baskets)
    assert code_of(lambda: check_durability(compiled, Level.REPLAY)) == "MP492"
    assert not could_replay(compiled)
    assert could_replay(compile_once(Store))


POINTS = (
    "delta.written",
    "segment.written",
    "manifest.linked",
    "manifest.committed",
    "task.finished",
    "store.advanced",
)


@pytest.mark.slow
def test_kills_and_lost_machines_in_a_row_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)
    rng = random.Random(fresh_seed())
    program = PROGRAMS[1]
    rows = random_rows(program, 5, 80)
    for _ in range(10):
        crash_at = f"{rng.choice(POINTS)}:{rng.randrange(1, 4)}"
        say(crash_at)
        ended = in_child(lambda: run_on(program, tmp_path, rng.choice((2, 3)), rows), crash_at)
        assert ended in (-signal.SIGKILL, 0)
        if rng.random() < 0.5:
            lose(tmp_path, rng)
    run_on(program, tmp_path, 2, rows)
    storage = UnsyncedStorage(FileStorage(tmp_path / "checkpoint"), tmp_path / "near")
    assert read_state(storage) == oracle(program, rows).state


def test_loaded_state_is_kept_at_once_and_epochs_after_it_are_computed_again(tmp_path):
    program = Store
    rows = random_rows(program, 3, 24)
    run = Simulated(compile_once(program), tmp_path, 2, durability=Level.REPLAY)
    run.load("data", pa.table({"key": ["a", "only loaded"], "value": ["1", "2"]}))
    assert FileStorage(tmp_path / "checkpoint").list("deltas")
    run.epoch(rows[:12])
    run.epoch(rows[12:])
    shutil.rmtree(tmp_path / "near")
    for local in tmp_path.glob("local-*"):
        shutil.rmtree(local)
    assert Simulated(compile_once(program), tmp_path, 2).replayed == 2
    loaded = [("put", ("a", "1")), ("put", ("only loaded", "2"))]
    assert read_state(FileStorage(tmp_path / "checkpoint")) == oracle(program, loaded + rows).state


class Seen(Program, dropped=("old",)):
    """State in diverging copies, which another number of them moves."""

    seen = Partial(Counter[str], merge=sum)

    @entry
    def see(self, word: str) -> int:
        self.seen[word] += 1
        return self.seen[word]


class SeenBefore(Program):
    """The same, with an element that is dropped later."""

    seen = Partial(Counter[str], merge=sum)
    old = Partitioned(Counter[str])

    @entry
    def see(self, word: str) -> int:
        self.old[word] += 1
        self.seen[word] += 1
        return self.seen[word]


def test_what_is_only_near_is_moved_to_another_number_of_instances_and_dropped(tmp_path):
    rows = [("see", (f"w{number % 5}",)) for number in range(24)]
    run_on(SeenBefore, tmp_path, 2, rows, instances=3)
    run = run_on(Seen, tmp_path, 2, rows, instances=2)
    values = Seen.elements()["seen"].type.values
    assert sum(values.decode(value) for value in read_state(run.storage).values()) == 24
    assert run._checkpoint.instances == 2
