"""Programs of trade as people write them: keys that follow from state, walks over everything, rows that are refused."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from millpond import Counter, List, Map, Partitioned, Program, Set, Value, entry
from tests.fuzz.rows import Row

USERS = [f"u{n}" for n in range(6)]
ITEMS = [f"i{n}" for n in range(5)]


@dataclass
class Line:
    item: str
    count: int


class Carts(Program):
    """Carts that are checked out against a shared stock: the items are in the cart, not in the row."""

    carts = Partitioned(Map[str, list[Line]])
    stock = Partitioned(Map[str, int])
    sold = Partitioned(Counter[str])

    @entry
    def supply(self, item: str, count: int) -> int:
        self.stock[item] = self.stock.get(item, 0) + count
        return self.stock[item]

    @entry
    def put(self, user: str, item: str, count: int) -> int:
        cart = self.carts.setdefault(user, [])
        for line in cart:
            if line.item == item:
                line.count += count
                return len(cart)
        cart.append(Line(item, count))
        return len(cart)

    @entry
    def checkout(self, user: str) -> int:
        cart = self.carts.pop(user, [])
        if not cart:
            self.abort("empty cart")
        total = 0
        for line in cart:
            if self.stock.get(line.item, 0) < line.count:
                self.abort(f"too few of {line.item}")
            self.stock[line.item] -= line.count
            self.sold[line.item] += line.count
            total += line.count
        return total

    @entry
    def report(self) -> dict[str, int]:
        return {item: self.sold[item] for item in self.stock}


def carts(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        yield rng.choice(
            [
                ("supply", (rng.choice(ITEMS), rng.randrange(1, 9))),
                ("put", (rng.choice(USERS), rng.choice(ITEMS), rng.randrange(1, 4))),
                ("put", (rng.choice(USERS), rng.choice(ITEMS), rng.randrange(1, 4))),
                ("checkout", (rng.choice(USERS),)),
                ("report", ()),
            ]
        )


class Payouts(Program):
    """Money goes to the account that a seller has named before; a row that raises leaves nothing."""

    balances = Partitioned(Map[str, int])
    payout = Partitioned(Map[str, str])

    @entry
    def name(self, seller: str, account: str) -> None:
        self.payout[seller] = account

    @entry
    def sale(self, seller: str, cents: int) -> int:
        if seller not in self.payout:
            self.abort("no account")
        account = self.payout[seller]
        self.balances[account] = self.balances.get(account, 0) + cents
        if cents == 7:
            raise ValueError("unlucky")
        return self.balances[account]


def payouts(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        if rng.random() < 0.3:
            yield "name", (rng.choice(USERS), rng.choice("abc"))
        else:
            yield "sale", (rng.choice(USERS), rng.randrange(10))


class Auctions(Program):
    """The best bid is paid back when a better one comes; the best of all is found by walking."""

    best = Partitioned(Map[int, tuple[str, int]])
    purse = Partitioned(Map[str, int])

    @entry
    def fill(self, user: str, coins: int) -> None:
        self.purse[user] = self.purse.get(user, 0) + coins

    @entry
    def bid(self, lot: int, user: str, coins: int) -> bool:
        if self.purse.get(user, 0) < coins:
            return False
        if lot in self.best:
            other, before = self.best[lot]
            if before >= coins:
                return False
            self.purse[other] += before
        self.purse[user] -= coins
        self.best[lot] = (user, coins)
        return True

    @entry
    def dearest(self) -> int:
        return max(self.best, key=lambda lot: (self.best[lot][1], lot)) if self.best else -1


def auctions(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        yield rng.choice(
            [
                ("fill", (rng.choice(USERS), rng.randrange(20))),
                ("bid", (rng.randrange(4), rng.choice(USERS), rng.randrange(30))),
                ("bid", (rng.randrange(4), rng.choice(USERS), rng.randrange(30))),
                ("dearest", ()),
            ]
        )


@dataclass
class Order:
    customer: int
    lines: list[tuple[int, int]]
    delivered: bool = False


class NewOrder(Program):
    """New-order, payment and delivery in the manner of TPC-C."""

    next_order = Partitioned(Map[int, int])
    orders = Partitioned(Map[tuple[int, int], Order])
    waiting = Partitioned(Set[tuple[int, int]])
    stock = Partitioned(Map[tuple[int, int], int])
    balance = Partitioned(Map[int, int])
    prices = Partitioned(Map[int, int])

    @entry
    def price(self, item: int, cents: int) -> None:
        self.prices[item] = cents

    @entry
    def order(self, district: int, customer: int, items: list[int]) -> int:
        number = self.next_order.get(district, 1)
        self.next_order[district] = number + 1
        total = 0
        lines: list[tuple[int, int]] = []
        for item in items:
            try:
                cents = self.prices[item]
            except KeyError:
                self.abort(f"no item {item}")
            left = self.stock.get((district, item), 10)
            self.stock[district, item] = left - 1 if left > 1 else left + 90
            lines.append((item, cents))
            total += cents
        self.orders[district, number] = Order(customer, lines)
        self.waiting.add((district, number))
        return total

    @entry
    def deliver(self, district: int) -> int:
        oldest = min((one for one in self.waiting if one[0] == district), default=None)
        if oldest is None:
            return 0
        self.waiting.remove(oldest)
        order = self.orders[oldest]
        order.delivered = True
        due = sum(cents for _, cents in order.lines)
        self.balance[order.customer] = self.balance.get(order.customer, 0) + due
        return due


def new_orders(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        yield rng.choice(
            [
                ("price", (rng.randrange(5), rng.randrange(1, 50))),
                ("order", (rng.randrange(2), rng.randrange(4), [rng.randrange(5) for _ in range(rng.randrange(4))])),
                ("order", (rng.randrange(2), rng.randrange(4), [rng.randrange(5) for _ in range(rng.randrange(4))])),
                ("deliver", (rng.randrange(2),)),
            ]
        )


class Hotel(Program):
    """Reservations of several nights: all of them or none, in the room that is found free."""

    taken = Partitioned(Map[tuple[int, int], str])
    stays = Partitioned(Map[str, list[tuple[int, int]]])

    def _free(self, room: int, nights: range) -> bool:
        return all((room, night) not in self.taken for night in nights)

    @entry
    def book(self, guest: str, first: int, nights: int) -> int:
        for room in range(3):
            if self._free(room, range(first, first + nights)):
                for night in range(first, first + nights):
                    self.taken[room, night] = guest
                    self.stays.setdefault(guest, []).append((room, night))
                return room
        return -1

    @entry
    def leave(self, guest: str) -> int:
        rooms = self.stays.pop(guest, [])
        for stay in rooms:
            del self.taken[stay]
        return len(rooms)


def hotel(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        if rng.random() < 0.7:
            yield "book", (rng.choice(USERS), rng.randrange(10), rng.randrange(1, 4))
        else:
            yield "leave", (rng.choice(USERS),)


class Leaders(Program):
    """A leader board by walking, and a season that is closed by walking and deleting."""

    points = Partitioned(Map[str, int])
    won = Partitioned(Counter[str])
    seasons = Partitioned(Value[int])

    @entry
    def score(self, user: str, points: int) -> None:
        self.points[user] = self.points.get(user, 0) + points

    @entry
    def top(self, count: int) -> list[str]:
        ranked = sorted(self.points.items(), key=lambda pair: (-pair[1], pair[0]))
        return [user for user, _ in ranked[:count]]

    @entry
    def close(self) -> int:
        for user in self.points:
            if self.points[user] < 10:
                del self.points[user]
        for user in list(self.points):
            self.won[user] += 1
        self.points.clear()
        self.seasons.set(self.seasons.get(0) + 1)
        return len(self.won)


def leaders(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        shot = rng.random()
        if shot < 0.7:
            yield "score", (rng.choice(USERS), rng.randrange(9))
        elif shot < 0.9:
            yield "top", (3,)
        else:
            yield "close", ()


class Ledger(Program):
    """A double-entry book with a journal, rules that are looked up, and a balance over all accounts."""

    accounts = Partitioned(Map[str, int])
    rules = Partitioned(Map[str, tuple[str, str]])
    journal = Partitioned(List[tuple[str, str, int]])

    @entry
    def rule(self, kind: str, debit: str, credit: str) -> None:
        self.rules[kind] = (debit, credit)

    @entry
    def post(self, kind: str, cents: int) -> int:
        if kind not in self.rules:
            self.abort("no rule")
        debit, credit = self.rules[kind]
        for account, amount in ((debit, cents), (credit, -cents)):
            self.accounts[account] = self.accounts.get(account, 0) + amount
        self.journal.append((debit, credit, cents))
        return len(self.journal)

    @entry
    def balance(self) -> int:
        return sum(self.accounts.values())

    @entry
    def undo(self) -> int:
        if not len(self.journal):
            return 0
        debit, credit, cents = self.journal[-1]
        self.accounts[debit] -= cents
        self.accounts[credit] += cents
        self.journal.append((credit, debit, cents))
        return cents


def ledger(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        yield rng.choice(
            [
                ("rule", (rng.choice("xyz"), rng.choice("abc"), rng.choice("def"))),
                ("post", (rng.choice("xyz"), rng.randrange(100))),
                ("post", (rng.choice("xyz"), rng.randrange(100))),
                ("balance", ()),
                ("undo", ()),
            ]
        )


class Loyalty(Program):
    """One entry point calls another; what the inner call refuses is undone, and the outer one goes on."""

    points = Partitioned(Map[str, int])
    friends = Partitioned(Map[str, str])

    @entry
    def earn(self, user: str, count: int) -> int:
        self.points[user] = self.points.get(user, 0) + count
        if self.points[user] > 20:
            raise OverflowError(user)
        return self.points[user]

    @entry
    def invite(self, user: str, friend: str) -> int:
        self.friends[user] = friend
        return self.earn(user, 1)

    @entry
    def share(self, user: str, count: int) -> int:
        given = 0
        while user in self.friends and given < 4:
            user = self.friends[user]
            try:
                self.earn(user, count)
            except OverflowError:
                continue
            finally:
                given += 1
        return given


def loyalty(rng: random.Random, count: int) -> Iterator[Row]:
    for _ in range(count):
        yield rng.choice(
            [
                ("earn", (rng.choice(USERS), rng.randrange(6))),
                ("invite", (rng.choice(USERS), rng.choice(USERS))),
                ("share", (rng.choice(USERS), rng.randrange(8))),
            ]
        )


PROGRAMS = {
    Carts: carts,
    Payouts: payouts,
    Auctions: auctions,
    NewOrder: new_orders,
    Hotel: hotel,
    Leaders: leaders,
    Ledger: ledger,
    Loyalty: loyalty,
}
