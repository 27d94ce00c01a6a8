"""docs/ERRORS.md is what scripts/errors_page.py makes of the code, and every code has one meaning and a fix."""

from __future__ import annotations

import ast
import importlib.util
import sys

import pytest

from tests.tidy.tree import ROOT, modules, nodes

SCRIPT = ROOT / "scripts" / "errors_page.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("errors_page", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["errors_page"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["errors_page"]


@pytest.fixture(scope="module")
def codes(script):
    return script.collect()


def test_the_page_is_up_to_date(script, codes):
    assert script.PAGE.read_text(encoding="utf-8") == script.render(codes), "run `make docs`"


def test_every_code_has_one_meaning_and_a_fix(script, codes):
    assert list(script.find_problems(codes)) == []


def test_every_code_that_the_package_names_is_on_the_page(script, codes):
    literals = (
        node.value for module in modules("millpond") for node in nodes(module) if isinstance(node, ast.Constant)
    )
    used = {value for value in literals if isinstance(value, str) and script.CODE.fullmatch(value)}
    page = script.PAGE.read_text(encoding="utf-8")
    assert sorted(code for code in used if f"\n### {code}\n" not in page) == []


def test_every_golden_error_has_its_code_on_the_page(script, codes):
    assert sorted({case.stem[:5] for case in script.GOLDEN.glob("*.txt")} - codes.keys()) == []


def test_a_program_that_is_refused_is_shown_with_its_error(script, codes):
    program, error = codes["MP111"].example
    assert "class P(Program):" in program
    assert error.startswith("MP111 ")


def test_texts_are_read_from_calls(script):
    tree = ast.parse(
        'HINT = "write it"\n'
        "def bad(self, code, summary, expected, hint=None):\n    raise StateError(code, summary)\n"
        'bad("MP999", f"`{x}` is bad", "this" if y else "that", HINT)\n'
        'StateError("MP998", "gone " + why, expected="x")\n'
    )
    assert dict(script._raised(tree)) == {
        "bad": {"code": ["MP999"], "summary": ["`…` is bad"], "expected": ["this", "that"], "hint": ["write it"]},
        "StateError": {"code": ["MP998"], "summary": ["gone …"], "expected": ["x"]},
    }


def test_what_is_wrong_with_codes_is_found(script):
    codes = {
        "MP901": script.Code("MP901", {"StateError", "RowError"}, ["a"], [], [], "one", "do"),
        "MP902": script.Code("MP902", {"refuse"}, ["a", "b"], [], [], "", "do"),
        "MP903": script.Code("MP903", {"refuse"}, ["a"], [], [], "one", ""),
    }
    found = [problem for problem in script.find_problems(codes) if "errors.toml speaks" not in problem]
    assert [problem[:5] for problem in found] == ["MP901", "MP902", "MP903", "MP901"]
