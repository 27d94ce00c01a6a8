"""Errors that do not follow from each other are all found, and none where a program compiles."""

from __future__ import annotations

import pytest

from millpond.compiler.independent import independent_errors
from tests.golden.programs import load, program_in
from tests.golden.test_golden import CASES, names, sections

FINE = [case for case in CASES if case.parent.name != "errors"]
REFUSED = [case for case in CASES if case.parent.name == "errors"]


@pytest.mark.parametrize("case", FINE, ids=names)
def test_a_program_that_compiles_has_none(case, tmp_path):
    assert independent_errors(program_in(load(sections(case.read_text("utf-8"))["program"], tmp_path))) == []


@pytest.mark.parametrize("case", REFUSED, ids=names)
def test_what_is_found_alone_is_what_the_compiler_says(case, tmp_path):
    parts = sections(case.read_text("utf-8"))
    found = independent_errors(program_in(load(parts["program"], tmp_path)))
    assert {error.code for error in found} <= {parts["error"].partition(" ")[0]}


def test_each_statement_is_looked_at_by_itself(tmp_path):
    body = """
class P(Program):
    a = Partitioned(Map[int, int])

    def _helper(self, x: int) -> int:
        while x:
            self.y = 1
        return self.nothing

    @entry
    def go(self, x: int) -> None:
        if hash(x):
            self.z = 1
        elif id(x):
            try:
                b = self.a
            except open(x):
                exec("x")
        self._helper(x)
"""
    errors = independent_errors(program_in(load(body, tmp_path)))
    assert [error.code for error in errors] == ["MP114", "MP115", "MP117", "MP114", "MP117", "MP117", "MP117"]
