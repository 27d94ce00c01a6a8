"""The programs whose checkpoints are frozen, and their rows: once a checkpoint is frozen, its program never changes."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from millpond import (
    Counter,
    List,
    Map,
    Matrix,
    Partial,
    Partitioned,
    Program,
    Set,
    Value,
    Vector,
    each,
    entry,
    merged,
)
from millpond.program.merges import concatenate, greatest, total, union

Row = tuple[str, tuple[Any, ...]]


@dataclass
class Customer:
    """A record as a value."""

    name: str
    orders: int
    last: float | None = None


class Shop(Program):
    """Every kind of partitioned element, and values of many types; deletions leave tombstones."""

    customers = Partitioned(Map[str, Customer])
    counts = Partitioned(Counter[int])
    tags = Partitioned(Set[str])
    notes = Partitioned(List[str])
    prices = Partitioned(Matrix[str, int, float], by="row")
    weights = Partitioned(Vector[int])
    total = Partitioned(Value[int])

    @entry
    def order(self, name: str, amount: float) -> int:
        known = self.customers.get(name)
        if known is None:
            known = Customer(name, 0)
        self.customers[name] = Customer(name, known.orders + 1, amount)
        return known.orders + 1

    @entry
    def forget(self, name: str) -> bool:
        if name in self.customers:
            del self.customers[name]
            return True
        return False

    @entry
    def count(self, number: int) -> int:
        self.counts[number] += 1
        return self.counts[number]

    @entry
    def tag(self, word: str) -> bool:
        new = word not in self.tags
        self.tags.add(word)
        return new

    @entry
    def note(self, text: str) -> int:
        self.notes.append(text)
        return len(self.notes)

    @entry
    def price(self, name: str, day: int, cost: float) -> float:
        self.prices[name, day] = cost
        return self.prices[name, day]

    @entry
    def weigh(self, number: int, weight: float) -> float:
        self.weights[number] += weight
        return self.weights[number]

    @entry
    def pay(self, amount: int) -> int:
        self.total.set(self.total.get(0) + amount)
        return self.total.get(0)


class Copies(Program):
    """Every kind of partial element, with what becomes of it when the number of instances changes."""

    seen = Partitioned(Map[str, int])
    counts = Partial(Counter[str], merge=sum)
    best = Partial(Map[str, int], on_scale_out="split", merge=greatest)
    weights = Partial(Vector[str], on_scale_out="copy", merge=total)
    pairs = Partial(Matrix[str, int, int], by="column", on_scale_out="split", merge=total)
    words = Partial(Set[str], on_scale_out="copy", merge=union)
    log = Partial(List[str], on_scale_out="split", merge=concatenate)
    last = Partial(Value[int], on_scale_out="copy", merge=greatest)

    @entry
    def see(self, word: str, number: int) -> int:
        self.seen[word] = number
        return self.seen[word]

    @entry
    def count(self, word: str, number: int) -> int:
        self.counts[word] += number
        return self.counts[word]

    @entry
    def improve(self, word: str, number: int) -> int:
        self.best[word] = max(self.best.get(word, number), number)
        return self.best[word]

    @entry
    def learn(self, word: str, number: int) -> float:
        self.weights[word] += number / 4
        return self.weights[word]

    @entry
    def pair(self, word: str, number: int) -> int:
        self.pairs[word, number] += 1
        return self.pairs[word, number]

    @entry
    def add(self, word: str, number: int) -> bool:
        new = word not in self.words
        self.words.add(word)
        return new

    @entry
    def write(self, word: str, number: int) -> int:
        self.log.append(word)
        return len(self.log)

    @entry
    def keep(self, word: str, number: int) -> int:
        self.last.set(number)
        return number

    @entry
    def counted(self, word: str, number: int) -> int:
        return merged(each(self.counts).get(word, 0), sum)


class Wandering(Program):
    """Relaxed: two keys of one element, and a loop whose steps depend on data; epochs leave messages."""

    accounts = Partitioned(Map[int, int])
    visits = Partial(Counter[int])

    @entry(relaxed=True)
    def transfer(self, source: int, target: int) -> int:
        balance = self.accounts.get(source, 10)
        self.accounts[source] = balance - 1
        self.accounts[target] = self.accounts.get(target, 10) + 1
        return balance

    @entry(relaxed=True)
    def walk(self, account: int, hops: int) -> int:
        found = 0
        while hops > 0:
            found += self.accounts.get(account, 10)
            account = (account + self.accounts.get(account, 1)) % 7
            self.accounts[account] = self.accounts.get(account, 10) + 1
            hops -= 1
            self.visits[account] += 1
        return found


class Transfers(Program):
    """Gathered: rows over several keys, all or nothing."""

    balances = Partitioned(Map[str, int])
    moves = Partitioned(Map[str, list[int]])

    @entry
    def deposit(self, account: str, amount: int) -> int:
        self.balances[account] = self.balances.get(account, 0) + amount
        return self.balances[account]

    @entry
    def transfer(self, source: str, target: str, amount: int) -> int:
        self.balances[source] = self.balances.get(source, 0) - amount
        if self.balances[source] < 0:
            self.abort(f"{source} lacks money")
        self.balances[target] = self.balances.get(target, 0) + amount
        self.moves.setdefault(source, []).append(-amount)
        self.moves.setdefault(target, []).append(amount)
        return self.balances[target]


WORDS = ("a", "b", "ä", "word", "", "日本", "z" * 520)


def shop_row(rng: random.Random) -> Row:
    word, number = rng.choice(WORDS), rng.randrange(-3, 6)
    return rng.choice(
        [
            ("order", (word, number / 4)),
            ("order", (word, number / 4)),
            ("forget", (word,)),
            ("count", (number,)),
            ("tag", (word,)),
            ("note", (word,)),
            ("price", (word, number, 1.5 * number)),
            ("weigh", (number, 0.25)),
            ("pay", (number,)),
        ]
    )


def copies_row(rng: random.Random) -> Row:
    names = ("see", "count", "improve", "learn", "pair", "add", "write", "keep", "counted")
    return rng.choice(names), (rng.choice(WORDS), rng.randrange(-2, 5))


def wandering_row(rng: random.Random) -> Row:
    return rng.choice((("transfer", (rng.randrange(7), rng.randrange(7))), ("walk", (rng.randrange(7), 2))))


def walk_row(rng: random.Random) -> Row:
    return ("walk", (rng.randrange(7), 4))


def transfers_row(rng: random.Random) -> Row:
    names = ("ann", "bob", "cid", "dora", "eve")
    moved: Row = ("transfer", (rng.choice(names), rng.choice(names), rng.randrange(6)))
    return rng.choice((moved, moved, ("deposit", (rng.choice(names), rng.randrange(9)))))
