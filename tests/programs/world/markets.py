"""Auctions, exchanges, stores and travel, after benchmarks of stream and transaction engines."""

from __future__ import annotations

import enum
import itertools
import json
import statistics
from collections import ChainMap, deque
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import total_ordering
from operator import itemgetter
from typing import Any, Final, Generic, NewType, TypeAlias, TypeVar

from millpond import Counter, Map, Matrix, Partial, Partitioned, Program, Value, each, entry, merged

AuctionId = NewType("AuctionId", int)
Cents: TypeAlias = int

RATES: Final[Mapping[str, float]] = {"EUR": 1.0, "USD": 0.92, "GBP": 1.17}


@dataclass(frozen=True)
class Bid:
    auction: int
    bidder: int
    price: int
    at: int


@dataclass
class Auction:
    number: int
    seller: int
    category: int
    reserve: int
    expires: int
    bids: list[Bid] = field(default_factory=list)

    @property
    def best(self) -> Bid | None:
        return max(self.bids, key=lambda bid: (bid.price, -bid.at), default=None)

    def winner(self) -> Bid | None:
        best = self.best
        return best if best is not None and best.price >= self.reserve else None


class Nexmark(Program):
    """Persons, auctions and bids: currency, selection, winning bids, prices by category, hot items, new users."""

    persons = Partitioned(Map[int, tuple[str, str]])
    auctions = Partitioned(Map[int, Auction])
    by_seller = Partitioned(Map[int, list[int]])
    prices = Partitioned(Map[int, list[int]])
    hot = Partitioned(Map[int, dict[int, int]])

    @entry
    def person(self, number: int, name: str, state: str) -> list[int]:
        self.persons[number] = (name, state)
        return self.by_seller.get(number, [])

    @entry
    def auction(self, number: int, seller: int, category: int, reserve: int, expires: int) -> str | None:
        self.auctions[number] = Auction(number, seller, category, reserve, expires)
        self.by_seller.setdefault(seller, []).append(number)
        match self.persons.get(seller):
            case (name, "OR" | "ID" | "CA") if category == 10:
                return f"{name} sells {number}"
            case _:
                return None

    @entry
    def bid(self, auction: int, bidder: int, price: int, at: int, currency: str = "EUR") -> float:
        one = self.auctions.get(auction)
        if one is None or at > one.expires:
            self.abort(f"no bids for {auction} at {at}")
        bid = Bid(auction, bidder, price, at)
        one.bids.append(bid)
        window = self.hot.setdefault(at // 10, {})
        window[auction] = window.get(auction, 0) + 1
        return round(price * RATES[currency], 4)

    @entry
    def close(self, auction: int) -> tuple[int, int] | None:
        one = self.auctions.pop(auction, None)
        if one is None or (won := one.winner()) is None:
            return None
        self.prices.setdefault(one.category, []).append(won.price)
        return won.bidder, won.price

    @entry
    def averages(self) -> dict[int, float]:
        return {category: statistics.fmean(prices) for category, prices in self.prices.items()}

    @entry
    def hottest(self, at: int) -> list[int]:
        counts = self.hot.get(at // 10, {})
        most = max(counts.values(), default=0)
        return sorted(auction for auction, count in counts.items() if count == most)


class Side(enum.StrEnum):
    BUY = enum.auto()
    SELL = enum.auto()

    @property
    def other(self) -> Side:
        return Side.SELL if self is Side.BUY else Side.BUY


@total_ordering
@dataclass(eq=False)
class Order:
    number: int
    trader: str
    side: Side
    price: int
    size: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Order) and self.number == other.number

    __hash__ = None  # type: ignore[assignment]

    def __lt__(self, other: Order) -> bool:
        return self._rank() < other._rank()

    def _rank(self) -> tuple[int, int]:
        return (-self.price if self.side is Side.BUY else self.price, self.number)

    def meets(self, other: Order) -> bool:
        return self.price >= other.price if self.side is Side.BUY else self.price <= other.price


@dataclass
class Book:
    buy: list[Order] = field(default_factory=list)
    sell: list[Order] = field(default_factory=list)

    def side(self, side: Side) -> list[Order]:
        return self.buy if side is Side.BUY else self.sell

    def rest(self, order: Order) -> None:
        self.side(order.side).append(order)
        self.side(order.side).sort()


class OrderBook(Program):
    """Limit orders by symbol, matched by price and time; positions of traders follow."""

    books = Partitioned(Map[str, Book])
    positions = Partitioned(Map[tuple[str, str], int])
    numbers = Partitioned(Value[int])

    @entry
    def place(self, symbol: str, trader: str, side: Side, price: int, size: int) -> list[str]:
        self.numbers.set(number := self.numbers.get(0) + 1)
        order = Order(number, trader, side, price, size)
        book = self.books.setdefault(symbol, Book())
        trades = list(self._match(symbol, book, order))
        if order.size:
            book.rest(order)
        return trades

    def _match(self, symbol: str, book: Book, order: Order) -> Iterator[str]:
        against = book.side(order.side.other)
        while order.size and against and order.meets(against[0]):
            other = against[0]
            traded = min(order.size, other.size)
            order.size -= traded
            other.size -= traded
            if not other.size:
                against.pop(0)
            sign = 1 if order.side is Side.BUY else -1
            for trader, change in ((order.trader, sign * traded), (other.trader, -sign * traded)):
                key = (trader, symbol)
                self.positions[key] = self.positions.get(key, 0) + change
            yield f"{traded} at {other.price}"

    @entry
    def cancel(self, symbol: str, number: int) -> bool:
        book = self.books.get(symbol)
        if book is None:
            return False
        before = len(book.buy) + len(book.sell)
        book.buy = [order for order in book.buy if order.number != number]
        book.sell = [order for order in book.sell if order.number != number]
        return len(book.buy) + len(book.sell) < before


class Ycsb(Program):
    """Key-value operations with read-modify-write over several keys, as one transaction each."""

    table = Partitioned(Map[str, dict[str, str]])

    @entry
    def insert(self, key: str, fields: dict[str, str]) -> bool:
        if key in self.table:
            return False
        self.table[key] = {name: fields[name] for name in sorted(fields)}
        return True

    @entry
    def read(self, key: str, names: list[str] | None = None) -> dict[str, str]:
        row = self.table.get(key, {})
        return {name: row[name] for name in names if name in row} if names is not None else dict(row)

    @entry
    def scan(self, first: str, count: int = 2) -> list[str]:
        return list(itertools.islice((key for key in self.table if key >= first), count))

    @entry
    def swap(self, keys: list[str], name: str) -> list[str]:
        rows = [self.table[key] for key in keys]
        values = [row.get(name, "") for row in rows]
        for row, value in zip(rows, values[1:] + values[:1], strict=True):
            row[name] = value
        return values


T = TypeVar("T")


@dataclass
class Ring(Generic[T]):
    """The last items, first in first out."""

    size: int
    items: list[T] = field(default_factory=list)

    def push(self, item: T) -> T | None:
        self.items.append(item)
        return self.items.pop(0) if len(self.items) > self.size else None


class Candles(Program):
    """Prices by minute: open, high, low, close; a moving mean of the last closes."""

    current = Partitioned(Map[str, dict[str, int]])
    closes = Partitioned(Map[str, Ring[int]])

    @entry
    def tick(self, symbol: str, minute: int, price: int) -> dict[str, int] | None:
        candle = self.current.get(symbol)
        done = None
        if candle is not None and candle["minute"] != minute:
            done = dict(candle)
            self.closes.setdefault(symbol, Ring(3)).push(candle["close"])
            candle = None
        if candle is None:
            candle = {"minute": minute, "open": price, "high": price, "low": price}
        candle |= {"high": max(candle["high"], price), "low": min(candle["low"], price), "close": price}
        self.current[symbol] = candle
        return done

    @entry
    def mean(self, symbol: str) -> float | None:
        ring = self.closes.get(symbol)
        return sum(ring.items) / len(ring.items) if ring else None


@dataclass
class Trip:
    user: str
    _: KW_ONLY
    hotel: str | None = None
    flight: str | None = None
    discount: InitVar[int] = 0
    price: int = 0

    def __post_init__(self, discount: int) -> None:
        self.price -= discount


class Travel(Program):
    """A trip of a hotel and a flight: both or none, with what is left of each."""

    rooms = Partitioned(Map[str, int])
    seats = Partitioned(Map[str, int])
    trips = Partitioned(Map[str, list[str]])

    @entry
    def offer(self, kind: str, name: str, count: int) -> None:
        {"hotel": self.rooms, "flight": self.seats}[kind][name] = count

    def _take(self, of: Any, name: str) -> None:
        if of.get(name, 0) <= 0:
            self.abort(f"{name} is full")
        of[name] -= 1

    @entry
    def book(self, user: str, hotel: str | None = None, flight: str | None = None) -> int:
        trip = Trip(user, hotel=hotel, flight=flight, price=100, discount=10)
        if trip.hotel:
            self._take(self.rooms, trip.hotel)
        if trip.flight is not None:
            self._take(self.seats, trip.flight)
        self.trips.setdefault(user, []).append(f"{trip.hotel or '-'}/{trip.flight or '-'}")
        return trip.price


class Tree(Program):
    """An organisation: bosses by person, all below somebody by recursion, moves that keep it a tree."""

    boss = Partitioned(Map[str, str])
    reports = Partitioned(Map[str, set[str]])

    def _below(self, person: str) -> set[str]:
        return {person}.union(*(self._below(one) for one in self.reports.get(person, set())))

    @entry
    def hire(self, person: str, boss: str) -> bool:
        if boss in self._below(person):
            return False
        old = self.boss.get(person)
        if old is not None:
            self.reports[old].remove(person)
        self.boss[person] = boss
        self.reports.setdefault(boss, set()).add(person)
        return True

    @entry
    def size(self, person: str) -> int:
        return len(self._below(person)) - 1

    @entry
    def chain(self, person: str) -> list[str]:
        above = [person]
        while (person := self.boss.get(person, "")) and person not in above:
            above.append(person)
        return above


class Configured(Program):
    """Settings by layer, the nearest wins; documents of text that are read as JSON."""

    layers = Partitioned(Map[tuple[str, str], dict[str, str]])
    ORDER = ("user", "team", "all")

    @entry
    def set(self, layer: str, name: str, document: str) -> int:
        try:
            found = json.loads(document)
        except json.JSONDecodeError:
            return -1
        if not isinstance(found, dict):
            return -1
        known = self.layers.setdefault((layer, name), {})
        known.update({str(key): json.dumps(value, sort_keys=True) for key, value in found.items() if value is not None})
        for key in [key for key, value in found.items() if value is None]:
            known.pop(key, None)
        return len(known)

    @entry
    def get(self, user: str, team: str, key: str, default: str = "null") -> str:
        names = dict(zip(self.ORDER, (user, team, "*"), strict=True))
        chain = ChainMap(*(self.layers.get((layer, name), {}) for layer, name in names.items()))
        return chain.get(key, default)


class TicTacToe(Program):
    """Games by table: a board as text, turns, and a winner."""

    boards = Partitioned(Map[str, str])
    wins = Partitioned(Counter[str])

    LINES = tuple(
        tuple(line) for line in ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
    )

    @entry
    def play(self, table: str, cell: int) -> str:
        board = self.boards.get(table, "." * 9)
        assert 0 <= cell < 9, "no such cell"
        if board[cell] != ".":
            return "taken"
        mark = "xo"[(9 - board.count(".")) % 2]
        board = board[:cell] + mark + board[cell + 1 :]
        won = any(all(board[at] == mark for at in line) for line in self.LINES)
        if won or "." not in board:
            self.boards.pop(table, None)
            self.wins[mark if won else "-"] += 1
            return f"{mark} wins" if won else "draw"
        self.boards[table] = board
        return board


class Recommends(Program):
    """Items that go together, in a matrix by item; popularity in partial counts."""

    together = Partitioned(Matrix[str, str, int])
    seen = Partial(Counter[str])
    baskets = Partitioned(Map[str, list[str]])

    @entry
    def add(self, user: str, item: str) -> None:
        basket = self.baskets.setdefault(user, [])
        for other in basket:
            if other != item:
                self.together[item, other] += 1
                self.together[other, item] += 1
        basket.append(item)
        self.seen[item] += 1

    @entry
    def suggest(self, item: str, most: int = 2) -> list[str]:
        row = self.together.row(item)
        ranked = sorted(row.items(), key=lambda pair: (-pair[1], pair[0]))
        return [name for name, _ in ranked[:most]]

    @entry
    def popular(self, items: list[str]) -> str:
        counts = [(merged(each(self.seen).get(item, 0), sum), item) for item in items]
        best, name = max(counts, key=itemgetter(0))
        return f"{name}: {best}"


class Tickets(Program):
    """Seats of a hall as rows of neighbours: the best group of seats, or a place in the queue."""

    halls = Partitioned(Map[str, list[list[bool]]])
    queue = Partitioned(Map[str, deque[tuple[str, int]]])

    @entry
    def open(self, hall: str, rows: int, seats: int) -> None:
        self.halls[hall] = [[False] * seats for _ in range(rows)]

    @staticmethod
    def _find(rows: list[list[bool]], count: int) -> tuple[int, int] | None:
        for number, row in enumerate(rows):
            start = 0
            for taken, group in itertools.groupby(row):
                length = len(list(group))
                if not taken and length >= count:
                    return number, start
                start += length
        return None

    @entry
    def buy(self, hall: str, who: str, count: int) -> list[str]:
        rows = self.halls[hall]
        place = self._find(rows, count)
        if place is None:
            self.queue.setdefault(hall, deque()).append((who, count))
            return []
        row, start = place
        rows[row][start : start + count] = [True] * count
        return [f"{chr(ord('A') + row)}{seat + 1}" for seat in range(start, start + count)]

    @entry
    def give_back(self, hall: str, row: int, seat: int) -> str | None:
        self.halls[hall][row][seat] = False
        waiting = self.queue.get(hall, deque())
        for _ in range(len(waiting)):
            who, count = waiting.popleft()
            if self._find(self.halls[hall], count):
                self.buy(hall, who, count)
                return who
            waiting.append((who, count))
        return None


CASES: list[tuple[type[Program], list[tuple[Any, ...]]]] = [
    (
        Nexmark,
        [
            ("person", 1, "ann", "OR"),
            ("auction", 7, 1, 10, 50, 100),
            ("auction", 8, 2, 10, 50, 100),
            ("bid", 7, 3, 60, 5, "USD"),
            ("bid", 7, 4, 60, 6),
            ("bid", 8, 4, 40, 7),
            ("bid", 8, 4, 40, 101),
            ("bid", 9, 4, 40, 7),
            ("hottest", 8),
            ("person", 2, "bob", "NY"),
            ("close", 7),
            ("close", 8),
            ("close", 8),
            ("averages",),
            ("hottest", 50),
        ],
    ),
    (
        OrderBook,
        [
            ("place", "X", "ann", Side.SELL, 11, 5),
            ("place", "X", "bob", Side.SELL, 10, 5),
            ("place", "X", "cid", Side.BUY, 11, 7),
            ("place", "X", "dee", Side.BUY, 9, 1),
            ("cancel", "X", 4),
            ("cancel", "X", 4),
            ("cancel", "Y", 1),
            ("place", "X", "dee", Side.BUY, 20, 9),
            ("place", "X", "ann", Side.SELL, 1, 3),
        ],
    ),
    (
        Ycsb,
        [
            ("insert", "k1", {"b": "2", "a": "1"}),
            ("insert", "k1", {}),
            ("insert", "k2", {"a": "3"}),
            ("swap", ["k1", "k2"], "a"),
            ("read", "k1"),
            ("read", "k2", ["a", "z"]),
            ("scan", "k2"),
            ("insert", "k3", {"a": "9"}),
            ("swap", ["k1", "k2", "k3"], "a"),
            ("swap", ["k1", "k9"], "a"),
            ("scan", "k", 5),
        ],
    ),
    (
        Candles,
        [("tick", "X", minute // 3, 100 + (minute * 7) % 11) for minute in range(14)] + [("mean", "X"), ("mean", "Y")],
    ),
    (
        Travel,
        [
            ("offer", "hotel", "ritz", 1),
            ("offer", "flight", "LH1", 1),
            ("book", "ann", "ritz", "LH1"),
            ("book", "bob", "ritz"),
            ("offer", "hotel", "ritz", 1),
            ("book", "bob", "ritz", "LH1"),
            ("book", "bob", "ritz"),
            ("book", "cid"),
        ],
    ),
    (
        Tree,
        [
            ("hire", "b", "a"),
            ("hire", "c", "b"),
            ("hire", "d", "b"),
            ("hire", "a", "d"),
            ("size", "a"),
            ("chain", "d"),
            ("hire", "d", "a"),
            ("size", "b"),
            ("chain", "d"),
        ],
    ),
    (
        Configured,
        [
            ("set", "all", "*", '{"tone": "calm", "n": 3}'),
            ("set", "team", "red", '{"tone": "loud"}'),
            ("get", "ann", "red", "tone"),
            ("get", "ann", "blue", "tone"),
            ("set", "team", "red", '{"tone": null}'),
            ("set", "team", "red", "oops"),
            ("set", "team", "red", "[1]"),
            ("get", "ann", "red", "tone"),
            ("get", "ann", "red", "x"),
        ],
    ),
    (
        TicTacToe,
        [("play", "t", cell) for cell in (0, 0, 1, 4, 2, 8, 9, 3, 5, 4)] + [("play", "u", 4)],
    ),
    (
        Recommends,
        [
            ("add", "ann", "tea"),
            ("add", "ann", "cup"),
            ("add", "bob", "tea"),
            ("add", "bob", "pot"),
            ("add", "bob", "cup"),
            ("suggest", "tea"),
            ("popular", ["tea", "cup", "none"]),
        ],
    ),
    (
        Tickets,
        [
            ("open", "h", 2, 4),
            ("buy", "h", "ann", 3),
            ("buy", "h", "bob", 3),
            ("buy", "h", "cid", 2),
            ("buy", "h", "dee", 1),
            ("give_back", "h", 1, 0),
            ("give_back", "h", 1, 1),
            ("buy", "h", "eve", 1),
        ],
    ),
]
