from __future__ import annotations

import io
import json
import sys

import pytest
from rich.console import Console

from benchmarks import __main__ as front
from benchmarks import compile_time
from benchmarks.compile_time import Options, Times, check_merge, fresh_module, program_of, report
from benchmarks.report import BenchmarkError, Teller, json_line
from examples import bank
from millpond.compiler.compile import compile_program
from tests.unit.examples.ten import CASES

pytestmark = pytest.mark.slow


def test_all_ten_programs_are_measured():
    named = {case.module.__name__.rpartition(".")[2]: case.name for case in CASES}
    assert named == compile_time.PROGRAMS


def test_figures_have_a_time_and_a_multiple_for_every_program():
    teller = Teller(Console(file=io.StringIO()))
    figures = compile_time.run(Options(repeat=1), None, teller, ["bank", "regression"])
    for key in ("compile_ms", "ast_parse_ms", "multiple_of_ast_parse"):
        assert figures[key].keys() == {"bank", "regression"}
        assert min(figures[key].values()) > 0
    assert json.loads(json_line(figures))["checked"] is True


@pytest.mark.parametrize(("slowest", "within"), [(99.9, True), (100.0, False), (250.0, False)])
def test_the_slowest_program_tells_whether_the_target_is_met(slowest, within):
    figures = report({"bank": Times(20.0, 0.5), "shop": Times(slowest, 1.0)}, Options())
    assert (figures["slowest"], figures["slowest_ms"], figures["within_target"]) == ("shop", slowest, within)
    assert figures["multiple_of_ast_parse"] == {"bank": 40.0, "shop": slowest}


def test_a_program_is_loaded_anew_each_time_and_leaves_nothing_behind():
    with fresh_module("bank") as first:
        assert first.__name__ in sys.modules
    with fresh_module("bank") as second:
        assert program_of(first, "bank") is not program_of(second, "bank")
    assert program_of(second, "bank") is not bank.Bank
    assert second.__name__ not in sys.modules


def test_a_program_that_answers_otherwise_than_its_class_gives_no_figures():
    compiled = compile_program(bank.Bank)
    with fresh_module("bank") as module:
        check_merge(compiled, module, "bank")
        module.Bank.deposit = lambda self, account, cents: -1
        with pytest.raises(BenchmarkError, match="bank, row"):
            check_merge(compiled, module, "bank")


def test_no_spark_is_started_for_it(monkeypatch, capsys):
    monkeypatch.setattr(front, "session", lambda *_: pytest.fail("Spark is started"))
    monkeypatch.setattr(compile_time, "run", lambda *_: {"slowest_ms": 1.0, "checked": True})
    assert front.main(["compile_time", "--repeat", "3"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"slowest_ms": 1.0, "checked": True}


def test_the_number_of_turns_can_be_chosen():
    args = front.make_parser().parse_args(["compile_time", "--repeat", "3"])
    assert compile_time.read_options(args) == Options(repeat=3)
