"""Examples in docstrings do what they say: every module of the package with a `>>>` is run, and many have one."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def with_examples() -> list[str]:
    """Name the modules that have examples, as they are imported."""
    files = sorted(file for file in (ROOT / "millpond").rglob("*.py") if ">>> " in file.read_text(encoding="utf-8"))
    return [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files]


@pytest.mark.parametrize("name", with_examples())
def test_examples_in_docstrings_do_what_they_say(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0
