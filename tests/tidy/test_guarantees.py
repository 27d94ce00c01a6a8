"""The table of promises is true: its tests and campaigns are there, and every campaign has a promise that it holds."""

from __future__ import annotations

import ast
import re
import tomllib

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
