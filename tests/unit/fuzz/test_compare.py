from __future__ import annotations

import pytest

from millpond.errors import ProgramError
from tests.fuzz import compare as comparing
from tests.fuzz.compare import Cuts, Verdict, compare
from tests.fuzz.helpers import HEAD
from tests.fuzz.loading import loaded
from tests.fuzz.oracle import expect
from tests.fuzz.rows import random_rows

COUNTS = """
class Counts(Program):
    e0 = Partitioned(Counter[int])
    sum1 = Partial(Counter[int])
    max2 = Partial(Map[int, int])

    @entry
    def add(self, a: int, b: int) -> int:
        self.e0[a] += b
        self.sum1[b] += a
        self.max2[b] = max(a, self.max2.get(b, -1))
        return self.e0[a] // (b - 3)
"""
ROWS = [("add", (1, 2)), ("add", (1, 4)), ("add", (2, 3)), ("add", (1, 5)), ("add", (2**63 - 1, 0))]


def test_a_right_program_is_the_same_both_ways_and_raises_alike():
    outcome = compare(HEAD + COUNTS, ROWS, seed=1)
    assert (outcome.verdict, outcome.rows, outcome.raised) == (Verdict.SAME, 4, True)


def test_rows_that_raise_are_taken_out_as_if_they_had_never_been():
    with loaded(HEAD + COUNTS) as program:
        expected = expect(program, ROWS)
    assert expected.rows == [ROWS[0], ROWS[1], ROWS[3], ROWS[4]]
    assert expected.raises == [ROWS[2]]
    assert expected.replies == {0: "-2", 1: "6", 2: "5", 3: "0"}


def test_rows_whose_reply_fits_no_column_are_taken_out():
    text = HEAD + "\nclass Big(Program):\n    @entry\n    def big(self, a: int) -> int:\n        return a * 2\n"
    with loaded(text) as program:
        expected = expect(program, [("big", (1,)), ("big", (2**63 - 1,))])
    assert (expected.rows, expected.raises, expected.unfit) == ([("big", (1,))], [], 1)


def test_a_relaxed_step_that_leaves_what_no_checkpoint_holds_is_nothing_to_compare():
    text = (
        HEAD
        + """
class Between(Program):
    e0 = Partitioned(Counter[int])

    @entry(relaxed=True)
    def take(self, a: int) -> None:
        self.e0[1] -= a
        self.e0[2] = 0
        self.e0[1 % 4] = 1
"""
    )
    rows = [("take", (3,)), ("take", (2**63 - 1,))]
    assert {compare(text, rows, seed).rows for seed in range(8)} == {0, 2}


def test_a_refusal_tells_its_code():
    text = HEAD + "\nclass Bad(Program):\n    @entry\n    def bad(self, a: int) -> None:\n        self.x = a\n"
    outcome = compare(text, [("bad", (1,))], seed=1)
    assert (outcome.verdict, outcome.code, outcome.failed) == (Verdict.REFUSED, "MP114", False)


def test_a_failure_of_the_compiler_is_a_crash(monkeypatch):
    def fail(program):
        raise KeyError("x")

    monkeypatch.setattr(comparing, "compile_program", fail)
    outcome = compare(HEAD + COUNTS, ROWS, seed=1)
    assert (outcome.verdict, outcome.code, outcome.failed) == (Verdict.CRASH, "KeyError", True)


def test_a_refusal_without_a_place_is_a_crash(monkeypatch):
    def refuse(program):
        raise ProgramError("MP150", "somewhere")

    monkeypatch.setattr(comparing, "compile_program", refuse)
    assert compare(HEAD + COUNTS, ROWS, seed=1).verdict is Verdict.CRASH


@pytest.mark.parametrize(
    ("fault", "what"),
    [("self.e0[a] += b", "replies"), ("self.sum1[b] += a", "state"), ("max(a, self.max2.get(b, -1))", "state")],
)
def test_another_graph_is_a_mismatch(monkeypatch, fault, what):
    right = comparing.compile_program

    def compile_wrong(program):
        wrong = {"self.e0[a] += b": "self.e0[a] += 1", "self.sum1[b] += a": "self.sum1[b] += 2"}
        changed = COUNTS.replace(fault, wrong.get(fault, "0"))
        assert changed != COUNTS
        with loaded(HEAD + changed) as other:
            return right(other)

    monkeypatch.setattr(comparing, "compile_program", compile_wrong)
    outcome = compare(HEAD + COUNTS, ROWS, seed=1)
    assert (outcome.verdict, outcome.what) == (Verdict.MISMATCH, what)
    assert outcome.expected != outcome.found


def test_a_row_that_should_have_raised_is_a_mismatch(monkeypatch):
    right = comparing.compile_program

    def compile_wrong(program):
        with loaded(HEAD + COUNTS.replace("// (b - 3)", "// ((b - 3) or 1)")) as other:
            return right(other)

    monkeypatch.setattr(comparing, "compile_program", compile_wrong)
    outcome = compare(HEAD + COUNTS, ROWS, seed=1)
    assert (outcome.verdict, outcome.found) == (Verdict.MISMATCH, "no failure")


