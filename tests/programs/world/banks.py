"""Banks, exchanges, auctions and insurers."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from millpond import List, Map, Partitioned, Program, Value, entry


@dataclass
class Account:
    owner: str
    balance: int = 0
    payout: str = ""


class Payouts(Program):
    """A payout goes to the account that is stored with the merchant."""

    accounts = Partitioned(Map[str, Account])

    @entry
    def open(self, name: str, owner: str, payout: str = "") -> None:
        self.accounts[name] = Account(owner, payout=payout)

    @entry
    def deposit(self, name: str, cents: int) -> int:
        account = self.accounts[name]
        account.balance += cents
        return account.balance

    @entry
    def pay_out(self, name: str) -> int:
        source = self.accounts[name]
        target = self.accounts.get(source.payout)
        if target is None:
            return 0
        cents, source.balance = source.balance, 0
        target.balance += cents
        return cents


class Fee(ABC):
    @abstractmethod
    def of(self, cents: int) -> int: ...


class Percent(Fee):
    def of(self, cents: int) -> int:
        return cents // 100


class Flat(Fee):
    def of(self, cents: int) -> int:
        return 5


FEES: dict[str, Fee] = {"percent": Percent(), "flat": Flat()}


class Ledger(Program):
    """Double entry: a journal, balances, fees by a strategy, an audit over everything."""

    balances = Partitioned(Map[str, int])
    journal = Partitioned(List[tuple[str, str, int]])

    def _book(self, source: str, target: str, cents: int) -> None:
        self.balances[source] = self.balances.get(source, 0) - cents
        self.balances[target] = self.balances.get(target, 0) + cents
        self.journal.append((source, target, cents))

    @entry
    def transfer(self, source: str, target: str, cents: int, fee: str = "flat") -> int:
        self._book(source, target, cents)
        charged = FEES[fee].of(cents)
        if charged:
            self._book(source, "bank", charged)
        return self.balances[source]

    @entry
    def audit(self) -> int:
        if sum(self.balances.values()) != 0:
            raise ValueError("the books do not balance")
        return len(self.journal)


class Interest(Program):
    """Interest for everybody: an entry point that calls another one, and a try around it."""

    balances = Partitioned(Map[str, int])

    @entry
    def withdraw(self, name: str, cents: int) -> int:
        left = self.balances.get(name, 0) - cents
        if left < 0:
            raise ValueError("not enough")
        self.balances[name] = left
        return left

    @entry
    def deposit(self, name: str, cents: int) -> None:
        self.balances[name] = self.balances.get(name, 0) + cents

    @entry
    def collect(self, names: list[str], cents: int) -> list[str]:
        failed = []
        for name in names:
            try:
                self.withdraw(name, cents)
            except ValueError:
                failed.append(name)
        return failed

    @entry
    def richest(self, most: int) -> list[str]:
        return heapq.nlargest(most, self.balances, key=lambda name: (self.balances[name], name))


class Bid(NamedTuple):
    bidder: str
    cents: int


@dataclass
class Auction:
    seller: str
    reserve: int
    closes: datetime
    bids: list[Bid]


class Auctions(Program):
    """Nexmark's auctions: bids, winners, the seller's reputation; keys that follow from state."""

    auctions = Partitioned(Map[int, Auction])
    won = Partitioned(Map[str, list[int]])
    sold = Partitioned(Map[str, int])

    @entry
    def open(self, number: int, seller: str, reserve: int, closes: datetime) -> None:
        self.auctions[number] = Auction(seller, reserve, closes, [])

    @entry
    def bid(self, number: int, bidder: str, cents: int, at: datetime) -> bool:
        auction = self.auctions.get(number)
        if auction is None or at > auction.closes:
            return False
        best = max(auction.bids, key=lambda bid: bid.cents, default=None)
        if best is not None and cents <= best.cents:
            return False
        auction.bids.append(Bid(bidder, cents))
        return True

    @entry
    def close(self, number: int) -> str | None:
        auction = self.auctions.pop(number, None)
        if auction is None or not auction.bids:
            return None
        winner = auction.bids[-1]
        if winner.cents < auction.reserve:
            return None
        self.won.setdefault(winner.bidder, []).append(number)
        self.sold[auction.seller] = self.sold.get(auction.seller, 0) + winner.cents
        return winner.bidder


@dataclass(order=True)
class Quote:
    price: int
    place: int
    trader: str
    pieces: int


class Book(Program):
    """A limit order book in two heaps."""

    asks = Partitioned(Map[str, list[Quote]])
    bids = Partitioned(Map[str, list[Quote]])
    count = Partitioned(Value[int])
    positions = Partitioned(Map[tuple[str, str], int])

    @entry
    def order(self, symbol: str, trader: str, side: str, price: int, pieces: int) -> int:
        place = self.count.get(0) + 1
        self.count.set(place)
        buys = side == "buy"
        book, other = (self.bids, self.asks) if buys else (self.asks, self.bids)
        heap = other.setdefault(symbol, [])
        done = 0
        while heap and pieces:
            best = heap[0]
            if (buys and best.price > price) or (not buys and -best.price < price):
                break
            taken = min(best.pieces, pieces)
            pieces -= taken
            done += taken
            best.pieces -= taken
            self._move(symbol, trader, taken if buys else -taken)
            self._move(symbol, best.trader, -taken if buys else taken)
            if not best.pieces:
                heapq.heappop(heap)
        if pieces:
            heapq.heappush(book.setdefault(symbol, []), Quote(-price if buys else price, place, trader, pieces))
        return done

    def _move(self, symbol: str, trader: str, pieces: int) -> None:
        key = (symbol, trader)
        self.positions[key] = self.positions.get(key, 0) + pieces


class Sessions(Program):
    """Logins by UUID, the last ten pages of each in an OrderedDict, thrown out after a while."""

    pages = Partitioned(Map[UUID, OrderedDict[str, int]])
    seen = Partitioned(Map[UUID, datetime])

    @entry
    def visit(self, login: UUID, page: str, at: datetime) -> list[str]:
        last = self.seen.get(login)
        if last is not None and at - last > timedelta(minutes=30):
            self.pages.pop(login, None)
        self.seen[login] = at
        pages = self.pages.setdefault(login, OrderedDict())
        pages[page] = pages.pop(page, 0) + 1
        while len(pages) > 3:
            pages.popitem(last=False)
        return list(pages)


@dataclass(frozen=True)
class Policy:
    holder: str
    premium: int
    claims: int = 0


class Insurance(Program):
    """Frozen records that are replaced, an inherited base program, super()."""

    policies = Partitioned(Map[str, Policy])

    @entry
    def insure(self, number: str, holder: str, premium: int) -> None:
        self.policies[number] = Policy(holder, premium)

    @entry
    def claim(self, number: str) -> int:
        policy = self.policies[number]
        self.policies[number] = replace(policy, claims=policy.claims + 1, premium=self.premium_after(policy))
        return self.policies[number].premium

    def premium_after(self, policy: Policy) -> int:
        return policy.premium


class CarInsurance(Insurance):
    @entry
    def claim(self, number: str) -> int:
        return super().claim(number)

    def premium_after(self, policy: Policy) -> int:
        return super().premium_after(policy) * 2


NOW = datetime(2026, 1, 1, tzinfo=UTC)
LOGIN = UUID(int=7)

CASES = [
    (
        Payouts,
        [
            ("open", "shop", "ann", "main"),
            ("open", "main", "ann", ""),
            ("deposit", "shop", 70),
            ("pay_out", "shop"),
            ("pay_out", "main"),
            ("deposit", "main", 1),
        ],
    ),
    (
        Ledger,
        [
            ("transfer", "ann", "bob", 1000, "percent"),
            ("transfer", "bob", "ann", 10, "flat"),
            ("audit",),
            ("transfer", "bob", "bob", 50, "percent"),
            ("audit",),
        ],
    ),
    (
        Interest,
        [
            ("deposit", "ann", 10),
            ("deposit", "bob", 3),
            ("collect", ["ann", "bob", "cid", "ann"], 4),
            ("richest", 2),
            ("withdraw", "ann", 1),
        ],
    ),
    (
        Auctions,
        [
            ("open", 1, "ann", 50, NOW),
            ("open", 2, "ann", 50, NOW),
            ("bid", 1, "bob", 60, NOW),
            ("bid", 1, "cid", 55, NOW),
            ("bid", 2, "cid", 40, NOW),
            ("bid", 2, "cid", 45, NOW + timedelta(days=1)),
            ("close", 1),
            ("close", 2),
            ("close", 3),
        ],
    ),
    (
        Book,
        [
            ("order", "x", "ann", "sell", 10, 5),
            ("order", "x", "bob", "sell", 9, 5),
            ("order", "x", "cid", "buy", 10, 7),
            ("order", "x", "dee", "buy", 8, 2),
            ("order", "x", "ann", "sell", 7, 4),
        ],
    ),
    (
        Sessions,
        [
            ("visit", LOGIN, "a", NOW),
            ("visit", LOGIN, "b", NOW),
            ("visit", LOGIN, "a", NOW + timedelta(minutes=1)),
            ("visit", LOGIN, "c", NOW + timedelta(minutes=2)),
            ("visit", LOGIN, "d", NOW + timedelta(minutes=3)),
            ("visit", LOGIN, "e", NOW + timedelta(hours=3)),
        ],
    ),
    (
        CarInsurance,
        [("insure", "7", "ann", 100), ("claim", "7"), ("claim", "7")],
    ),
]
