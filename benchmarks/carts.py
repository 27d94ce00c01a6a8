"""Carts: requests fill stored carts, and a checkout takes from a stock that all share what its cart holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.data import ROW_GROUP_ROWS
from benchmarks.report import BenchmarkError
from millpond import Map, Partitioned, Program, entry
from millpond.checkpoint.recovery import read_state
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.local.storekey import element_of, unit_of
from millpond.storage.open import open_storage

USERS = 100_000
ITEMS = 10_000
SKEW = 0.99
IN_A_CART = 3
"""About so many items are put into a cart before it is checked out."""

Carts = dict[int, list[int]]
Stock = dict[int, int]


class Shop(Program):
    """The contestant: which stock a checkout touches is known when its cart was read."""

    carts = Partitioned(Map[int, list[int]])
    stock = Partitioned(Map[int, int])

    @entry
    def request(self, user: int, item: int) -> int:
        """Put an item into a user's cart; no item (0) checks it out, and answers how many were there to be sold."""
        if item:
            cart = self.carts.get(user)
            if cart is None:
                cart = self.carts[user] = []
            cart.append(item)
            return 0
        sold = 0
        for wanted in self.carts.pop(user, []):
            left = self.stock.get(wanted, 50)
            if left:
                self.stock[wanted] = left - 1
                sold += 1
        return sold


def write_requests(path: Path, count: int, skew: float | None, seed: int) -> Path:
    """Write one file of requests, numbered; users are uniform, or by Zipf's law with an exponent."""
    rng = np.random.default_rng(seed)
    items = rng.integers(1, ITEMS + 1, count)
    items[rng.random(count) < 1 / (IN_A_CART + 1)] = 0
    columns = {"number": np.arange(count, dtype=np.int64), "user": _users(rng, count, skew), "item": items}
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=ROW_GROUP_ROWS)
    return path


def _users(rng: np.random.Generator, count: int, skew: float | None) -> NDArray[Any]:
    if skew is None:
        return rng.integers(0, USERS, count)
    shares = np.arange(1, USERS + 1, dtype=np.float64) ** -skew
    bounds = np.cumsum(shares / shares.sum())
    return np.minimum(np.searchsorted(bounds, rng.random(count), side="right"), USERS - 1).astype(np.int64)


def plain_loop(file: Path) -> tuple[tuple[Carts, Stock], list[int]]:
    """Do it by hand: one thread, two dicts, and a list of what is emitted."""
    carts: Carts = {}
    stock: Stock = {}
    emitted: list[int] = []
    table = pq.read_table(file, columns=["user", "item"])
    for user, item in zip(*(table[name].to_numpy().tolist() for name in ("user", "item")), strict=True):
        if item:
            cart = carts.get(user)
            if cart is None:
                cart = carts[user] = []
            cart.append(item)
            emitted.append(0)
            continue
        sold = 0
        for wanted in carts.pop(user, ()):
            left = stock.get(wanted, 50)
            if left:
                stock[wanted] = left - 1
                sold += 1
        emitted.append(sold)
    return (carts, stock), emitted


def check_state(checkpoint: Path, want: tuple[Carts, Stock]) -> None:
    """Refuse a run unless the whole committed state is the loop's."""
    keys, values = KeyCodec(int), (ValueCodec(list[int]), ValueCodec(int))
    found: tuple[dict[Any, Any], dict[Any, Any]] = ({}, {})
    for key, value in read_state(open_storage(str(checkpoint))).items():
        element = element_of(key)
        found[element][keys.decode(unit_of(key))] = values[element].decode(value)
    if found != want:
        raise BenchmarkError("Millpond's checkpoint does not hold the loop's carts and stock")
