"""A bank whose rows go by key, by two steps and gathered, but for a few that run in sequence."""

from __future__ import annotations

import random
from collections.abc import Iterator

from millpond import Counter, Map, Partitioned, Program, Value, entry
from tests.fuzz.rows import Row

NAMES = "abcdefgh"


class Bank(Program):
    accounts = Partitioned(Map[str, int])
    heirs = Partitioned(Map[str, str])
    moved = Partitioned(Counter[str])
    rows = Partitioned(Value[int])

    @entry
    def pay_in(self, name: str, cents: int) -> int:
        if cents == 7:
            raise ValueError(name)
        self.accounts[name] = self.accounts.get(name, 0) + cents
        return self.accounts[name]

    @entry
    def name_heir(self, name: str, heir: str) -> str:
        self.heirs[name] = heir
        return heir

    @entry
    def move(self, source: str, target: str, cents: int) -> int:
        if self.accounts.get(source, 0) < cents:
            self.abort("too little")
        self.accounts[source] -= cents
        self.accounts[target] = self.accounts.get(target, 0) + cents
        self.moved[target] += cents
        return self.accounts[source]

    @entry
    def inherit(self, name: str) -> int:
        heir = self.heirs.pop(name, "a")
        cents = self.accounts.pop(name, 0)
        self.accounts[heir] = self.accounts.get(heir, 0) + cents
        if cents == 3:
            raise KeyError(name)
        self.rows.set((self.rows.get() or 0) + 1)
        return cents

    @entry
    def report(self) -> dict[str, int]:
        return dict(self.accounts)


def bank_rows(rng: random.Random, count: int, slow: float = 0.03) -> Iterator[Row]:
    """Rows of which about a part are in sequence."""
    for _ in range(count):
        name, other, cents = rng.choice(NAMES), rng.choice(NAMES), rng.randrange(1, 9)
        if rng.random() < slow:
            yield rng.choice([("inherit", (name,)), ("report", ())])
        else:
            fast = [("pay_in", (name, cents)), ("name_heir", (name, other)), ("move", (name, other, cents))]
            yield rng.choice(fast)
