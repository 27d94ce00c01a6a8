"""Transactional programs give what plain Python gives, each row all or nothing; and the campaign finds faults."""

from __future__ import annotations

import pytest

from millpond.compiler.compile import compile_program
from millpond.engine.task.ordering import Places
from millpond.graph.model import Dispatch
from tests.fuzz.campaign import run_one
from tests.fuzz.compare import Verdict
from tests.fuzz.loading import program_in
from tests.fuzz.transactions.campaign import TransactionReport, case_of, told, world_case
from tests.fuzz.transactions.worlds import WORLDS
from tests.sizes import sized, some_of

SEED = 20_261_117
PROGRAMS = some_of(100)
PARTS = 2
REFUSED_MAX = 0.15
WORLD_SEEDS = 3
WORLD_ROWS = 80


@pytest.mark.parametrize("name", WORLDS)
def test_every_entry_point_of_a_world_but_lone_ones_runs_gathered(name):
    entries = compile_program(program_in(WORLDS[name])).entries
    lone = {entry for entry, compiled in entries.items() if compiled.tasks[0].dispatch is not Dispatch.GATHERED}
    assert lone == ({"open"} if name == "matching" else set())


@pytest.mark.parametrize("seed", range(sized(2, 1)))
@pytest.mark.parametrize("name", WORLDS)
def test_a_world_does_what_plain_python_does(name, seed):
    check(name, seed, WORLD_ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_worlds_with_many_seeds_do_what_plain_python_does(name):
    for seed in range(100, 100 + WORLD_SEEDS):
        check(name, seed, WORLD_ROWS)


def check(name: str, seed: int, rows: int) -> None:
    case = world_case(name, seed, rows)
    outcome = run_one(case)
    assert not outcome.failed, told(case, f"{name}, seed {seed}")
    assert outcome.verdict is Verdict.SAME, outcome.found
    assert outcome.aborted > 0, "rows that are refused are part of every world"
    assert outcome.raised > 0, "and rows that raise"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_random_transactions_do_what_plain_python_does(part):
    report = TransactionReport(SEED)
    for number in range(part, PROGRAMS, PARTS):
        report.take(number, run_one(case_of(SEED, number)))
    assert not report.failed, told(case_of(SEED, report.failures[0]), f"program {report.failures[0]} of seed {SEED}")
    assert report.refused <= REFUSED_MAX * report.programs, report.refused_by_code
    assert report.programs_gathered > 0.6 * report.programs
    assert min(report.aborted, report.raised) > 0.6 * report.programs


@pytest.mark.campaign
def test_rows_that_run_in_the_order_of_their_arrival_are_found_and_made_small(monkeypatch):
    monkeypatch.setattr(Places, "sorting", lambda self: None)
    for number in range(60):
        case = case_of(SEED, number)
        outcome = run_one(case)
        if outcome.failed:
            break
    assert outcome.verdict is Verdict.MISMATCH
    text = told(case, "x")
    assert "--- small" in text
    small = text.split("--- small")[1].split("--- rows")[0]
    assert len(small) < len(case.text)
