"""TPC-C, the order-entry benchmark: new-order, payment, delivery, order-status and stock-level as one plain class.

An order takes its number from its district and its goods from stock that all districts share; a payment may name its
customer by a last name; a delivery takes the oldest order of each district. Keys follow from state everywhere, which
is why such methods run *in sequence*. One order in a hundred names an item that nobody sells, and is undone.

The example runs rows as plain Python and on three partitions with a checkpoint, and tests the consistency conditions 1
to 4 of the standard (clause 3.3.2) on what the checkpoint holds. Money is in cents, taxes in basis points.
"""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from millpond import Map, Partitioned, Program, entry
from millpond.testing import Refused, assert_equals_plain, simulate

SEED = 11
ROWS = 600
WAREHOUSES = 2
DISTRICTS = 4
CUSTOMERS = 12
ITEMS = 40
UNUSED_ITEM = ITEMS + 1
SYLLABLES = ("BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING")
BASIS = 10_000


@dataclass
class Warehouse:
    """A warehouse, and what was paid to it."""

    tax: int
    ytd: int = 0


@dataclass
class District:
    """A district of a warehouse, with the number of its next order."""

    tax: int
    ytd: int = 0
    next_order: int = 1


@dataclass
class Customer:
    """A customer of a district."""

    last: str
    discount: int
    bad_credit: bool
    balance: int = -1000
    ytd_payment: int = 1000
    payments: int = 1
    deliveries: int = 0
    data: str = ""


@dataclass
class Stock:
    """What a warehouse has of an item."""

    quantity: int
    ytd: int = 0
    orders: int = 0
    remote: int = 0


@dataclass
class Line:
    """A line of an order; `delivered` is the carrier's moment, 0 before."""

    item: int
    supply: int
    quantity: int
    amount: int
    delivered: int = 0


@dataclass
class Order:
    """An order as it was entered."""

    customer: int
    entered: int
    lines_count: int
    all_local: bool
    carrier: int | None = None


@dataclass(frozen=True)
class Wanted:
    """One line of what a customer asks for."""

    item: int
    supply: int
    quantity: int


@dataclass
class Status:
    """What order-status answers."""

    balance: int
    order: int | None = None
    carrier: int | None = None
    lines: list[Line] = field(default_factory=list)


