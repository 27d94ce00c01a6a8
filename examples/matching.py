"""A matching engine: an order book for each instrument, and trades that cross the accounts of several traders.

A purchase names the sellers whose offers it may take. So all its keys follow from its arguments: the book, the cash of
the buyer and of each seller, what the buyer holds. It runs *gathered*, exact, all or nothing. (A purchase that takes
whatever the book has would find its sellers in the state, and such keys are refused; see docs/EXACTNESS.md.)
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
from millpond import Map, Partitioned, Program, entry

SEED = 8
ROWS = 3_000
TRADERS = ("ann", "bob", "cem", "dee", "eli", "fay", "gus", "hal")
INSTRUMENTS = ("corn", "rye", "oats", "spelt")
CASH, PIECES = 500, 40


@dataclass
class Offer:
    """Pieces that a trader sells, at a price."""

    number: int
    trader: str
    price: int
    pieces: int


class Exchange(Program):
    """Books of offers, the cheapest first; and what everybody has."""

    offers = Partitioned(Map[str, list[Offer]])
    cash = Partitioned(Map[str, int])
    holdings = Partitioned(Map[tuple[str, str], int])  # by trader and instrument

    @entry
    def join(self, trader: str, instrument: str, cash: int, pieces: int) -> int:
        """Let a trader bring cash and pieces; answers with all the cash that they have."""
        self.cash[trader] = self.cash.get(trader, 0) + cash
        self.holdings[trader, instrument] = self.holdings.get((trader, instrument), 0) + pieces
        return self.cash[trader]

    @entry
    def sell(self, number: int, trader: str, instrument: str, price: int, pieces: int) -> int:
        """Put an offer into the book; answers with its place there."""
        held = self.holdings.get((trader, instrument), 0)
        if held < pieces:
            self.abort(f"{trader} has only {held} {instrument}")
        self.holdings[trader, instrument] = held - pieces
        book = self.offers.setdefault(instrument, [])
        book.append(Offer(number, trader, price, pieces))
        book.sort(key=lambda offer: (offer.price, offer.number))
        return [offer.number for offer in book].index(number) + 1

    @entry
    def buy(self, buyer: str, instrument: str, price: int, pieces: int, sellers: list[str]) -> int:
        """Buy all pieces from some sellers, at a price or below, or none; answers with what they cost."""
        book = self.offers.get(instrument, [])
        wanted, cost = pieces, 0
        for seller in sellers:
            paid = 0
            for offer in book:
                if offer.trader == seller and offer.price <= price:
                    taken = min(wanted, offer.pieces)
                    offer.pieces -= taken
                    wanted -= taken
                    paid += taken * offer.price
            self.cash[seller] = self.cash.get(seller, 0) + paid
            cost += paid
        if wanted:
            self.abort(f"{wanted} {instrument} are missing")
        if self.cash.get(buyer, 0) < cost:
            self.abort(f"{buyer} can't pay {cost}")
        self.cash[buyer] -= cost
        self.holdings[buyer, instrument] = self.holdings.get((buyer, instrument), 0) + pieces
        book[:] = [offer for offer in book if offer.pieces]
        return cost

    @entry
    def swap(self, one: str, other: str, give: str, take: str) -> bool:
        """Exchange a piece for a piece; answers whether both had theirs."""
        if self.holdings.get((one, give), 0) < 1 or self.holdings.get((other, take), 0) < 1:
            return False
        for trader, gone, come in ((one, give, take), (other, take, give)):
            self.holdings[trader, gone] -= 1
            self.holdings[trader, come] = self.holdings.get((trader, come), 0) + 1
        return True

    @entry
    def best(self, instruments: list[str]) -> dict[str, int]:
        """Answer with the lowest price of each instrument that is on offer."""
        return {name: self.offers[name][0].price for name in instruments if self.offers.get(name)}


def make_rows(seed: int, count: int) -> list[Row]:
    """Make up traders who join first, and then trade."""
    chance = random.Random(seed)
    rows: list[Row] = [("join", (trader, hot(chance, INSTRUMENTS), CASH, PIECES)) for trader in TRADERS]
    for number in range(count):
        instrument, price = hot(chance, INSTRUMENTS), chance.randrange(1, 9)
        (kind,) = chance.choices(("sell", "buy", "swap", "best"), (6, 9, 2, 1))
        arguments = {
            "sell": (number, chance.choice(TRADERS), instrument, price, chance.randrange(1, 6)),
            "buy": (hot(chance, TRADERS), instrument, price + 4, chance.randrange(1, 5), chance.sample(TRADERS, 3)),
            "swap": (*chance.sample(TRADERS, 2), instrument, chance.choice(INSTRUMENTS)),
            "best": (list(INSTRUMENTS),),
        }
        rows.append((kind, arguments[kind]))
    return rows[:count]


def main() -> int:
    """Run the class as plain Python, and show the traders and the books."""
    exchange, rows = Exchange(), make_rows(SEED, ROWS)
    _, refused = play(exchange, rows)
    console = Console(highlight=False)
    table = Table("trader", "cash", *INSTRUMENTS, title="What everybody has", title_justify="left")
    for trader in TRADERS:
        held = (exchange.holdings.get((trader, instrument), 0) for instrument in INSTRUMENTS)
        table.add_row(trader, f"{exchange.cash[trader]:,}", *map(str, held))
    console.print(table)
    asked, back = Tally(name for name, _ in rows), Tally(rows[number][0] for number in refused)
    for name in ("sell", "buy"):
        console.print(f"{name}: {asked[name] - back[name]:,} done, {back[name]:,} refused and undone")
    offered = sum(offer.pieces for book in exchange.offers.values() for offer in book)
    pieces = offered + sum(exchange.holdings.values())
    console.print(f"Pieces: {pieces:,}, of which {offered:,} are on offer. Cash: {sum(exchange.cash.values()):,}.")
    return 0 if (pieces, sum(exchange.cash.values())) == (PIECES * len(TRADERS), CASH * len(TRADERS)) else 1


if __name__ == "__main__":
    sys.exit(main())
