"""Random programs give what plain Python gives, and the campaign that says so can find what is wrong."""

from __future__ import annotations

import ast

import pytest

from millpond.engine.task.ordering import Places
from tests.fuzz.campaign import Campaign, Report, case_of, run_one, told
from tests.fuzz.compare import Outcome, Verdict
from tests.fuzz.shrink import shrink
from tests.sizes import some_of

SEED = 20_261_116
PROGRAMS = some_of(180)
PARTS = 3
REFUSED_MAX = 0.15
"""Of a part, which is small; a whole campaign is to stay under 0.10."""
FAULTY_MAX = 60


def programs_of(part: int) -> range:
    return range(part, PROGRAMS, PARTS)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs_do_what_plain_python_does(part):
    report = Report(SEED)
    for number in programs_of(part):
        report.take(number, run_one(case_of(SEED, number)))
    assert not report.failed, told(Campaign(SEED, PROGRAMS), report.failures[0])
    assert report.refused <= REFUSED_MAX * report.programs, report.refused_by_code
    assert all(code.startswith("MP1") or code == "MP601" for code in report.refused_by_code)


def first_failure() -> tuple[int, Outcome]:
    for number in range(FAULTY_MAX):
        outcome = case_of(SEED, number).run()
        if outcome.failed:
            return number, outcome
    pytest.fail(f"no failure in {FAULTY_MAX} programs")


@pytest.mark.slow
def test_rows_that_run_in_the_order_of_their_arrival_are_found_and_made_small(monkeypatch):
    monkeypatch.setattr(Places, "sorting", lambda self: None)
    number, outcome = first_failure()
    assert outcome.verdict is Verdict.MISMATCH
    whole = case_of(SEED, number)
    small, found = shrink(whole, tries=100)
    assert found.verdict is Verdict.MISMATCH
    assert found.expected != found.found
    assert len(small.rows) < len(whole.rows)
    assert statements_in(small.text) < statements_in(whole.text)


def statements_in(text: str) -> int:
    return sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(text)))
