"""Random transactional programs: what they are made of, their rows, and the campaign over them."""

from __future__ import annotations

import ast
import json
from functools import cache

import pytest

from millpond.keygroups import Layout
from tests.fuzz.compare import Outcome, Verdict
from tests.fuzz.dice import Dice
from tests.fuzz.grammar import Generated
from tests.fuzz.loading import loaded, program_in
from tests.fuzz.transactions import campaign as campaigns
from tests.fuzz.transactions.__main__ import main
from tests.fuzz.transactions.campaign import TransactionReport, case_of, run, told, world_case
from tests.fuzz.transactions.compare import Told
from tests.fuzz.transactions.grammar import generate
from tests.fuzz.transactions.keys import Keys
from tests.fuzz.transactions.rows import LIST_MAX, random_rows
from tests.fuzz.transactions.truth import truth_of
from tests.fuzz.transactions.worlds import WORLDS

MANY = 300

pytestmark = pytest.mark.slow


@cache
def programs() -> tuple[Generated, ...]:
    return tuple(generate(seed) for seed in range(MANY))


@cache
def nodes() -> tuple[ast.AST, ...]:
    return tuple(node for program in programs() for node in ast.walk(ast.parse(program.text)))


def test_a_seed_gives_one_program():
    assert [generate(seed) for seed in range(20)] == list(programs()[:20])
    assert len({program.text for program in programs()}) > MANY * 0.98


@pytest.mark.parametrize("seed", range(0, MANY, 30))
def test_a_program_can_be_imported_and_runs_as_plain_python(seed):
    case = case_of(5, seed)
    with loaded(case.text) as program:
        truth = truth_of(program, case.rows, Layout(16, 1, 4, aligned=False))
        assert set(program.entries()) >= {"entry0"}
    assert len(truth.rows) + truth.unfit == len(case.rows)


@pytest.mark.parametrize(
    "kind",
    [
        ast.If, ast.For, ast.While, ast.Match, ast.Try, ast.Break, ast.Continue, ast.Return, ast.IfExp, ast.ListComp,
        ast.DictComp, ast.GeneratorExp, ast.AugAssign, ast.NamedExpr, ast.Delete, ast.Raise, ast.Assert, ast.Set,
    ],
)  # fmt: skip
def test_every_construct_is_generated(kind):
    assert any(isinstance(node, kind) for node in nodes())


def test_transactions_meet_their_keys_in_every_way():
    text = "\n".join(program.text for program in programs())
    for part in ("self.abort(", "self._help0(", "list[str]", "list[int]", "set[int]", "for place, k", "side0", "[0]"):
        assert part in text, part
    loops = [node for node in nodes() if isinstance(node, ast.For)]
    assert any(isinstance(part, ast.Return) for loop in loops for part in ast.walk(loop))
    tries = [node for node in nodes() if isinstance(node, ast.Try)]
    inside = [ast.unparse(statement) for node in tries for statement in node.body]
    assert any("self.e" in statement for statement in inside)
    over_keys = [node for node in nodes() if isinstance(node, ast.GeneratorExp | ast.ListComp)]
    assert any("self.e" in ast.unparse(node.elt) for node in over_keys)


def test_plain_python_refuses_and_raises_on_a_share_of_the_rows():
    aborted = raised = done = 0
    for number in range(60):
        case = case_of(3, number)
        with loaded(case.text) as program:
            truth = truth_of(program, case.rows, Layout(16, 1, 4, aligned=False))
        aborted, raised, done = aborted + len(truth.aborted), raised + len(truth.raised), done + len(truth.replies)
    assert done > max(aborted, raised)
    assert min(aborted, raised) > 60


def test_keys_follow_from_what_is_bound():
    keys = Keys(Dice(1))
    keys.bind("a", "int")
    keys.bind("xs", "list[str]")
    with keys.also("k9", "str"):
        assert any("k9" in keys.of("str") for _ in range(40))
    assert not any("k9" in keys.of("str") for _ in range(40))
    assert any("xs" in keys.walked()[0] for _ in range(60))
    for kind in ("int", "str", "bool", "tuple[int, int]", "tuple[int, str]"):
        for _ in range(30):
            ast.parse(keys.of(kind), mode="eval")
    assert keys.of("") == ""


