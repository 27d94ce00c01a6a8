"""Keys of a random transaction: expressions over what the arguments give, never over state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.fuzz.dice import Dice

_PARTS: Final = {"tuple[int, int]": ("int", "int"), "tuple[int, str]": ("int", "str")}


class Keys:
    """The variables that follow from the arguments at this point, by type; lists of keys among them."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._names: dict[str, list[str]] = {}
        self._made = 0

    def bind(self, name: str, kind: str) -> None:
        """A variable that follows from the arguments."""
        self._names.setdefault(kind, []).append(name)

    def fresh(self) -> str:
        """A new name."""
        self._made += 1
        return f"k{self._made}"

    @contextmanager
    def also(self, name: str, kind: str) -> Iterator[None]:
        """A variable that is there for a while: of a loop, or of a comprehension."""
        self.bind(name, kind)
        yield
        self._names[kind].remove(name)

    @contextmanager
    def block(self) -> Iterator[None]:
        """Statements that may not run: what they bind is unknown after them."""
        kept = {kind: list(names) for kind, names in self._names.items()}
        yield
        self._names = kept

    def names(self, kind: str) -> list[str]:
        """The variables of a type."""
        return self._names.get(kind, [])

    def of(self, kind: str) -> str:
        """A key of a type: mostly a variable, sometimes what a user computes of one."""
        if not kind:
            return ""
        if kind in _PARTS:
            return f"({', '.join(self.of(part) for part in _PARTS[kind])})"
        names = self.names(kind)
        if names and self._dice.chance(0.75):
            return self._dice.one(names)
        return self._computed(kind)

    def walked(self) -> tuple[str, str]:
        """Something to walk over whose items are keys, and their type."""
        dice = self._dice
        kind = dice.one(("int", "int", "str"))
        lists = self.names(f"list[{kind}]")
        if lists and dice.chance(0.7):
            name = dice.one(lists)
            return dice.weighted(
                [(6, name), (1, f"sorted(set({name}))"), (1, f"{name}[:2]"), (1, f"{name}[::-1]")]
            ), kind
        if kind == "int" and dice.chance(0.3):
            return f"range({self.of('int')} % 4)", kind
        return f"({self.of(kind)}, {self.of(kind)})", kind

    def _computed(self, kind: str) -> str:
        dice = self._dice
        ints, texts = self.names("int") or ["2"], self.names("str") or ["'k1'"]
        some, other = dice.one(ints), dice.one(ints)
        forms: dict[str, list[tuple[float, str]]] = {
            "int": [
                (3, f"{some} % 3"),
                (2, f"({some} + {other}) % 4"),
                (1, "2"),
                (1, "self.LIMIT"),
                (1, f"min({some}, {other})"),
                (1, f"clip({some})"),
                (1, f"self._clip({some})"),
                (1, f"({some} if {other} > 1 else 0)"),
                (1, f"abs({some}) % 5"),
                *((2, f"{name}[0]") for name in self.names("list[int]")),
                *((1, f"max({name}, default=1)") for name in self.names("list[int]")),
            ],
            "str": [
                (3, f"'k' + str({some} % 3)"),
                (2, f"f'k{{{some} % 4}}'"),
                (1, f"{dice.one(texts)}[:2]"),
                (1, "self.NAME"),
                (1, f"({dice.one(texts)} or 'none')"),
                *((2, f"{name}[-1]") for name in self.names("list[str]")),
            ],
            "bool": [(2, f"({some} > 1)"), (1, "True")],
        }
        return dice.weighted(forms[kind])