class OrderEntry(Program):
    """A wholesale supplier with warehouses, districts and customers."""

    warehouses = Partitioned(Map[int, Warehouse])
    districts = Partitioned(Map[tuple[int, int], District])
    customers = Partitioned(Map[tuple[int, int, int], Customer])
    by_last = Partitioned(Map[tuple[int, int, str], list[int]])
    prices = Partitioned(Map[int, int])
    stock = Partitioned(Map[tuple[int, int], Stock])
    orders = Partitioned(Map[tuple[int, int, int], Order])
    order_lines = Partitioned(Map[tuple[int, int, int], list[Line]])
    new_orders = Partitioned(Map[tuple[int, int], deque[int]])
    last_order = Partitioned(Map[tuple[int, int, int], int])
    history = Partitioned(Map[tuple[int, int], list[tuple[int, int, int]]])

    @entry
    def open_warehouse(self, w: int, tax: int, district_taxes: list[int]) -> None:
        """Set up a warehouse and its districts."""
        self.warehouses[w] = Warehouse(tax)
        for d, district_tax in enumerate(district_taxes, start=1):
            self.districts[w, d] = District(district_tax)

    @entry
    def enrol(self, w: int, d: int, c: int, last: str, discount: int, *, bad_credit: bool = False) -> None:
        """Take a customer in; those of one last name stay in order of their numbers."""
        self.customers[w, d, c] = Customer(last, discount, bad_credit)
        named = self.by_last.setdefault((w, d, last), [])
        named.append(c)
        named.sort()

    @entry
    def supply(self, w: int, item: int, price: int, quantity: int) -> None:
        """Put an item into a warehouse."""
        self.prices[item] = price
        self.stock[w, item] = Stock(quantity)

    @entry
    def new_order(self, w: int, d: int, c: int, wanted: list[Wanted], at: int) -> int:
        """Enter an order; answers with its total. An item that nobody sells undoes all of it."""
        customer, district = self.customers[w, d, c], self.districts[w, d]
        number = district.next_order
        district.next_order += 1
        local = all(line.supply == w for line in wanted)
        self.orders[w, d, number] = Order(c, at, len(wanted), local)
        self.new_orders.setdefault((w, d), deque()).append(number)
        lines = [self._take(w, one) for one in wanted]
        self.order_lines[w, d, number] = lines
        self.last_order[w, d, c] = number
        total = sum(line.amount for line in lines)
        taxed = total * (BASIS - customer.discount) * (BASIS + self.warehouses[w].tax + district.tax)
        return taxed // BASIS**2

    def _take(self, w: int, wanted: Wanted) -> Line:
        price = self.prices.get(wanted.item)
        if price is None:
            self.abort("item number is not valid")
        stock = self.stock[wanted.supply, wanted.item]
        enough = stock.quantity >= wanted.quantity + 10
        stock.quantity += -wanted.quantity if enough else 91 - wanted.quantity
        stock.ytd += wanted.quantity
        stock.orders += 1
        stock.remote += wanted.supply != w
        return Line(wanted.item, wanted.supply, wanted.quantity, wanted.quantity * price)

    def _find(self, w: int, d: int, customer: int | str) -> int:
        """Return the number of a customer, by the middle one of a last name if it is one."""
        if isinstance(customer, int):
            return customer
        named = self.by_last.get((w, d, customer))
        if not named:
            self.abort(f"nobody is called {customer}")
        return named[(len(named) - 1) // 2]

    @entry
    def payment(
        self, w: int, d: int, customer_w: int, customer_d: int, cents: int, c: int | None = None, last: str = ""
    ) -> int:
        """Take a payment of a customer, who may belong to another warehouse; answers with the new balance."""
        number = self._find(customer_w, customer_d, last if c is None else c)
        customer = self.customers[customer_w, customer_d, number]
        self.warehouses[w].ytd += cents
        self.districts[w, d].ytd += cents
        customer.balance -= cents
        customer.ytd_payment += cents
        customer.payments += 1
        if customer.bad_credit:
            customer.data = f"{number} {customer_d} {customer_w} {d} {w} {cents}|{customer.data}"[:500]
        self.history.setdefault((w, d), []).append((customer_w, number, cents))
        return customer.balance

    @entry
    def delivery(self, w: int, carrier: int, at: int) -> dict[int, int]:
        """Deliver the oldest new order of each district; answers with their numbers."""
        delivered = {}
        for d in range(1, DISTRICTS + 1):
            waiting = self.new_orders.get((w, d))
            if not waiting:
                continue
            delivered[d] = number = waiting.popleft()
            order = self.orders[w, d, number]
            order.carrier = carrier
            for line in (lines := self.order_lines[w, d, number]):
                line.delivered = at
            customer = self.customers[w, d, order.customer]
            customer.balance += sum(line.amount for line in lines)
            customer.deliveries += 1
        return delivered

    @entry
    def order_status(self, w: int, d: int, c: int | None = None, last: str = "") -> Status:
        """Answer with the last order of a customer."""
        number = self._find(w, d, last if c is None else c)
        status = Status(self.customers[w, d, number].balance)
        if (order := self.last_order.get((w, d, number))) is not None:
            status.order, status.carrier = order, self.orders[w, d, order].carrier
            status.lines = self.order_lines[w, d, order]
        return status

    @entry
    def stock_level(self, w: int, d: int, threshold: int) -> int:
        """Answer with how many items of the last 20 orders of a district are short."""
        ends = self.districts[w, d].next_order
        recent = [self.order_lines.get((w, d, number), []) for number in range(max(ends - 20, 1), ends)]
        items = {line.item for lines in recent for line in lines}
        return sum(self.stock[w, item].quantity < threshold for item in items if (w, item) in self.stock)


def last_name(number: int) -> str:
    """Return the last name that the standard makes of a number."""
    return "".join(SYLLABLES[number // place % 10] for place in (100, 10, 1))


def initial_rows() -> Iterator[tuple[Any, ...]]:
    """Yield the rows that fill the tables."""
    for w in range(1, WAREHOUSES + 1):
        yield "open_warehouse", w, 500 + w, [100 * d for d in range(1, DISTRICTS + 1)]
        for d in range(1, DISTRICTS + 1):
            for c in range(1, CUSTOMERS + 1):
                yield "enrol", w, d, c, last_name(c % 5), c * 40, c % 10 == 0
        for item in range(1, ITEMS + 1):
            yield "supply", w, item, 100 + 7 * item, 30 + item


def work_rows(count: int, seed: int = SEED) -> Iterator[tuple[Any, ...]]:
    """Yield transactions in about the mix of the standard."""
    chance = random.Random(seed)
    for at in range(1, count + 1):
        w, d, c = chance.randint(1, WAREHOUSES), chance.randint(1, DISTRICTS), chance.randint(1, CUSTOMERS)
        by_name = chance.random() < 0.6
        who = (None, last_name(c % 5)) if by_name else (c, "")
        match chance.choices(("order", "payment", "delivery", "status", "level"), (45, 43, 4, 4, 4))[0]:
            case "order":
                yield "new_order", w, d, c, _wanted(chance, w), at
            case "payment":
                home = w if chance.random() < 0.85 else chance.randint(1, WAREHOUSES)
                yield "payment", w, d, home, d, chance.randint(100, 500_000), *who
            case "delivery":
                yield "delivery", w, chance.randint(1, 10), at
            case "status":
                yield "order_status", w, d, *who
            case "level":
                yield "stock_level", w, d, chance.randint(10, 20)


def _wanted(chance: random.Random, w: int) -> list[Wanted]:
    lines = []
    for item in chance.sample(range(1, ITEMS + 1), chance.randint(5, 15)):
        supply = w if chance.random() < 0.99 else chance.randint(1, WAREHOUSES)
        lines.append(Wanted(item, supply, chance.randint(1, 10)))
    if chance.random() < 0.01:
        lines[-1] = Wanted(UNUSED_ITEM, w, 1)
    return lines


def conditions(state: Mapping[str, Any]) -> dict[str, bool]:
    """Return whether the consistency conditions 1 to 4 of the standard hold for a state."""
    districts = state["districts"]
    numbers: dict[tuple[int, int], list[int]] = {place: [] for place in districts}
    entered, stored = dict.fromkeys(districts, 0), dict.fromkeys(districts, 0)
    for (w, d, number), order in state["orders"].items():
        numbers[w, d].append(number)
        entered[w, d] += order.lines_count
    for (w, d, _), lines in state["order_lines"].items():
        stored[w, d] += len(lines)
    waiting = {place: state["new_orders"].get(place, ()) for place in districts}
    paid = {w: sum(one.ytd for (of, _), one in districts.items() if of == w) for w in state["warehouses"]}
    last = {place: one.next_order - 1 for place, one in districts.items()}
    return {
        "1: what a warehouse got is what its districts got": all(
            one.ytd == paid[w] for w, one in state["warehouses"].items()
        ),
        "2: the next number follows the last order, and the last new order": all(
            last[place] == max(numbers[place], default=0) and (not held or max(held) == last[place])
            for place, held in waiting.items()
        ),
        "3: new orders have no gaps": all(
            not held or max(held) - min(held) + 1 == len(held) for held in waiting.values()
        ),
        "4: orders have as many lines as they say": entered == stored,
    }


def main(argv: list[str] | None = None) -> int:
    """Run the rows on partitions, compare with plain Python, and show the conditions."""
    count = int(argv[0]) if argv else ROWS
    rows = [*initial_rows(), *work_rows(count)]
    run = simulate(OrderEntry, rows, epochs=6, partitions=3)
    assert_equals_plain(run)
    table = Table(title=f"{count:,} transactions in 6 epochs on 3 partitions")
    table.add_column("condition")
    table.add_column("holds")
    holds = conditions(run.state)
    for text, ok in holds.items():
        table.add_row(text, "yes" if ok else "no")
    console = Console()
    console.print(table)
    undone = sum(isinstance(reply, Refused) for reply in run.replies)
    console.print(f"{len(run.state['orders']):,} orders, {undone} transactions undone; equal to plain Python")
    return 0 if all(holds.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
