"""Shops, carts, hotels and warehouses, as their authors would write them."""

from __future__ import annotations

import enum
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, NamedTuple

from millpond import Map, Partitioned, Program, Set, Value, entry


@dataclass
class Line:
    item: str
    pieces: int
    price: int


@dataclass
class Cart:
    lines: list[Line] = field(default_factory=list)
    coupon: str | None = None

    def total(self) -> int:
        return sum(line.pieces * line.price for line in self.lines)


class CartCheckout(Program):
    """The cart benchmark of stateful functions: carts hold items, a checkout takes them from shared stock."""

    carts = Partitioned(Map[str, Cart])
    stock = Partitioned(Map[str, int])
    revenue = Partitioned(Value[int])

    @entry
    def restock(self, item: str, pieces: int) -> int:
        self.stock[item] = self.stock.get(item, 0) + pieces
        return self.stock[item]

    @entry
    def add(self, user: str, item: str, pieces: int = 1, *, price: int = 100) -> int:
        cart = self.carts.setdefault(user, Cart())
        cart.lines.append(Line(item, pieces, price))
        return len(cart.lines)

    @entry
    def checkout(self, user: str) -> int:
        cart = self.carts.get(user)
        if cart is None or not cart.lines:
            return 0
        for line in cart.lines:
            if self.stock.get(line.item, 0) < line.pieces:
                self.abort(f"{line.item} is sold out")
            self.stock[line.item] -= line.pieces
        total = cart.total()
        self.revenue.set(self.revenue.get(0) + total)
        del self.carts[user]
        return total


class Status(enum.Enum):
    NEW = "new"
    PAID = "paid"
    SHIPPED = "shipped"


@dataclass
class Order:
    number: int
    status: Status
    items: dict[str, int]


class Orders(Program):
    """An order's life: an Enum in state, numbers from a counter, moves between states."""

    next_number = Partitioned(Value[int])
    orders = Partitioned(Map[int, Order])
    by_status = Partitioned(Map[Status, set[int]])

    def _move(self, order: Order, status: Status) -> None:
        self.by_status.setdefault(order.status, set()).discard(order.number)
        order.status = status
        self.by_status.setdefault(status, set()).add(order.number)

    @entry
    def place(self, items: dict[str, int]) -> int:
        number = self.next_number.get(0) + 1
        self.next_number.set(number)
        order = Order(number, Status.NEW, dict(items))
        self.orders[number] = order
        self.by_status.setdefault(Status.NEW, set()).add(number)
        return number

    @entry
    def pay(self, number: int) -> bool:
        order = self.orders.get(number)
        if order is None or order.status is not Status.NEW:
            return False
        self._move(order, Status.PAID)
        return True

    @entry
    def ship_all(self) -> int:
        paid = sorted(self.by_status.get(Status.PAID, set()))
        for number in paid:
            self._move(self.orders[number], Status.SHIPPED)
        return len(paid)

    @entry
    def counts(self) -> dict[str, int]:
        return {status.value: len(self.by_status.get(status, set())) for status in Status}


class Room(NamedTuple):
    hotel: str
    number: int


class Hotel(Program):
    """The hotel reservation of DeathStarBench: rooms by a NamedTuple, nights of a stay."""

    booked = Partitioned(Map[Room, dict[int, str]])
    guests = Partitioned(Map[str, list[Room]])

    @entry
    def reserve(self, hotel: str, number: int, guest: str, first: int, nights: int) -> bool:
        room = Room(hotel, number)
        calendar = self.booked.setdefault(room, {})
        wanted = range(first, first + nights)
        if any(night in calendar for night in wanted):
            return False
        for night in wanted:
            calendar[night] = guest
        self.guests.setdefault(guest, []).append(room)
        return True

    @entry
    def cancel_all(self, guest: str) -> int:
        rooms = self.guests.pop(guest, [])
        freed = 0
        for room in rooms:
            calendar = self.booked[room]
            for night in [night for night, who in calendar.items() if who == guest]:
                del calendar[night]
                freed += 1
        return freed


@dataclass(frozen=True)
class Sku:
    name: str
    colour: str


class Warehouse(Program):
    """Stock by a frozen dataclass, reservations first in first out in a deque."""

    stock = Partitioned(Map[Sku, int])
    waiting = Partitioned(Map[Sku, deque[str]])

    @entry
    def order(self, name: str, colour: str, customer: str) -> str:
        sku = Sku(name, colour)
        if self.stock.get(sku, 0) > 0:
            self.stock[sku] -= 1
            return "sent"
        queue = self.waiting.setdefault(sku, deque())
        queue.append(customer)
        return f"number {len(queue)}"

    @entry
    def deliver(self, name: str, colour: str, pieces: int) -> list[str]:
        sku = Sku(name, colour)
        queue = self.waiting.get(sku, deque())
        served = []
        while queue and pieces:
            served.append(queue.popleft())
            pieces -= 1
        self.stock[sku] = self.stock.get(sku, 0) + pieces
        return served


