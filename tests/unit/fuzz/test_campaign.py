from __future__ import annotations

import itertools
import json
import time

import pytest

from tests.fuzz import campaign as campaigns
from tests.fuzz.campaign import Campaign, case_of, run, run_one
from tests.fuzz.compare import Outcome, Verdict
from tests.fuzz.programs import main
from tests.fuzz.shrink import Case

pytestmark = pytest.mark.slow


def verdicts(monkeypatch, *outcomes: Outcome) -> None:
    """Every program ends as told, over and over."""
    monkeypatch.setattr(campaigns, "run_one", lambda case: outcomes[len(case.text) % len(outcomes)])


def last_line(capsys) -> dict[str, object]:
    found: dict[str, object] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


def test_a_campaign_counts_what_it_finds(monkeypatch):
    verdicts(monkeypatch, Outcome(Verdict.REFUSED, "MP150"))
    report = run(Campaign(seed=3, count=5), lambda _: None)
    told = report.as_json()
    assert (told["programs"], told["refused"], told["mismatches"], told["seed"]) == (5, 5, 0, 3)
    assert told["refused_by_code"] == {"MP150": 5}
    assert told["refusal_rate"] == 1.0
    assert not report.failed


def test_the_command_prints_json_last_and_fails_on_a_mismatch(monkeypatch, capsys):
    verdicts(monkeypatch, Outcome(Verdict.SAME, rows=20))
    assert main(["--count", "3", "--seed", "9"]) == 0
    assert last_line(capsys).items() >= {"programs": 3, "seed": 9, "mismatches": 0}.items()
    verdicts(monkeypatch, Outcome(Verdict.MISMATCH, what="replies", expected="right", found="wrong"))
    monkeypatch.setattr(campaigns, "told", lambda campaign, number: f"program {number} is wrong")
    assert main(["--count", "2"]) == 1
    assert "program 1 is wrong" in capsys.readouterr().out


def test_a_crash_of_the_compiler_fails_a_campaign(monkeypatch, capsys):
    verdicts(monkeypatch, Outcome(Verdict.CRASH, "KeyError"))
    monkeypatch.setattr(campaigns, "told", lambda campaign, number: "")
    assert main(["--count", "1"]) == 1
    assert last_line(capsys)["crashes"] == 1


def test_a_failure_is_told_with_its_seed_the_small_program_and_its_rows(monkeypatch):
    verdicts(monkeypatch, Outcome(Verdict.MISMATCH, what="replies", expected="right", found="wrong"))
    said: list[str] = []
    run(Campaign(seed=4, count=1), said.append)
    assert "--seed 4 --only 0" in said[1]
    for part in ("--- as generated", "--- small", "--- rows", "right", "wrong"):
        assert part in said[1]


def test_one_program_can_be_repeated(capsys):
    assert main(["--seed", "7", "--only", "3"]) in (0, 1)
    shown = capsys.readouterr().out
    assert case_of(7, 3).text.split("class Random")[1].strip() in shown
    assert case_of(7, 3) == case_of(7, 3)
    assert case_of(7, 3) != case_of(7, 4)


def test_a_campaign_stops_when_its_time_is_over(monkeypatch):
    verdicts(monkeypatch, Outcome(Verdict.SAME))
    assert run(Campaign(seed=1, count=50, seconds=0.0), lambda _: None).programs == 1


def test_a_run_that_does_not_end_is_a_crash(monkeypatch):
    monkeypatch.setattr(Case, "run", lambda self: sum(1 for _ in itertools.count()))
    assert run_one(Case("", (), 1), seconds=1).code == "timeout"


def test_a_run_that_waits_for_ever_is_a_crash_and_one_that_only_waits_long_is_none(monkeypatch):
    monkeypatch.setattr(campaigns, "WAITED_TIMES_MAX", 1)
    monkeypatch.setattr(Case, "run", lambda self: time.sleep(600))
    assert run_one(Case("", (), 1), seconds=1).code == "timeout"
    monkeypatch.setattr(campaigns, "WAITED_TIMES_MAX", 200)
    monkeypatch.setattr(Case, "run", lambda self: time.sleep(1.2) or Outcome(Verdict.SAME))
    assert run_one(Case("", (), 1), seconds=1).verdict is Verdict.SAME


def test_a_failure_that_is_not_repeated_is_counted_and_told(monkeypatch):
    outcomes = iter([Outcome(Verdict.CRASH, "timeout", "the run does not end"), Outcome(Verdict.SAME)])
    monkeypatch.setattr(campaigns, "run_one", lambda case: next(outcomes))
    said = []
    report = run(Campaign(seed=3, count=1), said.append)
    assert (report.crashes, report.failures) == (1, [0])
    assert "the run does not end" in said[0]
    assert "same" in said[1]


def test_a_fault_of_the_comparison_is_not_passed_over(monkeypatch):
    def fail(self):
        raise OSError("no space")

    monkeypatch.setattr(Case, "run", fail)
    outcome = run_one(Case("", (), 1))
    assert (outcome.verdict, outcome.code) == (Verdict.CRASH, "OSError")


@pytest.mark.slow
def test_several_processes_give_the_same_report():
    one = run(Campaign(seed=11, count=8), lambda _: None)
    two = run(Campaign(seed=11, count=8, workers=2), lambda _: None)
    assert {**one.as_json(), "seconds": 0} == {**two.as_json(), "seconds": 0}
