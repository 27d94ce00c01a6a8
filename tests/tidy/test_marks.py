"""Every error code, crash point and reason of the protocol is met by some test, or it is said why not (R22)."""

from __future__ import annotations

import re

from tests.tidy.test_documented import codes_used
from tests.tidy.tree import ROOT, modules, texts

CODE = re.compile(r"MP\d{3}")

UNMET = {
    "MP136": "a statement under two keys is taken apart before this is looked at; it guards against our own faults",
    "MP433": "no task of a job with rows reports: only a fault of Spark's gets there",
    "MP435": "Spark names a query before its first batch",
    "MP515": "needs two feeds on Spark, one ordered and one not",
}
"""Codes that no test meets, and why."""


def codes_met() -> set[str]:
    """Codes that tests name, in their text or in the name of a golden case."""
    tests = (text for path, text in texts() if path.startswith("tests/") and not path.startswith("tests/tidy/"))
    told = {code for text in tests for code in CODE.findall(text)}
    golden = {code for path in (ROOT / "tests" / "golden").rglob("*.txt") for code in CODE.findall(path.name)}
    return told | golden


def test_every_error_code_is_met_by_a_test():
    used = set().union(*(codes_used(module) for module in modules("millpond")))
    assert sorted(used - codes_met() - UNMET.keys()) == []


def test_codes_that_are_said_to_be_unmet_are():
    used = set().union(*(codes_used(module) for module in modules("millpond")))
    assert sorted(UNMET.keys() & codes_met()) == []
    assert sorted(UNMET.keys() - used) == []


def test_every_crash_point_is_visited_and_every_reason_is_reached():
    """These tests take the lists from the code, and fail if a point is not reached: here it is seen that they do."""
    kill = (ROOT / "tests/crash/test_points.py").read_text(encoding="utf-8")
    assert "assert {case.point for case in CASES} == set(POINTS)" in kill
    assert "assert {one.values[0].point for one in one_each()} == set(POINTS)" in kill
    assert '@pytest.mark.parametrize("case", one_each(), ids=str)' in kill
    assert 'assert ended == -signal.SIGKILL or occurrence > 1, "the point was not passed"' in kill
    machine = (ROOT / "tests/unit/checkpoint/commit/test_machine_exhaustive.py").read_text(encoding="utf-8")
    assert "assert reached == set(Reason)" in machine
