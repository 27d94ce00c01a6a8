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

CASES_MAX = 4
"""Of a test with more cases than that, `make check` runs some."""

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
    """Of a test with many cases every fourth one: others of its kind stand beside it, and `make test` runs them all."""
    numbers: Counter[str] = Counter()
    many = Counter(map(_function, items))
    kept = []
    for item in items:
        name = _function(item)
        if many[name] <= CASES_MAX or numbers[name] % CASES_MAX == 0:
            kept.append(item)
        numbers[name] += 1
    return kept


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def thinned(cases: Iterable[Any], every: int) -> list[Any]:
    """Cases of which a run of all tests tries some, spread evenly, and a campaign the others; tuples are arguments."""
    values = [case if isinstance(case, tuple) else (case,) for case in cases]
    marks = [() if number % every == 0 else (pytest.mark.campaign,) for number in range(len(values))]
    return [pytest.param(*value, marks=mark) for value, mark in zip(values, marks, strict=True)]


def slow_or_wide(slow: Iterable[Any], wide: Iterable[Any]) -> list[Any]:
    """Values of a parameter: what `make test` has time for, and what only a campaign has."""
    marked = ((slow, pytest.mark.slow), (wide, pytest.mark.campaign))
    return [pytest.param(value, marks=mark) for values, mark in marked for value in values]
