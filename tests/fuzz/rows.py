"""Random rows for a program: few keys, so that rows meet, and values at the edges of their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.fuzz.dice import Dice

Row = tuple[str, tuple[Any, ...]]
"""An entry point's name and its arguments."""

_COMMON: Final[Mapping[str, tuple[Any, ...]]] = {
    "int": (0, 1, 1, 2, 3, 4),
    "str": ("a", "b", "a b a", "c a", "ä"),
    "float": (0.5, 1.0, 2.25, -1.5),
    "bool": (True, False),
}
_EDGES: Final[Mapping[str, tuple[Any, ...]]] = {
    "int": (-1, -7, 5, 100, 2**31, -(2**63), 2**63 - 1),
    "str": ("", " ", "b  b", "日本", "\x00", "x" * 300),
    "float": (0.0, -0.0, 0.1, 1e300, float("inf"), float("nan")),
    "bool": (True, False),
}


def random_rows(entries: Mapping[str, tuple[tuple[str, str], ...]], seed: int, count: int = 20) -> list[Row]:
    """Rows for entry points, given the types of their parameters; a share of the rows repeats the hottest key."""
    dice = Dice(seed)
    edges = dice.one((0.0, 0.05, 0.15))
    hot = {kind: dice.one(values) for kind, values in _COMMON.items()}
    names = list(entries)
    rows: list[Row] = []
    for _ in range(count):
        name = dice.one(names)
        rows.append((name, tuple(_value(dice, kind, hot, edges) for _, kind in entries[name])))
    return rows


def _value(dice: Dice, kind: str, hot: Mapping[str, Any], edges: float) -> Any:
    if dice.chance(edges):
        return dice.one(_EDGES[kind])
    return hot[kind] if dice.chance(0.35) else dice.one(_COMMON[kind])
