"""The variables of a random method: which are there, of which type, and which may be assigned again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.fuzz.dice import Dice

PREFIXES = {
    "int": "t",
    "str": "s",
    "float": "f",
    "bool": "b",
    "list[int]": "w",
    "tuple[int, int]": "p",
    "dict[str, int]": "d",
    "Point": "q",
}
"""Types of variables, each with the beginning of its names."""


class Scope:
    """Variables that surely have a value at this point."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._types: dict[str, str] = {}
        self._fixed: set[str] = set()
        self._made = 0

    def fresh(self, of_type: str) -> str:
        """A new name; it is not there until it is bound."""
        self._made += 1
        return f"{PREFIXES[of_type]}{self._made}"

    def bind(self, name: str, of_type: str, *, fixed: bool = False) -> None:
        """A variable has a value from here on; a fixed one is not assigned again."""
        self._types[name] = of_type
        if fixed:
            self._fixed.add(name)

    def names(self, of_type: str) -> list[str]:
        """The variables of a type."""
        return [name for name, own in self._types.items() if own == of_type]

    def target(self, of_type: str) -> str:
        """A variable to assign to: a known one, or a new one that is bound by it."""
        known = [name for name in self.names(of_type) if name not in self._fixed]
        if known and self._dice.chance(0.6):
            return self._dice.one(known)
        return self.fresh(of_type)

    def changeable(self, of_type: str) -> list[str]:
        """The variables of a type that may be assigned or changed in place."""
        return [name for name in self.names(of_type) if name not in self._fixed]

    @contextmanager
    def block(self, *, closed: bool = False) -> Iterator[None]:
        """Statements that may not run: what they bind is unknown after them.

        In a closed block, variables from outside are read only.
        """
        types, fixed = dict(self._types), set(self._fixed)
        if closed:
            self._fixed |= self._types.keys()
        yield
        self._types, self._fixed = types, fixed