def test_rows_follow_from_their_seed_and_their_keys_meet():
    entries = {"one": (("a", "int"), ("b", "list[str]")), "two": (("c", "float"), ("d", "bool"))}
    rows = random_rows(entries, 5, 200)
    assert repr(rows) == repr(random_rows(entries, 5, 200))
    keys = [arguments[0] for name, arguments in rows if name == "one"]
    assert len(set(keys)) < len(keys)
    lists = [arguments[1] for name, arguments in rows if name == "one"]
    assert {len(found) for found in lists} == set(range(LIST_MAX + 1))
    assert len({len({arguments[0] for _, arguments in random_rows(entries, seed, 80)}) > 15 for seed in range(20)}) == 2


@pytest.mark.parametrize("name", WORLDS)
def test_rows_of_a_world_are_done_refused_and_raise(name):
    program = program_in(WORLDS[name])
    assert WORLDS[name].make_rows(1, 50) == WORLDS[name].make_rows(1, 50) != WORLDS[name].make_rows(2, 50)
    truth = truth_of(program, WORLDS[name].make_rows(1, 200), Layout(16, 1, 4, aligned=False))
    assert min(len(truth.aborted), len(truth.raised)) >= 5
    assert len(truth.replies) > 80
    assert {row[0] for row in truth.rows} == set(program.entries())


def test_a_world_becomes_a_case_that_can_be_made_small():
    case = world_case("bank", 3, 20)
    assert "class Bank" in case.text
    assert len(case.rows) == 20
    assert case == world_case("bank", 3, 20) != world_case("bank", 4, 20)


def verdicts(monkeypatch, *outcomes: Outcome) -> None:
    """Every program ends as told, over and over."""
    monkeypatch.setattr(campaigns, "run_one", lambda case: outcomes[len(case.text) % len(outcomes)])


def test_a_campaign_counts_what_it_finds(monkeypatch):
    verdicts(monkeypatch, Told(Verdict.SAME, rows=20, raised=3, gathered=2, aborted=4))
    found = run(3, 5, lambda _: None).as_json()
    assert (found["programs"], found["mismatches"], found["seed"], found["rows"]) == (5, 0, 3, 100)
    assert (found["programs_gathered"], found["entries_gathered"], found["aborted"], found["raised"]) == (5, 10, 20, 15)
    verdicts(monkeypatch, Outcome(Verdict.REFUSED, "MP150"))
    assert run(3, 2, lambda _: None).as_json()["refused_by_code"] == {"MP150": 2}


def test_a_campaign_stops_when_its_time_is_over(monkeypatch):
    verdicts(monkeypatch, Outcome(Verdict.SAME))
    assert run(1, 50, lambda _: None, seconds=0.0).programs == 1


def test_the_command_prints_json_last_and_fails_on_a_mismatch(monkeypatch, capsys):
    verdicts(monkeypatch, Outcome(Verdict.SAME, rows=20))
    assert main(["--count", "3", "--seed", "9", "--start", "4"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]).items() >= {"programs": 3, "seed": 9}.items()
    verdicts(monkeypatch, Outcome(Verdict.MISMATCH, what="replies", expected="right", found="wrong"))
    assert main(["--count", "1"]) == 1
    said = capsys.readouterr().out
    for part in ("program 0 of seed 1", "--- as generated", "--- small", "--- rows", "right", "wrong"):
        assert part in said


def test_one_program_can_be_shown(monkeypatch, capsys):
    monkeypatch.setattr(campaigns.TransactionCase, "run", lambda self: Outcome(Verdict.SAME))
    assert main(["--seed", "7", "--only", "3"]) == 0
    assert case_of(7, 3).text.split("class Random")[1].strip() in capsys.readouterr().out


def test_a_failure_is_told_with_its_small_program(monkeypatch):
    verdicts(monkeypatch, Outcome(Verdict.MISMATCH, what="state", expected="right", found="wrong"))
    assert "nobody: mismatch, state" in told(case_of(1, 1), "nobody")
    report = TransactionReport(1)
    report.take(1, Outcome(Verdict.CRASH, "KeyError"))
    assert report.failed
