"""The examples in docstrings run, and give what they show."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.tidy.tree import modules

SHOWN = [module.path for module in modules("millpond") if ">>>" in module.text and "/spark/" not in module.path]
"""What knows Spark is shown by the pages and their tests."""


@pytest.mark.parametrize("path", SHOWN)
def test_examples_in_docstrings_run(path):
    module = importlib.import_module(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    done = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert done.attempted > 0
    assert done.failed == 0