class Prices(Program):
    """Decimal money, a literal for the kind of change, defaults, a helper that is a function of the module."""

    prices = Partitioned(Map[str, Decimal])

    @entry
    def change(self, item: str, amount: Decimal, kind: Literal["set", "add", "percent"] = "set") -> Decimal:
        old = self.prices.get(item, Decimal(0))
        match kind:
            case "set":
                new = amount
            case "add":
                new = old + amount
            case "percent":
                new = rounded(old * (1 + amount / 100))
        self.prices[item] = new
        return new


def rounded(amount: Decimal) -> Decimal:
    return amount.quantize(Decimal("0.01"))


class Bought(Program):
    """Also bought: a collections.Counter by item, a defaultdict by user."""

    baskets = Partitioned(Map[str, defaultdict[str, int]])
    pairs = Partitioned(Map[str, Counter[str]])

    @entry
    def buy(self, user: str, item: str) -> int:
        basket = self.baskets.setdefault(user, defaultdict(int))
        for other in sorted(basket):
            if other != item:
                self.pairs.setdefault(item, Counter())[other] += 1
                self.pairs.setdefault(other, Counter())[item] += 1
        basket[item] += 1
        return basket[item]

    @entry
    def also(self, item: str, most: int = 2) -> list[str]:
        found = self.pairs.get(item, Counter())
        return [name for name, _ in sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:most]]


class Wishes(Program):
    """Wish lists: a set, walks over all of it."""

    wishes = Partitioned(Map[str, set[str]])
    prices = Partitioned(Map[str, int])
    told = Partitioned(Set[str])

    @entry
    def wish(self, user: str, item: str) -> None:
        self.wishes.setdefault(user, set()).add(item)

    @entry
    def reprice(self, item: str, cents: int) -> list[str]:
        old = self.prices.get(item)
        self.prices[item] = cents
        if old is None or cents >= old:
            return []
        users = sorted(user for user, items in self.wishes.items() if item in items)
        for user in users:
            self.told.add(f"{user}/{item}")
        return users


CASES = [
    (
        CartCheckout,
        [
            ("restock", "pen", 3),
            ("add", "ann", "pen", 2, 100),
            ("add", "bob", "pen", 2, 100),
            ("checkout", "ann"),
            ("checkout", "bob"),
            ("restock", "pen", 5),
            ("checkout", "bob"),
            ("checkout", "cid"),
        ],
    ),
    (
        Orders,
        [
            ("place", {"a": 1}),
            ("place", {"b": 2}),
            ("pay", 1),
            ("pay", 1),
            ("ship_all",),
            ("pay", 2),
            ("counts",),
            ("ship_all",),
            ("counts",),
        ],
    ),
    (
        Hotel,
        [
            ("reserve", "ritz", 1, "ann", 1, 3),
            ("reserve", "ritz", 1, "bob", 3, 2),
            ("reserve", "ritz", 2, "ann", 3, 2),
            ("cancel_all", "ann"),
            ("reserve", "ritz", 1, "bob", 3, 2),
        ],
    ),
    (
        Warehouse,
        [
            ("order", "cup", "red", "ann"),
            ("order", "cup", "red", "bob"),
            ("deliver", "cup", "red", 1),
            ("order", "cup", "red", "cid"),
            ("deliver", "cup", "red", 4),
            ("order", "cup", "red", "dee"),
        ],
    ),
    (
        Prices,
        [
            ("change", "tea", Decimal("10.00"), "set"),
            ("change", "tea", Decimal("2.50"), "add"),
            ("change", "tea", Decimal(10), "percent"),
        ],
    ),
    (
        Bought,
        [
            ("buy", "ann", "a"),
            ("buy", "ann", "b"),
            ("buy", "bob", "b"),
            ("buy", "bob", "c"),
            ("buy", "bob", "a"),
            ("also", "b", 2),
            ("also", "a", 1),
        ],
    ),
    (
        Wishes,
        [
            ("wish", "ann", "tv"),
            ("wish", "bob", "tv"),
            ("reprice", "tv", 900),
            ("reprice", "tv", 700),
            ("wish", "cid", "tv"),
            ("reprice", "tv", 600),
        ],
    ),
]
