"""Folders are the map of the package: small, and each names what is in it, in the order in which it is best read."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.tidy.tree import ROOT

FILES_MAX = 16
CROWDED: set[str] = set()
"""Folders that are still to be divided."""

FOLDERS = sorted(init.parent.relative_to(ROOT).as_posix() for init in (ROOT / "millpond").rglob("__init__.py"))
NAMING = [folder for folder in FOLDERS if folder not in {"millpond", *CROWDED}]


def inside(folder):
    files = {file.stem for file in (ROOT / folder).glob("*.py")} - {"__init__"}
    return files | {f"{init.parent.name}/" for init in (ROOT / folder).glob("*/__init__.py")}


def named(folder):
    """What the docstring of a folder says is in it, in its order."""
    text = ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    _, _, order = text.partition("In reading order: ")
    return order.replace("\n", " ").removesuffix(".").replace("`", "").split(", ")


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_is_small(folder):
    files = len(list((ROOT / folder).glob("*.py")))
    assert (files > FILES_MAX) == (folder in CROWDED), f"{files} files"


@pytest.mark.parametrize("folder", NAMING)
def test_a_folder_names_what_is_in_it(folder):
    told = named(folder)
    assert sorted(told) == sorted(inside(folder))
    assert max(Counter(told).values()) == 1
