from __future__ import annotations

import sys
from textwrap import dedent

import pytest
from typer.testing import CliRunner

from millpond.cli import app

GOOD = """
from millpond.program import ProgramBase


class Shown(ProgramBase):
    @classmethod
    def explain(cls, format="text"):
        return f"graph of {cls.__name__} as {format}: total[k]"


class Refused(ProgramBase):
    @classmethod
    def explain(cls, format="text"):
        from millpond.errors import ProgramError, SourcePlace
        place = SourcePlace("shop.py", 7, 4, "    x = self.total[pick(k)]" + " " * 200 + "# far", 1)
        raise ProgramError("MP103", "no key", places=(place,), hint="write list[int] first")


class Plain:
    pass


LIMIT = 3
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    (tmp_path / "shop.py").write_text(dedent(GOOD), encoding="utf-8")
    (tmp_path / "broken.py").write_text("import no_such_thing_inside\n", encoding="utf-8")
    (tmp_path / "unfinished.py").write_text("def f(:\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    yield
    sys.modules.pop("shop", None)


def explain(*arguments: str):
    return CliRunner().invoke(app, ["explain", *arguments])


def test_a_program_of_the_current_folder_is_shown_as_text(shop):
    result = explain("shop:Shown")
    assert (result.stdout, result.exit_code) == ("graph of Shown as text: total[k]\n", 0)


def test_a_program_is_shown_as_mermaid(shop):
    assert explain("shop:Shown", "--format", "mermaid").stdout == "graph of Shown as mermaid: total[k]\n"


@pytest.mark.parametrize("shape", ["dot", "svg", "html"])
def test_other_shapes_are_asked_for_by_their_name(shop, shape):
    assert explain("shop:Shown", "--format", shape).stdout == f"graph of Shown as {shape}: total[k]\n"


def test_an_unknown_format_is_refused(shop):
    assert explain("shop:Shown", "--format", "pdf").exit_code == 2


def test_the_output_goes_to_a_file(shop, tmp_path):
    result = explain("shop:Shown", "--format", "html", "--output", str(tmp_path / "page.html"))
    assert (result.stdout, result.exit_code) == ("", 0)
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == "graph of Shown as html: total[k]"


def test_an_output_that_can_not_be_written_is_refused(shop, tmp_path):
    result = explain("shop:Shown", "--output", str(tmp_path / "none" / "page.html"))
    assert result.exit_code == 1
    assert result.stderr.startswith("MP718 ")


def test_a_program_that_does_not_compile_shows_the_place(shop):
    result = explain("shop:Refused")
    assert (result.exit_code, result.stdout) == (1, "")
    lines = result.stderr.splitlines()
    assert lines[0] == "MP103 no key"
    assert lines[2].endswith("# far")
    assert lines[3] == "      |     ^"
    assert lines[4] == "  next      write list[int] first"


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        ("shop", "MP710", "`shop`"),
        ("shop:", "MP710", "`shop:`"),
        ("shop.py:Shown:x", "MP710", "`shop.py:Shown:x`"),
        ("../shop:Shown", "MP710", "`../shop:Shown`"),
        ("market:Shown", "MP711", "no module `market`"),
        ("broken:Shown", "MP711", "ModuleNotFoundError: No module named 'no_such_thing_inside'"),
        ("unfinished:Shown", "MP711", "SyntaxError"),
        ("shop:Shwon", "MP712", "Refused, Shown"),
        ("shop:Plain", "MP713", "the class `Plain`"),
        ("shop:LIMIT", "MP713", "a value of type int"),
    ],
)
def test_a_target_that_is_no_program_is_refused_with_its_code(shop, target, code, words):
    result = explain(target)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"{code} ")
    assert words in result.stderr


def test_the_version_is_that_of_the_package():
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout.startswith("millpond ")
