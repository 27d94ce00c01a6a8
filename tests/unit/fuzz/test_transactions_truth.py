"""The truth of all-or-nothing rows, and the comparison that holds runs against it."""

from __future__ import annotations

import pytest

from millpond import Aborted, Map, Partitioned, Program, Value, entry
from millpond.engine.plan import BadRows
from millpond.engine.simulated import Simulated
from millpond.errors import ProgramError
from millpond.keygroups import Layout
from tests.fuzz import compare as compiling
from tests.fuzz.compare import Verdict
from tests.fuzz.helpers import HEAD
from tests.fuzz.loading import loaded
from tests.fuzz.transactions.compare import compare
from tests.fuzz.transactions.truth import UndoneError, called, state_of, truth_of

LAYOUT = Layout(16, 1, 4, aligned=False)

MOVES = """
class Moves(Program):
    m = Partitioned(Map[int, int])

    @entry
    def go(self, a: int, b: int, n: int) -> int:
        self.m[a] = self.m.get(a, 10) - n
        if self.m[a] < 0:
            self.abort(f"{a} lacks {-self.m[a]}")
        self.m[b] = self.m.get(b, 10) + n
        return self.m[a] + 100 // (n - 3)
"""
ROWS = [("go", row) for row in [(1, 2, 4), (2, 1, 3), (1, 3, 8), (3, 3, 5), (3, 1, 14), (2, 4, 2**62), (4, 5, 1)]]


class Kept(Program):
    m = Partitioned(Map[int, list[int]])
    last = Partitioned(Value[int])

    @entry
    def put(self, keys: list[int], fail: str) -> int:
        for key in keys:
            self.m.setdefault(key, []).append(len(keys))
        self.last.set(len(keys))
        keys.clear()
        if fail == "abort":
            self.abort("told to")
        if fail == "raise":
            raise ValueError("told to")
        return sum(len(self.m[key]) for key in (1, 2) if key in self.m)


def kept(*rows):
    return truth_of(Kept, [("put", row) for row in rows], LAYOUT)


def test_rows_that_raise_or_are_refused_leave_no_trace():
    alone = kept(([1, 2], ""), ([2], ""))
    mixed = kept(([1, 2], ""), ([1, 3], "raise"), ([2, 2], "abort"), ([2], ""), ([9], "raise"))
    assert mixed.state == alone.state
    assert mixed.replies == {0: "2", 3: "3"}
    assert mixed.aborted == {2: "told to"}
    assert mixed.raised == {1: "ValueError", 4: "ValueError"}


def test_arguments_are_not_changed_by_the_method():
    row = ("put", ([1, 2], ""))
    called(Kept(), row)
    assert row == ("put", ([1, 2], ""))


def test_rows_that_no_column_could_hold_are_not_fed():
    with loaded(HEAD + MOVES) as program:
        truth = truth_of(program, [("go", (1, 2, -(2**63))), ("go", (1, 2, 4))], LAYOUT)
    assert (truth.unfit, truth.rows) == (1, [("go", (1, 2, 4))])


def test_a_plain_instance_that_does_not_undo_is_found(monkeypatch):
    class Careless(Kept):
        """Undoes nothing."""

    def abort(self, reason):
        self.m[77] = [1]
        dict.__setitem__(vars(self)["m"], 78, [1])
        raise Aborted(reason)

    monkeypatch.setattr(Careless, "abort", abort)
    with pytest.raises(UndoneError, match="left something changed"):
        truth_of(Careless, [("put", ([1], "abort"))], LAYOUT)


def test_the_state_has_the_bytes_of_a_checkpoint(tmp_path):
    plain = Kept()
    plain.put([3, 1], "")
    from millpond.checkpoint.recovery import read_state
    from millpond.compiler.compile import compile_program

    run = Simulated(compile_program(Kept), tmp_path, 2, 16, 4, bad_rows=BadRows.FAIL)
    run.epoch([("put", ([3, 1], ""))])
    assert state_of(plain, LAYOUT) == read_state(run.storage)


def test_a_right_program_is_the_same_both_ways():
    outcome = compare(HEAD + MOVES, ROWS, seed=1)
    assert outcome.verdict is Verdict.SAME, outcome
    assert (outcome.rows, outcome.raised, outcome.aborted, outcome.gathered) == (7, 1, 3, 1)


@pytest.mark.parametrize(
    ("right", "wrong", "what"),
    [
        ("self.m[a] < 0", "self.m[a] < 7", "replies"),
        ("lacks", "wants", "refusals"),
        ("return self.m[a] + 100", "return self.m[a] + 101", "replies"),
        ("(n - 3)", "(n - 3 or 1)", "replies"),
        ("        return", "        self.m[99] = 1\n        return", "state"),
        ("100 // (n - 3)", "{1: -50, 4: 100, 5: 50}[n]", "dead letters"),
    ],
)  # fmt: skip
def test_another_graph_is_a_mismatch(monkeypatch, right, wrong, what):
    honest = compiling.compile_program

    def compile_wrong(program):
        changed = MOVES.replace(right, wrong)
        assert changed != MOVES
        with loaded(HEAD + changed) as other:
            return honest(other)

    monkeypatch.setattr(compiling, "compile_program", compile_wrong)
    found = {compare(HEAD + MOVES, ROWS, seed).what for seed in range(4)}
    assert what in found, found


def test_a_refusal_tells_its_code_and_a_failure_of_the_compiler_is_a_crash(monkeypatch):
    text = HEAD + "\nclass Bad(Program):\n    @entry\n    def bad(self, a: int) -> None:\n        self.x = a\n"
    assert compare(text, [("bad", (1,))], 1).verdict is Verdict.REFUSED

    def fail(program):
        raise KeyError("x")

    monkeypatch.setattr(compiling, "compile_program", fail)
    assert compare(text, [], 1).verdict is Verdict.CRASH

    def refuse(program):
        raise ProgramError("MP150", "somewhere")

    monkeypatch.setattr(compiling, "compile_program", refuse)
    assert compare(text, [], 1).verdict is Verdict.CRASH
