"""How rows of the worlds choose keys: a hot one, and chains and cycles, in which a row goes on where another ended."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.dice import Dice


class Picker:
    """Chooses keys; `last` is where a chain goes on."""

    def __init__(self, dice: Dice, names: Sequence[str]) -> None:
        self._dice = dice
        self._names = names
        self._last = names[0]

    def one(self) -> str:
        """A key: the hot one, or any."""
        return self._names[0] if self._dice.chance(0.2) else self._dice.one(self._names)

    def pair(self) -> tuple[str, str]:
        """Two keys: often a link of a chain, sometimes one key twice."""
        first = self._last if self._dice.chance(0.5) else self.one()
        second = first if self._dice.chance(0.08) else self.one()
        self._last = second
        return first, second

    def several(self, most: int = 4) -> list[str]:
        """A list of keys, maybe empty, maybe with one of them twice."""
        return [self.one() for _ in range(self._dice.between(0, most))]
