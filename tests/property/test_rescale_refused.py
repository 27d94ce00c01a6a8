"""What a rescale refuses, before anything is written; and drivers that meet each other."""

from __future__ import annotations

import fcntl
import os

import pytest

from millpond import Counter, List, Map, Partial, Partitioned, Program, Set, Value, entry
from millpond.checkpoint.upkeep.rescale import Rescale
from millpond.engine import simulated as simulated_module
from millpond.engine.driver import Driver
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.errors import EpochError, MillpondError, ProgramError, StateError
from millpond.keygroups import Succession
from tests.programs.keyed import Totals, Words, committed_state
from tests.property.rescaled import COMPILED, KEY_GROUPS, random_rows
from tests.sizes import compile_once
from tests.unit.engine.test_simulated_relaxed import Bank


class Best(Program):
    """A merge that does not bear what is missing."""

    best = Partial(Map[str, int], merge=max)

    @entry
    def improve(self, word: str, number: int) -> None:
        self.best[word] = number


class Odd(Program):
    """Merges whose results are no members of their elements, one for each kind."""

    counts = Partial(Counter[str], merge=lambda counts: sum(counts) / 2)

    @entry
    def add(self, word: str) -> None:
        self.counts[word] += 1


class OddSet(Program):
    seen = Partial(Set[str], merge=lambda sets: [member for members in sets for member in members])

    @entry
    def add(self, word: str) -> None:
        self.seen.add(word)


class OddList(Program):
    log = Partial(List[str], merge=lambda lists: tuple(item for items in lists for item in items))

    @entry
    def add(self, word: str) -> None:
        self.log.append(word)


class OddMembers(Program):
    seen = Partial(Set[str], merge=lambda sets: {len(members) for members in sets})

    @entry
    def add(self, word: str) -> None:
        self.seen.add(word)


def files_of(folder):
    return sorted(str(path.relative_to(folder)) for path in (folder / "checkpoint").rglob("*") if path.is_file())


def refused(kind, call):
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.expected
    assert caught.value.found
    return caught.value


def rows_of(program, count=12):
    words = [f"w{n % 5}" for n in range(count)]
    if program is Best:
        return [("improve", (word, n)) for n, word in enumerate(words)]
    return [("add", (word,)) for word in words]


def test_fewer_instances_without_a_merge_are_refused_and_nothing_is_written(tmp_path):
    compiled = compile_once(Words)
    Simulated(compiled, tmp_path, 2, KEY_GROUPS, 4).epoch([("add", ("a b",))])
    before = files_of(tmp_path)
    error = refused(EpochError, lambda: Simulated(compiled, tmp_path, 2, instances=3))
    assert error.code == "MP420"
    assert "`counts`" in error.expected
    assert "merge=millpond.merges.total" in error.hint
    assert files_of(tmp_path) == before
    Simulated(compiled, tmp_path, 2).epoch([("add", ("a",))])


@pytest.mark.parametrize("instances", [0, -1, KEY_GROUPS + 1])
def test_a_number_that_the_key_groups_do_not_allow_is_refused_and_nothing_is_written(tmp_path, instances):
    Simulated(COMPILED, tmp_path, 2, KEY_GROUPS, 4).epoch(random_rows(1, 5))
    before = files_of(tmp_path)
    error = refused(StateError, lambda: Simulated(COMPILED, tmp_path, 2, instances=instances))
    assert error.code == "MP205"
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("program", [Best, Odd, OddSet, OddList, OddMembers])
def test_a_merge_that_fails_is_told_with_its_entry_and_commits_nothing(tmp_path, program):
    compiled = compile_once(program)
    Simulated(compiled, tmp_path, 2, KEY_GROUPS, 12).epoch(rows_of(program))
    before = committed_state(tmp_path / "checkpoint")
    manifests = len(list((tmp_path / "checkpoint" / "manifests").iterdir()))
    error = refused(EpochError, lambda: Simulated(compiled, tmp_path, 2, instances=1))
    assert error.code == "MP421"
    assert next(iter(program.elements())) in error.summary
    assert len(list((tmp_path / "checkpoint" / "manifests").iterdir())) == manifests
    assert committed_state(tmp_path / "checkpoint") == before
    assert not list(tmp_path.rglob("scratch-*"))
    Simulated(compiled, tmp_path, 2).epoch(rows_of(program))


