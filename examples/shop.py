"""A shop: baskets by customer, stock by item, and a checkout that takes what is there.

The checkout empties a basket and visits the stock of each of its items in a loop. Turns of the loop do not depend on
each other, so they go out at once, in the order of customers and items: of two customers who want the last piece, the
first gets it. All entry points are exact.
"""

from __future__ import annotations

import random
import sys

from rich.console import Console
from rich.table import Table

from examples.rows import Row, hot, play
from millpond import Counter, Map, Matrix, Partitioned, Program, entry

SEED = 13
ROWS = 5_000
CUSTOMERS = tuple(f"customer-{number:02}" for number in range(30))
ITEMS = ("flour", "oats", "rye", "barley", "spelt", "sieve", "sack", "millstone")


class Shop(Program):
    """Sells from a stock that never goes below zero."""

    baskets = Partitioned(Map[str, dict[str, int]])
    stock = Partitioned(Map[str, int])
    missed = Partitioned(Counter[str])
    bought = Partitioned(Matrix[str, str, int])  # customer x item

    @entry
    def deliver(self, item: str, pieces: int) -> None:
        """Put pieces of an item into the stock."""
        self.stock[item] = self.stock.get(item, 0) + pieces

    @entry
    def put(self, customer: str, item: str, pieces: int) -> int:
        """Put an item into a basket, or take it out with a number below zero; answers how many are in it."""
        basket = self.baskets.setdefault(customer, {})
        wanted = basket.get(item, 0) + pieces
        if wanted > 0:
            basket[item] = wanted
        else:
            basket.pop(item, None)
        return max(wanted, 0)

    @entry
    def check_out(self, customer: str) -> int:
        """Buy as much of a basket as the stock has; answers with the number of different items asked for."""
        basket = self.baskets.pop(customer, {})
        for item, wanted in sorted(basket.items()):
            there = self.stock.get(item, 0)
            sold = min(there, wanted)
            if sold < wanted:
                self.missed[item] += wanted - sold
            if sold > 0:
                self.stock[item] = there - sold
                self.bought[customer, item] += sold
        return len(basket)

    @entry
    def in_stock(self, item: str) -> int:
        """Answer how many pieces of an item are there."""
        return self.stock.get(item, 0)

    @entry
    def history(self, customer: str) -> dict[str, int]:
        """Answer with all that a customer ever bought."""
        return {item: int(pieces) for item, pieces in self.bought.row(customer).items()}


def make_rows(seed: int, count: int) -> list[Row]:
    """Make up shopping, with deliveries that do not quite keep up."""
    chance = random.Random(seed)
    rows: list[Row] = []
    for _ in range(count):
        customer, item = hot(chance, CUSTOMERS), hot(chance, ITEMS)
        (kind,) = chance.choices(("put", "check_out", "deliver", "in_stock", "history"), (12, 4, 2, 1, 1))
        arguments = {
            "put": (customer, item, chance.choice((-1, 1, 1, 2, 3))),
            "check_out": (customer,),
            "deliver": (item, chance.randrange(1, 12)),
            "in_stock": (item,),
            "history": (customer,),
        }
        rows.append((kind, arguments[kind]))
    return rows


def main() -> int:
    """Run the shop as plain Python, and show what was sold and what was missed."""
    shop, rows = Shop(), make_rows(SEED, ROWS)
    play(shop, rows)
    console = Console(highlight=False)
    table = Table("item", "delivered", "sold", "missed", "in stock", title="The books", title_justify="left")
    for item in ITEMS:
        delivered = sum(arguments[1] for name, arguments in rows if name == "deliver" and arguments[0] == item)
        sold = sum(shop.bought.column(item).values())
        table.add_row(item, *(f"{n:,}" for n in (delivered, sold, shop.missed[item], shop.in_stock(item))))
    console.print(table)
    console.print(f"{sum(map(bool, shop.baskets.values()))} baskets wait for their customers.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
