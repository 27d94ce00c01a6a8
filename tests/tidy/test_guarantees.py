"""The table of promises is true: its tests and campaigns are there, and every campaign has a promise that it holds."""

from __future__ import annotations

import ast
import re
import tomllib

from tests.crash import test_fuzz, test_kill_wide, test_points
from tests.mutants.faults import MUTANTS
from tests.tidy.tree import ROOT

TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
CAMPAIGN = re.compile(r"`(\w+)`(?:: ([\d,]+) (?:runs|programs))?")
COUNT = "--count"


def rows(page: str) -> list[list[str]]:
    """The cells of the table, without its head."""
    table = page.partition("## At a glance")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def functions(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


PAGE = (ROOT / "docs" / "GUARANTEES.md").read_text(encoding="utf-8")
CAMPAIGNS = tomllib.loads((ROOT / "scripts" / "campaigns.toml").read_text(encoding="utf-8"))


def test_every_row_names_a_promise_a_test_that_exists_and_its_tries():
    found = rows(PAGE)
    assert len(found) > 10
    for promise, test, tries, _ in found:
        named = TEST.findall(test)
        assert named, promise
        assert [name for path, name in named if not (ROOT / path).exists() or name not in functions(path)] == [], (
            promise
        )
        assert tries, promise


def test_every_promise_of_the_page_has_a_row():
    promised = set(re.findall(r"^\*\*(P\d+)\. ", PAGE, re.MULTILINE))
    assert promised <= {re.match(r"P?\w+", promise)[0] for promise, *_ in rows(PAGE)}


def test_every_campaign_is_named_with_its_number_of_tries():
    told = [CAMPAIGN.match(cell) for *_, cell in rows(PAGE) if cell]
    assert {match[1] for match in told} == set(CAMPAIGNS)
    for match in told:
        words = CAMPAIGNS[match[1]]["run"]
        if match[2] and COUNT in words:
            assert match[2].replace(",", "") == words[words.index(COUNT) + 1], match[1]


def test_numbers_that_can_be_counted_are_those_of_the_tests():
    many, storages = 3 * len(test_points.CASES), len(test_kill_wide.BACKENDS)
    told = [
        f"| {len(test_points.one_each())} kills at named points |",
        f"| `marked`: {many} kills, and 750 by the clock on each of {storages} storages |",
        f"[{len(test_points.POINTS)} named points]",
        f"| {len(test_fuzz.KINDS)} readers |",
        f"[more than {len(MUTANTS) // 50 * 50} ways]",
    ]
    assert [words for words in told if words not in PAGE] == []


DRAWN = re.compile(r"^(?:RUNS|PROGRAMS) = some_of\((\d+)\)$", re.MULTILINE)
TRIES = re.compile(r"(\d+) (?:runs|programs)")


def test_what_a_run_of_all_tests_draws_is_two_fifths_of_what_a_campaign_does():
    counted = 0
    for promise, test, tries, _ in rows(PAGE):
        for path, _ in TEST.findall(test):
            drawn = DRAWN.search((ROOT / path).read_text(encoding="utf-8"))
            if drawn:
                assert TRIES.match(tries)[1] == str(int(drawn[1]) * 2 // 5), promise
                counted += 1
    assert counted >= 4
