"""Two programs for runs with faults, and rows for them: one is exact over three steps, one is relaxed."""

from __future__ import annotations

from typing import Any, Final

from millpond.program import Partial, Partitioned, ProgramBase, each, entry, merged
from millpond.state.containers.counter import Counter
from millpond.state.containers.map import Map
from tests.fuzz.dice import Dice
from tests.fuzz.rows import Row

PLACES: Final = 7


class Ledger(ProgramBase):
    """Balances, whose deletions leave tombstones, then counts in diverging copies: replies show the order of rows."""

    balances = Partitioned(Map[str, int])
    seen = Partitioned(Map[str, list[int]])
    moves = Partial(Counter[str])

    @entry
    def add(self, name: str, amount: int) -> int:
        """Add to a balance, and count that; a balance of nothing is deleted."""
        balance = self.balances.get(name, 0) + amount
        if balance:
            self.balances[name] = balance
        elif name in self.balances:
            del self.balances[name]
        self.moves[name] += 1
        return balance

    @entry
    def note(self, name: str, amount: int) -> list[int]:
        """Remember the last amounts."""
        kept = [*self.seen.get(name, []), amount][-3:]
        self.seen[name] = kept
        return kept

    @entry
    def count(self, name: str) -> int:
        """How often a name was added to, over all copies."""
        return merged(each(self.moves).get(name, 0), sum)


class Wander(ProgramBase):
    """Walks from key to key, as far as the state says: messages are left for later epochs."""

    steps = Partitioned(Map[int, int])
    visits = Partial(Counter[int])

    @entry(relaxed=True)
    def walk(self, place: int, hops: int) -> int:
        """Go on from place to place; what is found on the way decides where to."""
        found = 0
        while hops > 0:
            found += self.steps.get(place, 1)
            place = (place + self.steps.get(place, 1)) % PLACES
            self.steps[place] = self.steps.get(place, 1) + 1
            self.visits[place] += 1
            hops -= 1
        return found

    @entry(relaxed=True)
    def swap(self, one: int, other: int) -> int:
        """Exchange what two places hold."""
        held = self.steps.get(one, 1)
        self.steps[one] = self.steps.get(other, 1)
        self.steps[other] = held
        return held


def ledger_rows(dice: Dice, count: int) -> list[Row]:
    """Rows over a few names, one of them longer than a key of the local store may be."""
    names = ("a", "b", "ä", "", "z" * 600)
    rows: list[Row] = []
    for _ in range(count):
        name, amount = dice.one(names), dice.between(-2, 2)
        kinds: list[tuple[float, tuple[str, tuple[Any, ...]]]] = [
            (4, ("add", (name, amount))),
            (2, ("note", (name, amount))),
            (1, ("count", (name,))),
        ]
        rows.append(dice.weighted(kinds))
    return rows


def wander_rows(dice: Dice, count: int) -> list[Row]:
    """Rows over a few places."""
    rows: list[Row] = []
    for _ in range(count):
        place = dice.between(0, PLACES - 1)
        walk: Row = ("walk", (place, dice.between(0, 4)))
        rows.append(dice.one((walk, walk, ("swap", (place, dice.between(0, PLACES - 1))))))
    return rows
