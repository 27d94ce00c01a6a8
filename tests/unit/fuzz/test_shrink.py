from __future__ import annotations

from tests.fuzz.compare import Outcome, Verdict
from tests.fuzz.shrink import Case, shrink

TEXT = """
class Sample(Program):

    @entry
    def one(self, a: int) -> int:
        t = 1
        if a > 2:
            for x in range(3):
                self.bad(a + 5, [1, 2])
                t += x
        else:
            t = 5
        return t

    @entry
    def two(self, a: int) -> int:
        return a
"""
ROWS = (("one", (1,)), ("two", (2,)), ("one", (3,)), ("two", (4,)))


def bad_call(case: Case) -> Outcome:
    """Fails while the call is there, and a row for it."""
    compile(case.text, "sample", "exec")
    if "self.bad(" in case.text and any(name == "one" for name, _ in case.rows):
        return Outcome(Verdict.MISMATCH, what="replies", expected="1", found="2")
    return Outcome(Verdict.SAME)


def test_what_does_not_matter_is_removed():
    case, outcome = shrink(Case(TEXT, ROWS, 1), bad_call)
    assert outcome.verdict is Verdict.MISMATCH
    assert len(case.rows) == 1
    assert "def two" not in case.text
    assert "for" not in case.text
    assert "if" not in case.text
    assert "return" not in case.text
    assert "[1, 2]" not in case.text
    assert case.text.count("self.bad(") == 1


def test_a_failure_of_another_kind_is_not_followed():
    def run(case: Case) -> Outcome:
        if "def two" not in case.text:
            return Outcome(Verdict.CRASH, "KeyError", "the compiler failed")
        return bad_call(case)

    case, outcome = shrink(Case(TEXT, ROWS, 1), run)
    assert "def two" in case.text
    assert outcome.verdict is Verdict.MISMATCH


def test_the_number_of_tries_is_limited():
    tried = []

    def run(case: Case) -> Outcome:
        tried.append(case)
        return bad_call(case)

    shrink(Case(TEXT, ROWS, 1), run, tries=10)
    assert len(tried) <= 11


def test_a_program_that_no_longer_runs_is_no_smaller_failure():
    def run(case: Case) -> Outcome:
        if "t = 1" not in case.text:
            raise NameError("t")
        return bad_call(case)

    case, _ = shrink(Case(TEXT, ROWS, 1), run)
    assert "t = 1" in case.text


def test_a_text_that_is_no_python_is_told_as_it_is():
    case, outcome = Case("class P(", (), 1), Outcome(Verdict.CRASH, "SyntaxError")
    assert shrink(case, lambda _: outcome) == (case, outcome)
