"""Random rows for transactional programs: keys that meet directly and through others, and lists of keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.fuzz.dice import Dice
from tests.fuzz.rows import Row

_EDGES: Final[Mapping[str, tuple[Any, ...]]] = {
    "int": (-1, -7, 100, 2**31, -(2**63), 2**63 - 1),
    "str": ("", " ", "ä", "日本", "\x00", "x" * 300),
    "float": (0.0, -0.0, 0.1, 1e300, float("inf")),
    "bool": (True, False),
}
LIST_MAX: Final = 4


def random_rows(entries: Mapping[str, tuple[tuple[str, str], ...]], seed: int, count: int = 24) -> list[Row]:
    """Rows for entry points, given the types of their parameters.

    A few keys make one component of all rows; many make small ones, joined into chains where a row begins with a key
    that the row before it ended with.
    """
    values = _Values(Dice(seed))
    names = list(entries)
    rows: list[Row] = []
    for _ in range(count):
        name = values.dice.one(names)
        rows.append((name, tuple(values.of(kind) for _, kind in entries[name])))
    return rows


class _Values:
    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self._keys = dice.one((3, 6, 40))
        self._edges = dice.one((0.0, 0.0, 0.1))
        self._last: dict[str, Any] = {}

    def of(self, kind: str) -> Any:
        """A value of a type."""
        if kind.startswith("list["):
            inner = kind.removeprefix("list[").removesuffix("]")
            return [self._scalar(inner) for _ in range(self.dice.between(0, LIST_MAX))]
        return self._scalar(kind)

    def _scalar(self, kind: str) -> Any:
        dice = self.dice
        if dice.chance(self._edges):
            return dice.one(_EDGES[kind])
        if kind in self._last and dice.chance(0.3):
            return self._last[kind]
        self._last[kind] = value = self._fresh(kind)
        return value

    def _fresh(self, kind: str) -> Any:
        dice = self.dice
        if kind == "bool":
            return dice.chance(0.5)
        if kind == "float":
            return dice.one((0.5, 1.0, 2.25, -1.5))
        number = 0 if dice.chance(0.15) else dice.between(0, self._keys - 1)
        return number if kind == "int" else f"k{number}"
