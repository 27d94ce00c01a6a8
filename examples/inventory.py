"""An inventory: a basket gets all of its items, or none of them; a parcel moves pieces between two warehouses.

The items of a basket are a list argument, so all keys of the method follow from its arguments, and it runs *gathered*:
exact, and all or nothing. A refusal in the middle of the loop puts back what was taken before it.
"""

from __future__ import annotations

import random
import sys
from collections import Counter as Tally
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from examples.refusals import play
from examples.rows import Row, hot
from millpond import Counter, Map, Partitioned, Program, entry

SEED = 21
ROWS = 3_000
WAREHOUSES = ("mill", "harbour")
ITEMS = ("flour", "oats", "rye", "barley", "spelt", "sieve", "sack", "millstone")


@dataclass
class Shelf:
    """Pieces of an item in a warehouse: those there, and those that were sold from it."""

    pieces: int = 0
    sold: int = 0


class Inventory(Program):
    """Sells baskets from shelves that never go below zero."""

    shelves = Partitioned(Map[tuple[str, str], Shelf])  # by warehouse and item
    orders = Partitioned(Map[int, list[str]])
    missed = Partitioned(Counter[str])

    @entry
    def deliver(self, warehouse: str, item: str, pieces: int) -> int:
        """Put pieces on a shelf; answers how many are there now."""
        shelf = self.shelves.setdefault((warehouse, item), Shelf())
        shelf.pieces += pieces
        return shelf.pieces

    @entry
    def basket(self, order: int, warehouse: str, items: list[str]) -> int:
        """Sell one piece of each item, or nothing; answers how many were sold."""
        self.orders[order] = []
        for item in items:
            self._take(warehouse, item)
            self.orders[order].append(item)
        return len(items)

    @entry
    def basket_or_note(self, order: int, warehouse: str, items: list[str]) -> int:
        """Sell one piece of each item, or note what was missed; answers how many that were."""
        missing = 0
        for item in items:
            if self._left(warehouse, item) < items.count(item):
                self.missed[item] += 1
                missing += 1
        if not missing:
            for item in items:
                self._take(warehouse, item)
            self.orders[order] = list(items)
        return missing

    @entry
    def send(self, origin: str, goal: str, item: str, pieces: int) -> tuple[int, int]:
        """Move pieces from one warehouse to another; answers how many are in each."""
        if self._left(origin, item) < pieces:
            self.abort(f"{origin} has too few")
        self.shelves[origin, item].pieces -= pieces
        self.shelves.setdefault((goal, item), Shelf()).pieces += pieces
        return self._left(origin, item), self._left(goal, item)

    @entry
    def in_stock(self, warehouses: list[str], item: str) -> int:
        """Answer how many pieces warehouses have."""
        return sum(self.shelves[house, item].pieces for house in warehouses if (house, item) in self.shelves)

    def _left(self, warehouse: str, item: str) -> int:
        return self.shelves.get((warehouse, item), Shelf()).pieces

    def _take(self, warehouse: str, item: str) -> None:
        if self._left(warehouse, item) < 1:
            self.abort(f"{warehouse} has no {item}")
        shelf = self.shelves[warehouse, item]
        shelf.pieces -= 1
        shelf.sold += 1


def make_rows(seed: int, count: int) -> list[Row]:
    """Make up baskets, with deliveries that do not quite keep up."""
    chance = random.Random(seed)
    rows: list[Row] = []
    for number in range(count):
        warehouse, item = hot(chance, WAREHOUSES), hot(chance, ITEMS)
        items = [hot(chance, ITEMS) for _ in range(chance.randrange(1, 5))]
        (kind,) = chance.choices(("deliver", "basket", "basket_or_note", "send", "in_stock"), (6, 8, 4, 3, 1))
        arguments = {
            "deliver": (warehouse, item, chance.randrange(1, 9)),
            "basket": (number, warehouse, items),
            "basket_or_note": (number, warehouse, items),
            "send": (*chance.sample(WAREHOUSES, 2), item, chance.randrange(1, 4)),
            "in_stock": (list(WAREHOUSES), item),
        }
        rows.append((kind, arguments[kind]))
    return rows


def main() -> int:
    """Run the class as plain Python, and show the books."""
    inventory, rows = Inventory(), make_rows(SEED, ROWS)
    _, refused = play(inventory, rows)
    delivered: Tally[str] = Tally()
    for name, arguments in rows:
        if name == "deliver":
            delivered[arguments[1]] += arguments[2]
    console = Console(highlight=False)
    table = Table("item", "delivered", "sold", "in stock", "noted as missed", title="The books", title_justify="left")
    whole = True
    for item in ITEMS:
        shelves = [shelf for (_, of), shelf in inventory.shelves.items() if of == item]
        sold, left = sum(shelf.sold for shelf in shelves), sum(shelf.pieces for shelf in shelves)
        whole = whole and delivered[item] == sold + left
        table.add_row(item, *(f"{n:,}" for n in (delivered[item], sold, left, inventory.missed[item])))
    console.print(table)
    asked = Tally(name for name, _ in rows)
    back = Tally(rows[number][0] for number in refused)
    console.print(f"{asked['basket'] - back['basket']:,} baskets were sold, {back['basket']:,} were put back whole.")
    console.print(f"{asked['send'] - back['send']:,} parcels were sent, {back['send']:,} were not.")
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
