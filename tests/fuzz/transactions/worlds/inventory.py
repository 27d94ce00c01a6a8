"""An inventory: a basket takes all of its items from the stock, or none.

Pieces are in stock or sold, and none is lost: `missing` is zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millpond.program import Partitioned, ProgramBase, entry
from millpond.state.containers.counter import Counter
from millpond.state.containers.map import Map
from tests.fuzz.dice import Dice
from tests.fuzz.rows import Row
from tests.fuzz.transactions.worlds.picking import Picker

ITEMS = ("flour", "oats", "rye", "barley", "spelt", "sieve", "sack", "millstone")


class Inventory(ProgramBase):
    """Keeps pieces, and what was delivered and sold."""

    stock = Partitioned(Map[str, int])
    delivered = Partitioned(Counter[str])
    sold = Partitioned(Counter[str])
    orders = Partitioned(Map[int, list[str]])

    def _take(self, item: str, pieces: int) -> int:
        left = self.stock.get(item, 0) - pieces
        if left < 0:
            self.abort(f"no {item}")
        self.stock[item] = left
        self.sold[item] += pieces
        return left

    @entry
    def deliver(self, item: str, pieces: int) -> int:
        """Put pieces on the shelf."""
        self.stock[item] = self.stock.get(item, 0) + pieces
        self.delivered[item] += pieces
        return self.stock[item]

    @entry
    def basket(self, order: int, items: list[str]) -> int:
        """Take one piece of each; a refusal in the middle puts all back."""
        if order in self.orders:
            self.abort(f"order {order} is there")
        self.orders[order] = []
        left = 0
        for item in items:
            left += self._take(item, 1)
            self.orders[order].append(item)
        return left

    @entry
    def careful(self, order: int, items: list[str], pieces: int) -> list[str]:
        """Take so many of each if they are there; answers with what is short."""
        short = [item for item in items if self.stock.get(item, 0) < pieces * items.count(item)]
        if short:
            return sorted(set(short))
        for item in items:
            self._take(item, pieces)
        self.orders.setdefault(order, []).extend(item for item in items for _ in range(pieces))
        return []

    @entry
    def cancel(self, order: int, items: list[str]) -> int:
        """Take back an order, item by item, as its customer lists them; raises if it is another one."""
        held = self.orders[order]
        for item in items:
            held.remove(item)
            self.stock[item] = self.stock.get(item, 0) + 1
            self.sold[item] -= 1
        if held:
            raise LookupError(f"{len(held)} more were bought")
        del self.orders[order]
        return len(items)

    @entry
    def relabel(self, item: str, other: str, pieces: int) -> tuple[int, int]:
        """Sell pieces of one item as another; raises if there are too few, after it has begun."""
        self.stock[other] = self.stock.get(other, 0) + pieces
        self.delivered[other] += pieces
        self.stock[item] -= pieces
        self.delivered[item] -= pieces
        assert self.stock[item] >= 0, "too few"
        return self.stock[item], self.stock[other]

    @entry
    def count(self, items: list[str]) -> dict[str, int]:
        """Answer with the stock of items."""
        return {item: self.stock.get(item, 0) for item in sorted(set(items))}


def make_rows(seed: int, count: int) -> list[Row]:
    """Rows over a few items; deliveries do not quite keep up."""
    dice = Dice(seed)
    pick = Picker(dice, ITEMS[: dice.one((3, 5, len(ITEMS)))])
    rows: list[Row] = []
    bought: list[tuple[int, list[str]]] = [(0, [])]
    for number in range(count):
        items, order = pick.several(), number if dice.chance(0.9) else dice.between(0, number)
        row: tuple[str, tuple[Any, ...]] = dice.weighted(
            [
                (5, ("deliver", (pick.one(), dice.between(0, 7)))),
                (7, ("basket", (order, items))),
                (4, ("careful", (order, items, dice.between(0, 2)))),
                (2, ("cancel", dice.one(bought))),
                (2, ("relabel", (*pick.pair(), dice.between(0, 3)))),
                (1, ("count", (items,))),
            ]
        )
        if row[0] == "basket":
            bought.append((order, dice.shuffled(items)))
        rows.append(row)
    return rows


def missing(state: Mapping[str, Mapping[Any, Any]]) -> int:
    """Pieces that were delivered and are neither in stock nor sold: zero, or some were lost."""
    delivered, sold, stock = (sum(state[name].values()) for name in ("delivered", "sold", "stock"))
    return int(delivered - sold - stock)