def test_a_failed_merge_names_the_key_and_what_was_given(tmp_path):
    compiled = compile_once(Best)
    Simulated(compiled, tmp_path, 1, KEY_GROUPS, 12).epoch([("improve", ("only", 3))])
    error = refused(EpochError, lambda: Simulated(compiled, tmp_path, 1, instances=1))
    assert "'only'" in error.summary
    assert "TypeError" in error.found
    assert "None" in error.found
    assert isinstance(error.__cause__, TypeError)


@pytest.mark.parametrize(
    ("declare", "code"),
    [
        (lambda: Partial(Counter[str], on_scale_out="double"), "MP195"),
        (lambda: Partial(Counter[str], on_scale_out=None), "MP195"),
        (lambda: Partial(Value[int], on_scale_out="split"), "MP196"),
        (lambda: Partial(Counter[str], merge="sum"), "MP197"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(declare, code):
    assert refused(ProgramError, declare).code == code


def test_a_program_without_partial_state_takes_any_number(tmp_path):
    compiled = compile_once(Totals)
    Simulated(compiled, tmp_path, 2, KEY_GROUPS, 4).epoch([("add", (1, 2.0))])
    before = committed_state(tmp_path / "checkpoint")
    Simulated(compiled, tmp_path, 3, instances=2).epoch([])
    assert committed_state(tmp_path / "checkpoint") == before


def test_of_two_drivers_that_rescale_at_once_one_wins_and_its_state_is_whole(tmp_path, monkeypatch):
    Simulated(COMPILED, tmp_path, 2, KEY_GROUPS, 4).epoch(random_rows(3, 40))
    compute = Rescale.compute
    winners = []

    def overtaken(self, storage, parent, scratch):
        if not winners:
            winners.append(None)
            winners[:] = [Simulated(COMPILED, tmp_path, 2, instances=9)]
        return compute(self, storage, parent, scratch)

    monkeypatch.setattr(Rescale, "compute", overtaken)
    error = refused(EpochError, lambda: Simulated(COMPILED, tmp_path, 2, instances=2))
    assert error.code == "MP408"
    monkeypatch.undo()
    other = tmp_path / "alone"
    Simulated(COMPILED, other, 2, KEY_GROUPS, 4).epoch(random_rows(3, 40))
    Simulated(COMPILED, other, 2, instances=9)
    assert committed_state(tmp_path / "checkpoint") == committed_state(other / "checkpoint")
    winners[0].epoch(random_rows(4, 10))


def test_a_driver_that_sleeps_over_a_rescale_loses_its_next_commit(tmp_path):
    sleeper = Simulated(COMPILED, tmp_path, 2, KEY_GROUPS, 4)
    sleeper.epoch(random_rows(1, 10))
    Simulated(COMPILED, tmp_path, 2, instances=6)
    assert refused(EpochError, lambda: sleeper.epoch(random_rows(2, 10))).code == "MP408"


def test_a_driver_that_finds_another_number_after_an_error_does_not_compute_with_its_own(tmp_path, monkeypatch):
    sleeper = Simulated(COMPILED, tmp_path, 2, KEY_GROUPS, 4)
    sleeper.epoch(random_rows(1, 10))
    real = simulated_module.run_in_one_task

    def away(*_):
        raise OSError("the network is away")

    monkeypatch.setattr(simulated_module, "run_in_one_task", away)
    with pytest.raises(OSError, match="away"):
        sleeper.epoch(random_rows(2, 10))
    monkeypatch.setattr(simulated_module, "run_in_one_task", real)
    Simulated(COMPILED, tmp_path, 2, instances=6)
    before = committed_state(tmp_path / "checkpoint")
    assert refused(EpochError, lambda: sleeper.epoch(random_rows(2, 10))).code == "MP422"
    assert committed_state(tmp_path / "checkpoint") == before


def test_messages_that_are_left_are_worked_on_by_the_old_instances_first(tmp_path, monkeypatch):
    """A relaxed program dies between its epochs; the next start rescales it, and nothing is lost or done twice."""
    compiled = compile_once(Bank)
    rows = [("walk", (n % 5, 6)) for n in range(8)]
    Simulated(compiled, tmp_path, 3, KEY_GROUPS, 4, steps_max=2)
    with monkeypatch.context() as patch:
        patch.setattr(Driver, "_finish", lambda self, moment: None)
        left = Simulated(compiled, tmp_path, 3, steps_max=2)
        assert left.epoch(rows).manifest.pending
    after = Simulated(compiled, tmp_path, 2, instances=8, steps_max=3)
    reference = Sequential(compiled, KEY_GROUPS, 4)
    wanted = reference.epoch(rows)
    assert after.replies() == dict(enumerate(wanted))
    assert after.epoch([]).manifest.instances == 8
    totals = [
        sum(_visits(state, index=2).values()) for state in (committed_state(tmp_path / "checkpoint"), reference.state())
    ]
    assert totals[0] == totals[1] > 0


def _visits(state, index):
    codec = Bank.elements()["visits"].type.values
    return {key: codec.decode(value) for key, value in state.items() if key[0] == index}


def test_what_a_killed_rescale_left_in_the_local_root_is_removed(tmp_path):
    Simulated(COMPILED, tmp_path, 2, KEY_GROUPS, 4).epoch(random_rows(1, 10))
    left = tmp_path / "local-2" / "scratch-left"
    left.mkdir(parents=True)
    (left / "data.mdb").write_bytes(b"old")
    Simulated(COMPILED, tmp_path, 2, instances=5)
    assert not list(tmp_path.rglob("scratch-*"))


def test_a_scratch_folder_in_use_is_left_alone(tmp_path):
    Simulated(COMPILED, tmp_path, 2, KEY_GROUPS, 4).epoch(random_rows(1, 10))
    used = tmp_path / "local-2" / "scratch-used"
    used.mkdir(parents=True)
    lock = os.open(used, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        Simulated(COMPILED, tmp_path, 2, instances=5)
        assert used.exists()
    finally:
        os.close(lock)


def test_a_damaged_file_stops_a_rescale_and_changes_nothing(tmp_path):
    Simulated(COMPILED, tmp_path, 2, KEY_GROUPS, 4).epoch(random_rows(1, 40))
    (delta, *_) = sorted((tmp_path / "checkpoint" / "deltas").iterdir())
    whole = delta.read_bytes()
    delta.chmod(0o600)
    delta.write_bytes(whole[:-1])
    before = files_of(tmp_path)
    refused(MillpondError, lambda: Simulated(COMPILED, tmp_path, 2, instances=5))
    assert files_of(tmp_path) == before
    delta.write_bytes(whole)
    Simulated(COMPILED, tmp_path, 2, instances=5)


def test_every_instance_has_a_successor_and_a_predecessor_and_order_is_kept():
    for before in range(1, 25):
        for after in range(1, 25):
            succession = Succession(before, after)
            heirs = [list(succession.heirs(old)) for old in range(before)]
            sources = [list(succession.sources(new)) for new in range(after)]
            assert all(heirs)
            assert all(sources)
            pairs = {(old, new) for old in range(before) for new in heirs[old]}
            assert pairs == {(old, new) for new in range(after) for old in sources[new]}
            assert len(pairs) == max(before, after)
            assert sorted(pairs) == sorted(pairs, key=lambda pair: (pair[1], pair[0]))


def test_partitioned_elements_have_no_policy():
    with pytest.raises(TypeError):
        Partitioned(Counter[str], merge=sum)
