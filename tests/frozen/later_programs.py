"""The programs whose checkpoints are frozen in `format-1-later`; they never change."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from millpond import BoundedLoss, Counter, List, Map, Matrix, Partial, Partitioned, Program, Set, entry, on_timer
from tests.frozen.programs import WORDS, Row


class Mixed(Program):
    """An element that is kept at once beside one with bounded loss; every row changes both."""

    exact = Partitioned(Counter[str])
    hits = Partitioned(Counter[str], durability=BoundedLoss(events=2, within=timedelta(seconds=1_000_000)))

    @entry
    def hit(self, word: str) -> int:
        self.exact[word] += 1
        self.hits[word] += 1
        return self.exact[word]


class Totals(Program):
    """State that is computed again from rows: one element by key, one in diverging copies."""

    totals = Partitioned(Map[str, list[int]])
    seen = Partial(Counter[str], merge=sum)

    @entry
    def add(self, word: str, number: int) -> list[int]:
        self.totals[word] = [*self.totals.get(word, []), number][-3:]
        return self.totals[word]

    @entry
    def see(self, word: str, number: int) -> int:
        self.seen[word] += number
        return self.seen[word]


class Reminders(Program):
    """State that expires, by its writing or by its use, and timers."""

    notes = Partitioned(Map[str, int], ttl=timedelta(seconds=20))
    uses = Partitioned(Counter[str], ttl=timedelta(seconds=9), refresh="access")
    kept = Partitioned(Counter[str])

    @entry
    def note(self, word: str, wait: int) -> int:
        self.notes[word] = wait
        self.over.set(word, self.now + timedelta(seconds=wait))
        self.kept[word] += 1
        return self.kept[word]

    @entry
    def use(self, word: str, wait: int) -> int:
        self.uses[word] += wait
        return self.uses[word]

    @on_timer
    def over(self, word: str, at: datetime) -> int:
        self.notes.pop(word, None)
        return self.kept.pop(word, 0)


@dataclass
class Client:
    """A customer, later."""

    name: str
    orders: int
    latest: float | None = None
    tags: list[str] = field(default_factory=list)


class ShopLater(Program, dropped=("weights", "total")):
    """The shop after a change: one element has another name and type, two are gone, one is new."""

    clients = Partitioned(Map[str, Client], was="customers", renamed={"last": "latest"})
    counts = Partitioned(Counter[int])
    tags = Partitioned(Set[str])
    notes = Partitioned(List[str])
    prices = Partitioned(Matrix[str, int, float], by="row")
    visits = Partitioned(Counter[str])

    @entry
    def order(self, name: str, amount: float) -> int:
        known = self.clients.get(name)
        orders = 1 if known is None else known.orders + 1
        self.clients[name] = Client(name, orders, amount, ["again"])
        return orders

    @entry
    def visit(self, name: str) -> int:
        self.visits[name] += 1
        return self.visits[name]


def mixed_row(rng: random.Random) -> Row:
    return "hit", (rng.choice(WORDS),)


def totals_row(rng: random.Random) -> Row:
    return rng.choice(("add", "see")), (rng.choice(WORDS), rng.randrange(9))


def reminders_row(rng: random.Random) -> Row:
    return rng.choice(("note", "note", "use")), (rng.choice(WORDS[:4]), rng.randrange(3, 15))


def later_row(rng: random.Random) -> Row:
    return rng.choice((("order", (rng.choice(WORDS), 1.5)), ("visit", (rng.choice(WORDS),))))
