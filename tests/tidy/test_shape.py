"""Files and functions stay small, and the text speaks of the project alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.tidy.tree import CODE, Module, modules, parse, statements, texts

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70

# In pieces, or this file would break its own rules.
MARKERS = ("TO" + "DO", "FIX" + "ME", "XX" + "X")
FOLDERS = ("home", "root", "work", "farm", "Users", "opt", "mnt")
HOSTS = ("pypi" + ".org", "python" + "hosted", "maven" + ".org")

MARKER = re.compile(rf"\b({'|'.join(MARKERS)})\b(?!\(#\d+\))")
MACHINE_PATH = re.compile(rf"(?<![\w.~}}*])/({'|'.join(FOLDERS)})/[\w.]")
WINDOWS_PATH = re.compile(r"\b[A-Z]:\\\\?Users\b")
HOST = re.compile("|".join(map(re.escape, HOSTS)))


def too_long(module: Module) -> Iterator[str]:
    lines = module.text.count("\n")
    if lines > FILE_LINES_MAX:
        yield f"{module.path}: {lines} lines; one file, one idea"
    for node in statements(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield module.at(node, f"`{node.name}` has {length} lines")


def unfit_text(path: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        for rule, words in (
            (MARKER, "a task without the number of its issue"),
            (MACHINE_PATH, "a path of one machine"),
            (WINDOWS_PATH, "a path of one machine"),
            (HOST, "the host of a package registry"),
        ):
            if rule.search(line):
                yield f"{path}:{number}: {words}"


def test_a_long_file_is_found():
    assert list(too_long(parse("x = 1\n" * FILE_LINES_MAX))) == []
    assert len(list(too_long(parse("x = 1\n" * (FILE_LINES_MAX + 1))))) == 1


@pytest.mark.parametrize("head", ["def f():", "async def f():"])
def test_a_long_function_is_found(head):
    assert list(too_long(parse(f"{head}\n" + "    x = 1\n" * (FUNCTION_LINES_MAX - 1)))) == []
    assert len(list(too_long(parse(f"{head}\n" + "    x = 1\n" * FUNCTION_LINES_MAX)))) == 1


@pytest.mark.parametrize(
    "line",
    [
        f"# {MARKERS[0]}: later",
        f"# {MARKERS[1]} soon",
        f"path = '/{FOLDERS[0]}/ann/x'",
        f"see /{FOLDERS[1]}/.cache",
        f"file:///{FOLDERS[2]}/main",
        "C:\\" + "Users\\ann",
        f"https://{HOSTS[0]}/simple",
    ],
)
def test_unfit_text_is_found(line):
    assert len(list(unfit_text("sample.md", line))) == 1


@pytest.mark.parametrize(
    "line", [f"# {MARKERS[0]}(#12): say why", "s3://bucket/home/x", "./docs/x", "https://spark.apache.org/docs/opt/x"]
)
def test_fit_text_is_left_alone(line):
    assert list(unfit_text("sample.md", line)) == []


def test_files_and_functions_are_small():
    assert [finding for folder in CODE for module in modules(folder) for finding in too_long(module)] == []


def test_the_text_speaks_of_the_project_alone():
    assert [finding for path, text in texts() for finding in unfit_text(path, text)] == []
