"""Programs that raise on rows of many types, at once and after a move, and the same ones mended."""

from __future__ import annotations

import datetime
import decimal

from millpond import Counter, Map, Partitioned, Program, entry


class Broken(Program):
    """Raises on a negative amount: in its first step, or after it moved to another key."""

    names = Partitioned(Map[str, list[str]])
    days = Partitioned(Counter[int])

    @entry
    def note(
        self,
        name: str,
        amount: float,
        data: bytes,
        day: datetime.date,
        at: datetime.datetime,
        price: decimal.Decimal,
        tags: list[str],
        weights: dict[int, float],
    ) -> str:
        told = self.names.setdefault(name, [])
        told.append(f"{amount} {data!r} {day} {at.isoformat()} {price} {tags} {sorted(weights.items())}")
        if amount < 0:
            raise ValueError(f"{amount} is below zero")
        if amount > 100:
            self.days[len(tags)] += 1
            raise KeyError("too much")
        return told[-1]


class Mended(Program):
    """The same, and nothing is wrong with any amount."""

    names = Partitioned(Map[str, list[str]])
    days = Partitioned(Counter[int])

    @entry
    def note(
        self,
        name: str,
        amount: float,
        data: bytes,
        day: datetime.date,
        at: datetime.datetime,
        price: decimal.Decimal,
        tags: list[str],
        weights: dict[int, float],
    ) -> str:
        told = self.names.setdefault(name, [])
        told.append(f"{amount} {data!r} {day} {at.isoformat()} {price} {tags} {sorted(weights.items())}")
        if amount > 100:
            self.days[len(tags)] += 1
        return told[-1]


class Late(Program):
    """Raises on a negative number; remembers when rows happened."""

    seen = Partitioned(Map[int, list[str]])

    @entry
    def see(self, key: int, n: int) -> str:
        self.seen.setdefault(key, []).append(self.now.isoformat())
        if n < 0:
            raise ValueError(n)
        return self.now.isoformat()


class Mild(Program):
    """The same, and raises never."""

    seen = Partitioned(Map[int, list[str]])

    @entry
    def see(self, key: int, n: int) -> str:
        self.seen.setdefault(key, []).append(self.now.isoformat())
        return self.now.isoformat()
