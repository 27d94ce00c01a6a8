"""The programs of docs/EXACTNESS.md give the numbers that stand below them, on every runtime that needs no Spark."""

from __future__ import annotations

import copy
import re
import runpy
from dataclasses import dataclass
from pathlib import Path

import pytest

from millpond import Aborted, MillpondError, Program
from millpond.compiler.compile import compile_program
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.graph.model import Dispatch
from tests.sizes import sized

PAGE = (Path(__file__).parents[3] / "docs" / "EXACTNESS.md").read_text(encoding="utf-8")
CASE = re.compile(r"```python (exact|gathered|sequence|relaxed \w+)\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
CASES = [
    pytest.param(*case, id=f"{re.search(r'class (.+)[(]', case[1])[1]}-{case[0].replace(' ', '-')}")
    for case in CASE.findall(PAGE)
]

IMPORTS = "from millpond import Counter, Map, Partitioned, Program, entry\n\n"


def loaded(code, folder):
    """The program of a block, and its epochs."""
    path = folder / "exactness.py"
    path.write_text(IMPORTS + code, encoding="utf-8")
    names = runpy.run_path(str(path))
    (program,) = [
        value
        for value in names.values()
        if isinstance(value, type) and issubclass(value, Program) and value is not Program
    ]
    return program, names["EPOCHS"]


@dataclass(frozen=True)
class Refused:
    """The reply of a row that its program refused."""

    reason: str

    def __repr__(self):
        return f"refused({self.reason!r})"


def told(replies):
    return " ".join(map(str, replies))


def plain(program, epochs):
    held = program()

    def call(name, arguments):
        try:
            return getattr(held, name)(*copy.deepcopy(arguments))
        except Aborted as refused:
            return Refused(refused.reason)

    return [[call(*row) for row in epoch] for epoch in epochs]


def in_steps(program, epochs):
    reference = Sequential(compile_program(program))
    replies = [reference.epoch(epoch) for epoch in epochs]
    return [[Refused(reply.reason) if isinstance(reply, Aborted) else reply for reply in epoch] for epoch in replies]


def simulated(program, epochs, folder, partitions, steps_max):
    """Replies by epoch, and how many commits they took."""
    run = Simulated(compile_program(program), folder, partitions, steps_max=steps_max)
    committed = 0
    for epoch in epochs:
        committed = run.epoch(epoch).manifest.epoch
    found = run.replies() | {number: Refused(reason) for number, reason in run.refusals().items()}
    numbers = iter(range(sum(map(len, epochs))))
    return [[found.get(next(numbers)) for _ in epoch] for epoch in epochs], committed


def test_every_program_of_the_page_is_run():
    assert len(CASES) == PAGE.count("```python") == PAGE.count("```text")
    assert {case.values[0].split()[0] for case in CASES} == {"exact", "gathered", "sequence", "relaxed"}


@pytest.mark.parametrize(("kind", "code", "numbers"), CASES)
def test_the_numbers_are_those_of_the_plain_class_and_of_the_reference_interpreter(kind, code, numbers, tmp_path):
    program, epochs = loaded(code, tmp_path)
    alone = [[row] for epoch in epochs for row in epoch]
    ways = {
        "plain": lambda: plain(program, epochs),
        "in steps": lambda: in_steps(program, epochs),
        "alone": lambda: in_steps(program, alone),
    }
    lines = [re.split(r"\s{2,}", line, maxsplit=1) for line in numbers.splitlines()]
    assert [name for name, _ in lines[:2]] == ["plain", "in steps"]
    assert {name: told(ways[name]()) for name, _ in lines} == dict(lines)


@pytest.mark.parametrize(("kind", "code", "numbers"), CASES)
def test_exact_programs_equal_the_class_and_relaxed_ones_show_the_difference(kind, code, numbers, tmp_path):
    program, epochs = loaded(code, tmp_path)
    assert (in_steps(program, epochs) == plain(program, epochs)) is (not kind.startswith("relaxed"))


@pytest.mark.parametrize(("kind", "code", "numbers"), CASES)
def test_a_program_runs_in_the_way_that_the_page_says(kind, code, numbers, tmp_path):
    entries = compile_program(loaded(code, tmp_path)[0]).entries.values()
    ways = {entry.tasks[0].dispatch for entry in entries}
    assert (Dispatch.SEQUENCE in ways) is (kind == "sequence")
    assert (ways == {Dispatch.GATHERED}) is (kind == "gathered")
    assert any(entry.point.relaxed for entry in entries) is kind.startswith("relaxed")


@pytest.mark.parametrize(("kind", "code", "numbers"), CASES)
def test_a_row_alone_in_its_epoch_gives_what_the_class_gives(kind, code, numbers, tmp_path):
    program, epochs = loaded(code, tmp_path)
    alone = [[row] for epoch in epochs for row in epoch]
    assert in_steps(program, alone) == plain(program, alone)


@pytest.mark.parametrize("steps_max", sized([1, 2, 8], [2]))
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize(("kind", "code", "numbers"), CASES)
def test_partitions_and_step_budgets_are_not_seen(kind, code, numbers, partitions, steps_max, tmp_path):
    program, epochs = loaded(code, tmp_path)
    replies, _ = simulated(program, epochs, tmp_path, partitions, steps_max)
    assert replies == in_steps(program, epochs)


def test_a_small_budget_makes_several_commits_of_one_epoch(tmp_path):
    code = next(case.values[1] for case in CASES if case.id.startswith("Tree"))
    program, epochs = loaded(code, tmp_path)
    commits = [simulated(program, epochs, tmp_path / f"{steps}", 2, steps)[1] for steps in (2, 8)]
    assert commits[0] > commits[1] == len(epochs)


class Killed(Exception):  # noqa: N818 - not an error but the end of a process
    """The driver died."""


class KilledBetween(Simulated):
    """Dies after the first commit of an epoch that leaves messages."""

    def compute_messages(self, left, request):
        raise Killed


def interrupted(folder, partitions):
    """The program of a loop, its last epoch, and a run that died in the middle of it."""
    code = next(case.values[1] for case in CASES if case.id.startswith("Tree"))
    program, (before, epoch) = loaded(code, folder)
    run = KilledBetween(compile_program(program), folder, partitions, steps_max=1)
    run.epoch(before)
    with pytest.raises(Killed):
        run.epoch(epoch)
    return program, before, epoch


@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_messages_that_are_left_survive_a_crash_and_another_number_of_partitions(partitions, tmp_path):
    program, before, epoch = interrupted(tmp_path, 3)
    again = Simulated(compile_program(program), tmp_path, partitions, steps_max=2)
    replies = in_steps(program, [before, epoch])[1]
    asked = {len(before) + number: reply for number, reply in enumerate(replies) if reply is not None}
    assert again.replies() == asked
    # What they did is done: the next epoch begins.
    again.epoch([("root", ("b",))])
    assert again.replies() == {**asked, len(before) + len(epoch): "x"}


def test_a_changed_program_does_not_touch_what_another_one_left(tmp_path):
    interrupted(tmp_path, 2)
    code = next(case.values[1] for case in CASES if case.id.startswith("Tree")).replace("node", "leaf")
    program, _ = loaded(code, tmp_path)
    with pytest.raises(MillpondError) as caught:
        Simulated(compile_program(program), tmp_path, 2)
    assert caught.value.code == "MP417"


RELAXED = [case for case in CASES if case.values[0].startswith("relaxed")]


@pytest.mark.parametrize(("kind", "code", "numbers"), RELAXED)
def test_without_relaxing_the_program_is_exact_gathered_or_in_sequence_as_the_page_says(kind, code, numbers, tmp_path):
    program, epochs = loaded(code.replace("@entry(relaxed=True)", "@entry"), tmp_path)
    assert in_steps(program, epochs) == plain(program, epochs)
    assert simulated(program, epochs, tmp_path, 3, 8)[0] == plain(program, epochs)
    graph = compile_program(program).graph
    assert bool(graph.sequence if kind.endswith("sequence") else graph.gathered)
