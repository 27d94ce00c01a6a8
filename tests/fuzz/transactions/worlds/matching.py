"""A matching engine: offers by instrument, cash and holdings by trader; a purchase crosses the accounts of its sellers.

The traders whose offers a purchase may take are its argument, so all its keys are. Cash and pieces change hands, and
none is lost: `out_of_balance` is all zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millpond.program import Partitioned, ProgramBase, entry
from millpond.state.containers.map import Map
from millpond.state.containers.value import Value
from tests.fuzz.dice import Dice
from tests.fuzz.rows import Row
from tests.fuzz.transactions.worlds.picking import Picker

TRADERS = ("ann", "bob", "cem", "dee", "eli", "fay")
INSTRUMENTS = ("corn", "rye", "oats")


@dataclass
class Offer:
    """What a trader wants to sell, at least at a price."""

    number: int
    trader: str
    price: int
    pieces: int


class Exchange(ProgramBase):
    """Offers in the order of their price, and what everybody has."""

    offers = Partitioned(Map[str, list[Offer]])
    cash = Partitioned(Map[str, int])
    holdings = Partitioned(Map[tuple[str, str], int])
    last = Partitioned(Map[str, tuple[int, int]])
    brought = Partitioned(Map[str, tuple[int, int]])
    opened = Partitioned(Value[str])

    @entry
    def fund(self, trader: str, cash: int, instrument: str, pieces: int) -> tuple[int, int]:
        """Give a trader something to begin with."""
        self.cash[trader] = self.cash.get(trader, 0) + cash
        key = (trader, instrument)
        self.holdings[key] = self.holdings.get(key, 0) + pieces
        before = self.brought.get(trader, (0, 0))
        self.brought[trader] = (before[0] + cash, before[1] + pieces)
        return self.cash[trader], self.holdings[key]

    @entry
    def sell(self, number: int, trader: str, instrument: str, price: int, pieces: int) -> int:
        """Put an offer into the book; its pieces leave the holdings now."""
        self.holdings[trader, instrument] -= pieces
        if self.holdings[trader, instrument] < 0:
            self.abort(f"{trader} has no {pieces} {instrument}")
        book = self.offers.setdefault(instrument, [])
        book.append(Offer(number, trader, price, pieces))
        book.sort(key=lambda offer: (offer.price, offer.number))
        return [offer.number for offer in book].index(number)

    @entry
    def buy(self, buyer: str, instrument: str, price: int, pieces: int, sellers: list[str]) -> int:
        """Take offers of some sellers, one after the other, all or nothing; answers with what it cost."""
        book = self.offers.get(instrument, [])
        left, cost = pieces, 0
        for seller in sellers:
            for offer in book:
                if offer.trader != seller or offer.price > price:
                    continue
                taken = min(left, offer.pieces)
                offer.pieces -= taken
                left -= taken
                cost += taken * offer.price
                self.cash[seller] = self.cash.get(seller, 0) + taken * offer.price
                if left == 0:
                    break
            if left == 0:
                break
        book[:] = [offer for offer in book if offer.pieces]
        self.cash[buyer] = self.cash.get(buyer, 0) - cost
        if left:
            self.abort(f"{left} {instrument} are not for sale")
        if self.cash[buyer] < 0:
            raise ValueError(f"{buyer} can't pay {cost}")
        self.holdings[buyer, instrument] = self.holdings.get((buyer, instrument), 0) + pieces
        self.last[instrument] = (cost, pieces)
        return cost

    @entry
    def swap(self, one: str, other: str, give: str, take: str) -> bool:
        """Exchange a piece for a piece, if both have one."""
        if min(self.holdings.get((one, give), 0), self.holdings.get((other, take), 0)) < 1:
            return False
        for trader, lost, won in ((one, give, take), (other, take, give)):
            self.holdings[trader, lost] -= 1
            self.holdings[trader, won] = self.holdings.get((trader, won), 0) + 1
        return True

    @entry
    def withdraw(self, trader: str, instrument: str) -> int:
        """Take all offers of a trader out of a book; raises if the book never was."""
        book = self.offers[instrument]
        back = sum(offer.pieces for offer in book if offer.trader == trader)
        book[:] = [offer for offer in book if offer.trader != trader]
        self.holdings[trader, instrument] += back
        return back

    @entry
    def depth(self, instrument: str) -> list[tuple[int, int]]:
        """Answer with the prices and pieces of a book."""
        return [(offer.price, offer.pieces) for offer in self.offers.get(instrument, [])]

    @entry
    def open(self, day: str) -> str | None:
        """Begin a day; answers with the one before. No other method asks."""
        before = self.opened.get("") or None
        self.opened.set(day)
        return before


def make_rows(seed: int, count: int) -> list[Row]:
    """Rows over a few traders and instruments."""
    dice = Dice(seed)
    pick = Picker(dice, TRADERS[: dice.one((2, 4, len(TRADERS)))])
    traded = INSTRUMENTS[: dice.between(1, len(INSTRUMENTS))]
    rows: list[Row] = []
    for number in range(count):
        instrument, price = dice.one(traded), dice.between(1, 5)
        row: tuple[str, tuple[Any, ...]] = dice.weighted(
            [
                (4, ("fund", (pick.one(), dice.between(0, 30), instrument, dice.between(0, 5)))),
                (6, ("sell", (number, pick.one(), instrument, price, dice.between(1, 4)))),
                (7, ("buy", (pick.one(), instrument, price + 2, dice.between(1, 4), pick.several()))),
                (2, ("swap", (*pick.pair(), instrument, dice.one(traded)))),
                (1, ("withdraw", (pick.one(), instrument))),
                (1, ("depth", (instrument,))),
                (0.5, ("open", (f"day {number}",))),
            ]
        )
        rows.append(row)
    return rows


def out_of_balance(state: Mapping[str, Mapping[Any, Any]]) -> tuple[int, int]:
    """Cash and pieces that nobody brought: zeros, or some were lost or made."""
    cash, pieces = (sum(brought[place] for brought in state["brought"].values()) for place in (0, 1))
    offered = sum(offer.pieces for book in state["offers"].values() for offer in book)
    return sum(state["cash"].values()) - cash, sum(state["holdings"].values()) + offered - pieces
