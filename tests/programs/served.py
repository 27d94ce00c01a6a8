"""A program that is followed: elements of all kinds, entry points that only read in every way to run, and others."""

from __future__ import annotations

import dataclasses
import datetime
import enum

from millpond import Counter, List, Map, Matrix, Partial, Partitioned, Program, Set, Value, Vector, each, entry, merged


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Account:
    owner: str
    balance: int


def added(vectors: list[Vector[int]]) -> Vector[int]:
    total: Vector[int] = Vector()
    for vector in vectors:
        total = total.add(vector)
    return total


class Shop(Program):
    accounts = Partitioned(Map[str, Account])
    bought = Partitioned(Map[tuple[str, int], list[int]])
    fresh = Partitioned(Map[str, int], ttl="1 hour")
    seen = Partitioned(Map[str, int], ttl="1 hour", refresh="access")
    names = Partitioned(Set[str])
    log = Partitioned(List[str])
    total = Partitioned(Value[int])
    visits = Partial(Counter[str], merge=sum)
    together = Partial(Matrix[int, int, int], merge=sum)
    colours = Partitioned(Map[Colour, int])

    @entry
    def pay(self, name: str, item: int, cents: int) -> int:
        account = self.accounts.get(name) or Account(name, 0)
        account.balance += cents
        self.accounts[name] = account
        return account.balance

    @entry
    def buy(self, name: str, item: int, cents: int) -> None:
        self.bought.setdefault((name, item), []).append(cents)

    @entry
    def see(self, name: str, item: int, cents: int) -> None:
        self.fresh[name] = cents
        self.visits[name] += 1
        self.together[item, cents % 5] += 1

    @entry
    def note(self, name: str, item: int, cents: int) -> None:
        self.names.add(name)
        self.log.append(name)
        self.total.set(self.total.get(0) + cents)
        self.colours[Colour.RED if item % 2 else Colour.BLUE] = cents

    @entry
    def close(self, name: str, item: int, cents: int) -> bool:
        self.names.discard(name)
        return self.accounts.pop(name, None) is not None

    @entry
    def balance(self, name: str) -> Account | None:
        """What somebody has."""
        return self.accounts.get(name)

    @entry
    def carts(self, name: str, item: int = 1) -> list[int]:
        return self.bought.get((name, item), [])

    @entry
    def near(self, item: int) -> dict[int, int]:
        scores = each(self.together).row(item)
        return dict(merged(scores, added))

    @entry
    def richest(self) -> str:
        best = ""
        for name, account in self.accounts.items():
            if not best or (account.balance, name) > (self.accounts[best].balance, best):
                best = name
        return best

    @entry
    def known(self, name: str) -> bool:
        return name in self.names

    @entry
    def paint(self, colour: Colour) -> int:
        return self.colours.get(colour, 0)

    @entry
    def when(self) -> datetime.datetime:
        return self.now

    @entry
    def look(self, name: str) -> int:
        return self.seen.get(name, 0)

    @entry
    def last(self, name: str) -> int:
        return self.fresh.get(name, -1)

    @entry
    def wipe(self) -> int:
        count = 0
        for name in list(self.accounts):
            del self.accounts[name]
            count += 1
        return count

    @entry
    def spare(self, name: str) -> int:
        if name not in self.names:
            self.abort(f"no {name}")
        return self.total.get(0)

    @entry
    def fail(self, name: str) -> int:
        return self.accounts[name].balance
