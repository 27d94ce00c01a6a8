"""Campaigns find what is wrong, make it small, say how to repeat it, and end with a code that tells of it."""

from __future__ import annotations

import ast
import importlib.util
import json

import pytest

from tests.fuzz.compare import Outcome, Verdict
from tests.property import campaign as property_campaign
from tests.tidy.tree import ROOT
from tests.values import campaign as values_campaign

WRONG = Outcome(Verdict.MISMATCH, what="something", expected="this", found="that")


def crash(monkeypatch, path, *words):
    """The campaigns of a file, run as `make crash` does."""
    spec = importlib.util.spec_from_file_location("crash_script", ROOT / "scripts" / "crash.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "CAMPAIGNS", path)
    return script.main(words)


def report(out: str) -> dict:
    return json.loads(out.splitlines()[-1])


@pytest.mark.parametrize("kind", property_campaign.KINDS)
def test_programs_with_oracles_of_their_own_end_well(kind, capsys):
    assert property_campaign.main([kind, "--count", "2", "--seed", "3"]) == 0
    assert sum(report(capsys.readouterr().out)["verdicts"].values()) == 2


def test_a_program_that_ends_otherwise_is_told_small_with_its_seed(monkeypatch, capsys):
    def wrong_about_lists(text, rows, seed):
        said = any(
            isinstance(node, ast.Call) and ast.unparse(node).endswith(".append(v)")
            for node in ast.walk(ast.parse(text))
        )
        return WRONG if said and rows else Outcome(Verdict.SAME)

    monkeypatch.setattr(values_campaign, "compare", wrong_about_lists)
    assert values_campaign.main(["--count", "12", "--seed", "31"]) == 1
    out = capsys.readouterr().out
    number = report(out)["failures"][0]
    assert f"repeat with: python -m tests.values --seed 31 --only {number}\n" in out
    assert "--- expected\nthis\n--- found\nthat\n" in out
    small = out.partition("--- small\n")[2].partition("--- rows")[0]
    whole = values_campaign.case_of(31, number, values_campaign.FEATURES).case.text
    assert len(small.splitlines()) < len(whole.splitlines()) / 2
    assert values_campaign.main(["--seed", "31", "--only", str(number)]) == 1


def test_windows_that_are_told_otherwise_are_made_small(monkeypatch, capsys):
    def wrong_about_nines(spec, rows, chance):
        assert all(n != 9 for _, _, n in rows), "a nine"

    monkeypatch.setattr(property_campaign, "check_case", wrong_about_nines)
    assert property_campaign.main(["chained", "--count", "3", "--seed", "8"]) == 1
    out = capsys.readouterr().out
    number = report(out)["failures"][0]
    assert f"repeat with: python -m tests.property chained --seed 8 --only {number}\n" in out
    rows = out.partition("--- rows")[2].partition("--- expected")[0].strip().splitlines()[1:]
    assert [ast.literal_eval(row.strip())[2] for row in rows] == [9]
    assert "a nine" in out


def test_a_campaign_that_finds_something_is_named_with_the_seed_and_others_run_all_the_same(
    tmp_path, monkeypatch, capfd
):
    campaigns = tmp_path / "campaigns.toml"
    finds, fine = ("import sys; print('seed', {seed}); sys.exit(1)", "print('fine', {seed})")
    campaigns.write_text(
        "".join(f'[{name}]\nholds = "x"\nrun = ["-c", "{text}"]\n' for name, text in (("bad", finds), ("good", fine)))
    )
    assert crash(monkeypatch, campaigns, "--seed", "77") == 1
    out = capfd.readouterr().out
    assert "seed 77; again with: make crash SEED=77\n" in out
    assert "seed 77\n" in out
    assert "fine 77\n" in out
    assert "campaign bad found something; again with: make crash SEED=77 ONLY=bad\n" in out
    assert crash(monkeypatch, campaigns, "--only", "good") == 0
    assert crash(monkeypatch, campaigns, "--only", "neither") == 2
