"""An epoch runs in sequence if it has rows that must, and else as if their entry points were not there."""

from __future__ import annotations

import shutil

import pytest

from millpond import Counter, Map, Partial, Partitioned, Program, Value, each, entry, merged
from millpond.checkpoint.recovery import read_state
from millpond.compiler.compile import compile_program
from millpond.engine.plan import BadRows, Level
from millpond.engine.sequence.cutting import CUT_ROWS_MAX, PARTS
from millpond.engine.sequence.rows import IN_SEQUENCE
from millpond.engine.sequence.ways import in_sequence, plan_for, sequence_feeds
from millpond.engine.simulated import Simulated
from millpond.errors import EpochError, ProgramError
from millpond.graph.model import Dispatch


class Counts(Program):
    counts = Partitioned(Map[str, int])

    @entry
    def add(self, key: str, n: int) -> int:
        self.counts[key] = self.counts.get(key, 0) + n
        return self.counts[key]


class Reported(Counts):
    @entry
    def report(self) -> int:
        return sum(self.counts.values())


def counters(outcome):
    return outcome.manifest.counters


def test_only_epochs_with_rows_that_must_run_in_sequence(tmp_path):
    run = Simulated(compile_program(Reported), tmp_path, 3)
    rows = [("add", (key, 1)) for key in "abcabcd"]
    assert IN_SEQUENCE not in counters(run.epoch(rows))
    many = [("report", ())] * (CUT_ROWS_MAX + 1)
    assert counters(run.epoch([*rows, *many]))[IN_SEQUENCE] == len(rows) + len(many)
    assert IN_SEQUENCE not in counters(run.epoch(rows))
    assert run.replies()[len(rows) * 2] == 14


def test_an_epoch_is_cut_around_few_rows_in_sequence(tmp_path):
    run = Simulated(compile_program(Reported), tmp_path, 3)
    rows = [("add", (key, 1)) for key in "abcabcd"]
    told = counters(run.epoch([*rows, ("report", ()), ("report", ()), *rows, ("report", ())]))
    assert (told[IN_SEQUENCE], told[PARTS], told["total.fed.add"], told["total.entries"]) == (3, 4, 14, 4)
    assert [run.replies()[number] for number in (7, 8, 16)] == [7, 7, 14]
    assert PARTS not in counters(run.epoch([("report", ())] * 2)), "these are all rows"


def test_an_entry_point_in_sequence_changes_nothing_of_the_plan_of_the_others():
    with_it, without = compile_program(Reported), compile_program(Counts)
    (task,), (same,) = with_it.entries["add"].tasks, without.entries["add"].tasks
    assert (task.dispatch, task.key, task.step, task.renews) == (same.dispatch, same.key, same.step, same.renews)
    assert task.function.__code__.co_code == same.function.__code__.co_code
    assert with_it.steps == without.steps == 1
    assert with_it.entries["report"].tasks[0].dispatch is Dispatch.SEQUENCE


def test_a_plan_in_sequence_is_made_once(tmp_path):
    plan = Simulated(compile_program(Reported), tmp_path, 2)._plan
    assert sequence_feeds(plan) == [1]
    assert plan_for(plan, [0]) is plan
    assert plan_for(plan, [0, 1]) is in_sequence(plan) is plan_for(in_sequence(plan), [0])


class Sets(Program):
    total = Partitioned(Value[int])

    @entry
    def go(self, n: int) -> int:
        keep(self, n)
        return n


def keep(program, n):
    program.last = n


def test_what_is_set_on_the_program_and_is_no_state_fails_the_epoch(tmp_path):
    run = Simulated(compile_program(Sets), tmp_path, 2)
    with pytest.raises(EpochError) as refused:
        run.epoch([("go", (1,))])
    assert refused.value.code == "MP442"
    assert refused.value.found == "last"


def test_a_way_that_is_asked_for_is_taken_or_an_error():
    class Steps(Program):
        m = Partitioned(Map[str, int])

        @entry(way="steps")
        def go(self, one: str, other: str) -> None:
            self.m[one] = self.m.get(other, 0)

    class Faster(Program):
        m = Partitioned(Map[str, int])

        @entry(way="steps")
        def go(self, one: str) -> None:
            self.m[one] = 1

    class Refuses(Program):
        m = Partitioned(Map[str, int])

        @entry(way="steps")
        def go(self, one: str) -> None:
            if one in self.m:
                self.abort("twice")

    assert compile_program(Faster).graph.sequence == ()
    with pytest.raises(ProgramError) as gathered:
        compile_program(Refuses)
    assert gathered.value.code == "MP189"
    with pytest.raises(ProgramError) as ordered:
        compile_program(Steps)
    assert ordered.value.code == "MP189"
    with pytest.raises(ProgramError) as unknown:
        entry(way="fast")
    assert unknown.value.code == "MP189"


class Partly(Program):
    seen = Partial(Counter[str])
    names = Partitioned(Map[str, str])

    @entry
    def name(self, key: str, other: str) -> None:
        self.names[key] = other

    @entry
    def see(self, key: str) -> int:
        while key in self.names and self.names[key] > key:
            self.seen[key] += 1
            key = self.names[key]
        return merged(each(self.seen).get(key, 0), sum)


@pytest.mark.parametrize("partitions", [1, 3])
def test_partial_state_is_met_by_instances_and_asked_as_a_whole(partitions, tmp_path):
    run, plain = Simulated(compile_program(Partly), tmp_path, partitions), Partly()
    rows = [("name", ("a", "b")), ("name", ("b", "c")), *[("see", (key,)) for key in "abcabcaab"]]
    expected = [getattr(plain, name)(*given) for name, given in rows]
    for row in rows:
        run.epoch([row])
    assert run.replies() == {at: reply for at, reply in enumerate(expected) if rows[at][0] == "see"}


def test_rows_that_raise_are_left_out_in_sequence(tmp_path):
    class Raises(Reported):
        @entry
        def half(self, key: str) -> int:
            for other in self.counts:
                self.counts[other] //= 2
            return 10 // self.counts[key]

    run = Simulated(compile_program(Raises), tmp_path, 2, bad_rows=BadRows.DEAD_LETTER)
    halves = [("half", (key,)) for key in "baa"]
    run.epoch([("add", ("a", 8)), *halves, ("add", ("b", 1)), ("half", ("b",)), ("report", ())])
    assert run.replies() == {0: 8, 2: 2, 3: 5, 4: 1, 6: 3}
    (first, last) = run.dead_letters["half"].rows()
    assert "KeyError" in first["reason"]
    assert "ZeroDivisionError" in last["reason"]


@pytest.mark.parametrize("partitions", [1, 3])
def test_epochs_in_sequence_are_computed_again_from_their_input(partitions, tmp_path):
    rows = [[("add", (key, 1)) for key in "abc"], [("add", ("a", 2)), ("report", ()), ("add", ("d", 1))]]
    run = Simulated(compile_program(Reported), tmp_path, partitions, durability=Level.REPLAY)
    for epoch in rows:
        run.epoch(epoch)
    state = read_state(run.storage)
    run.close()
    shutil.rmtree(tmp_path / "near")
    shutil.rmtree(tmp_path / f"local-{partitions}", ignore_errors=True)
    again = Simulated(compile_program(Reported), tmp_path, partitions, durability=Level.REPLAY)
    assert again.replayed == 2
    assert read_state(again.storage) == state