def test_a_row_that_raises_in_a_loop_sent_away_and_in_the_rest_may_tell_either():
    text = """
class Loop(Program):
    e0 = Partitioned(Map[int, int])

    @entry
    def walk(self, a: int) -> int:
        for key in [a, a + 1]:
            self.e0[key] = 1 // (a - 3)
        assert a != 3
        return a
"""
    outcome = compare(HEAD + text, [("walk", (1,)), ("walk", (3,))], seed=1)
    assert (outcome.verdict, outcome.rows, outcome.raised) == (Verdict.SAME, 1, True)


def test_cuts_take_every_row_once():
    for seed in range(50):
        cuts = Cuts.random(seed, 20)
        assert sum(cuts.sizes) == 20
        assert len(cuts.sizes) == len(cuts.partitions)
    assert {partitions for seed in range(50) for partitions in Cuts.random(seed, 20).partitions} == {1, 2, 3, 7}


def test_rows_follow_from_their_seed_and_meet():
    entries = {"one": (("a", "int"), ("b", "str")), "two": (("c", "float"), ("d", "bool"))}
    rows = random_rows(entries, 5, 60)
    assert repr(rows) == repr(random_rows(entries, 5, 60))
    keys = [arguments[0] for name, arguments in rows if name == "one"]
    assert len(set(keys)) < len(keys) / 2
    assert {name for name, _ in rows} == {"one", "two"}


@pytest.mark.parametrize(
    "line",
    [
        "assert a % 5 != 2, (self.e0[b % 4] if b % 4 in self.e0 else 'no')",
        "assert a % 5 != 2, self.e0.pop(a % 4, (self.e0[b % 4] if b else 'x'))",
        "assert (a and self.e0.get(b, '')) != 'q', (self.e0[b] if b in self.e0 else self.e0.get(a))",
        "assert a < 3, (t := self.e0.get(b)) or a",
    ],
)
def test_a_message_of_an_assertion_may_choose_what_it_reads(line):
    text = f"""{HEAD}
class Asserting(Program):
    e0 = Partitioned(Map[int, str])

    @entry
    def put(self, a: int, v: str) -> None:
        self.e0[a] = v

    @entry
    def ask(self, a: int, b: int) -> str:
        {line}
        return 'fine'
"""
    rows = [("put", (key, "q" if key == 1 else "w")) for key in range(3)]
    rows += [("ask", (a, b)) for a in range(5) for b in range(5)]
    for seed in range(3):
        outcome = compare(text, rows, seed)
        assert (outcome.verdict, outcome.raised) == (Verdict.SAME, True), outcome.found


LOTTERY = """
class Lottery(Program):
    tickets = Partitioned(Map[int, int])
    drawn = Partitioned(Map[int, int])

    @entry
    def draw(self, a: int, b: int) -> str:
        number = self.random.randint(0, 99)
        self.tickets[a] = self.tickets.get(a, 0) + number
        self.drawn[b] = self.drawn.get(b, 0) + self.random.randint(0, 99)
        return repr((number, self.tickets[a], self.random.random()))
"""


def test_random_numbers_are_those_of_the_row():
    rows = [("draw", (a, b)) for a in range(3) for b in range(3)]
    outcome = compare(HEAD + LOTTERY, rows, seed=1)
    assert (outcome.verdict, outcome.found, outcome.rows) == (Verdict.SAME, "", 9)
    with loaded(HEAD + LOTTERY) as program:
        assert expect(program, rows).unfit == 0


@pytest.mark.parametrize("returns", ["int", "None"])
def test_a_row_that_its_program_refuses_has_its_reason_for_a_reply(returns):
    value = "self.e0[a]" if returns == "int" else "None"
    text = f"""
class Spend(Program):
    e0 = Partitioned(Map[int, int])

    @entry
    def spend(self, a: int, b: int) -> {returns}:
        self.e0[a] = self.e0.get(a, 3) - b
        if self.e0[a] < 0:
            self.abort(f"{{a}} lacks {{-self.e0[a]}}")
        self.e0[b] = self.e0.get(b, 3) + 1
        return {value}
"""
    rows = [("spend", (a, b)) for a in range(3) for b in range(1, 4)] * 2
    outcome = compare(HEAD + text, rows, seed=1)
    assert (outcome.verdict, outcome.found, outcome.rows) == (Verdict.SAME, "", 18)
    with loaded(HEAD + text) as program:
        assert sum("lacks" in reply for reply in expect(program, rows).replies.values()) > 3


def test_arguments_that_a_row_changes_are_its_own():
    text = (
        HEAD
        + """
class Grow(Program):
    e0 = Partitioned(Map[int, int])

    @entry
    def grow(self, a: int, b: list[int]) -> int:
        b.append(a)
        self.e0[a] = self.e0.get(a, 0) + len(b)
        return self.e0[a]
"""
    )
    outcome = compare(text, [("grow", (1, [2])), ("grow", (1, []))], seed=1)
    assert (outcome.verdict, outcome.found, outcome.rows) == (Verdict.SAME, "", 2)
