"""Every fault made by hand is seen by the test that is named for it: the tests are tested (R21)."""

from __future__ import annotations

import re

import pytest

from tests.mutants.faults import MUTANTS
from tests.mutants.mutant import CAUGHT, MISSED, ROOT, changed, copy_project, run_test, source_of, try_mutant

QUICK = {
    "files: a rename in place of the link, so the last writer wins",
    "machine: a gap between batches is not seen",
    "snapshots: one that leaves out a key group is named",
}
"""Some of the cheapest are tried with every run of all tests; all of them in `make mutants`."""


def test_there_are_mutants_of_many_kinds():
    assert len(MUTANTS) > 150
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)
    assert {name for one in MUTANTS for name in [one.name] if name in QUICK} == QUICK


@pytest.mark.parametrize("one", MUTANTS, ids=str)
def test_the_place_of_a_mutant_is_still_there_once_and_its_test_exists(one):
    assert changed(one) != source_of(one)
    compile(changed(one), one.module, "exec")
    file, _, rest = one.test.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    function = rest.partition("[")[0]
    assert not function or re.search(rf"^def {function}\(", text, re.MULTILINE), one.test


@pytest.mark.parametrize(
    "one",
    [pytest.param(one, marks=pytest.mark.slow if one.name in QUICK else pytest.mark.campaign) for one in MUTANTS],
    ids=str,
)
def test_a_mutant_is_caught_by_its_test(one, tmp_path):
    ended, said = try_mutant(tmp_path / "copy", one)
    assert ended == CAUGHT, f"pytest ended with {ended}\n{said}"


@pytest.mark.campaign
def test_without_a_fault_none_of_these_tests_fails(tmp_path):
    copy_project(tmp_path / "copy")
    ended, said = run_test(tmp_path / "copy", *sorted({one.test for one in MUTANTS}))
    assert ended == MISSED, said
