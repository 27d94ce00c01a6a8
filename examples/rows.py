"""Rows of the examples that run as plain Python: made up from a seed, with a few keys much hotter than the rest."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeVar

from millpond import Program

T = TypeVar("T")

Row = tuple[str, tuple[Any, ...]]
"""An entry point's name and its arguments."""


def hot(chance: random.Random, choices: Sequence[T]) -> T:
    """Choose one; the first is the hottest, the second half as hot, the third a third."""
    weights = [1 / (place + 1) for place in range(len(choices))]
    return chance.choices(choices, weights)[0]


def play(program: Program, rows: Sequence[Row]) -> list[Any]:
    """Run the class as plain Python, row by row, and return the replies."""
    return [getattr(program, name)(*arguments) for name, arguments in rows]
