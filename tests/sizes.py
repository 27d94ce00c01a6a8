"""How many cases a test looks at: few where MILLPOND_TEST_SMALL is 1, as in `make check`, and all in a campaign.

A run of all tests (`make test`) is in between: it looks at as many drawn cases as it takes to see what tests/mutants
breaks. `make crash` looks at all of them, each time others.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeVar

import pytest

from millpond.compiler.compile import compile_program
from tests.chance import SEED

SMALL = os.environ.get("MILLPOND_TEST_SMALL") == "1"
WIDE = bool(SEED)
"""Whether this is a campaign, which has hours."""

CASES_MAX = 6
STORIES = ("tests/property", "tests/regression")
"""Folders in which `make check` runs only some cases of a test that has more than that."""

Size = TypeVar("Size")

compile_once = lru_cache(64)(compile_program)
"""A program class, compiled once for all tests and examples that run it."""


def sized(full: Size, small: Size) -> Size:
    """What a test takes: as much as there is, or little that still has every kind in it."""
    return small if SMALL else full


def some_of(many: int) -> int:
    """How many of so many drawn cases this run looks at: all of them in a campaign."""
    return many if WIDE else max(min(many, 1 if SMALL else 3), many // 10 if SMALL else many * 2 // 5)


EXAMPLES = some_of(100)
"""What hypothesis looks at where a test does not say it."""


def few_of(items: list[pytest.Item]) -> list[pytest.Item]:
    """Of a test with many cases every third one, where a case is a program or a story; those of units are small."""
    numbers: Counter[str] = Counter()
    many = Counter(map(_function, items))
    kept = []
    for item in items:
        name = _function(item)
        if not name.startswith(STORIES) or many[name] <= CASES_MAX or numbers[name] % 3 == 0:
            kept.append(item)
        numbers[name] += 1
    return kept


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def slow_or_wide(slow: Iterable[Any], wide: Iterable[Any]) -> list[Any]:
    """Values of a parameter: what `make test` has time for, and what only a campaign has."""
    marked = ((slow, pytest.mark.slow), (wide, pytest.mark.campaign))
    return [pytest.param(value, marks=mark) for values, mark in marked for value in values]
