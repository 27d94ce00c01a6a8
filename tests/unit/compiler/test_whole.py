"""What is proven of entry points in sequence: which elements are looked at when a row ends."""

from __future__ import annotations

import pytest

from millpond import Map, Partial, Partitioned, Program, entry
from millpond.compiler.compile import compile_in_sequence

Lists = Map[int, list[int]]


class Fresh(Program):
    carts = Partitioned(Lists)
    stock = Partitioned(Map[int, int])

    @entry
    def go(self, user: int, item: int) -> int:
        cart = self.carts.get(user)
        if cart is None:
            cart = self.carts[user] = []
        cart.append(item)
        self.stock[item] = self.stock.get(item, 50) - 1
        return len(self.carts.pop(item, []))


class Shared(Program):
    carts = Partitioned(Lists)

    @entry
    def go(self, user: int, item: int) -> None:
        cart = [item]
        self.carts[user] = cart
        self.carts[item] = cart


class Misfit(Program):
    stock = Partitioned(Map[int, int])
    names = Partitioned(Map[int, str])

    @entry
    def go(self, item: int, share: float) -> None:
        self.names[item] = str(item)
        self.stock[item] = share


class Column(Program):
    carts = Partitioned(Lists)

    @entry
    def go(self, user: int, items: list[int]) -> None:
        self.carts[user] = items


class Unseen(Program):
    carts = Partitioned(Lists)

    @entry
    def go(self, user: int) -> None:
        self.fill(user, 3)

    def fill(self, user: int, times: int) -> None:
        if times:
            self.carts[user] = []
            self.fill(user + 1, times - 1)


class Parts(Fresh):
    seen = Partial(Map[int, int])


@pytest.mark.parametrize(
    ("program", "renewed"),
    [
        (Fresh, set()),
        (Shared, {"carts"}),
        (Misfit, {"stock"}),
        (Column, {"carts"}),
        (Unseen, {"carts"}),
        (Parts, {"carts", "stock", "seen"}),
    ],
)
def test_elements_are_looked_at_unless_it_is_proven_that_rows_leave_values(program, renewed):
    (task,) = compile_in_sequence(program).entries["go"].tasks
    assert task.renews == renewed
