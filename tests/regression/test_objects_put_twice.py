"""An object that one expression puts into a value twice becomes two when the row ends, on any cut into epochs."""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass

import pytest

from millpond import Map, Partitioned, Program, entry
from millpond.testing import simulate


@dataclass
class Pair:
    a: list[int]
    b: list[int]


class Twice(Program):
    m = Partitioned(Map[str, list[list[int]]])
    p = Partitioned(Map[str, Pair])

    @entry
    def put1(self, k: str, v: int) -> None:
        self.m[k] = [[v]] * 3

    @entry
    def put2(self, k: str, v: int) -> None:
        x = [[v]]
        x *= 3
        self.m[k] = x

    @entry
    def put3(self, k: str, v: int) -> None:
        x = [[v]]
        self.m[k] = x + x

    @entry
    def put4(self, k: str, v: int) -> None:
        x = [v]
        self.p[k] = Pair(x, x)

    @entry
    def put5(self, k: str, v: int) -> None:
        x = [[v]]
        self.m[k] = [*x, *x]

    @entry
    def put6(self, k: str, v: int) -> None:
        x = [[v]]
        self.m[k] = list(itertools.chain(x, x))

    @entry
    def put7(self, k: str, xs: list[int]) -> None:
        self.m[k] = [xs, xs]

    @entry
    def put8(self, k: str, v: int) -> None:
        x = [[v]]
        x.extend(x)
        self.m[k] = x

    @entry
    def put9(self, k: str, v: int) -> None:
        x = [v]
        y = [x]
        y.append(x)
        y.insert(0, x)
        self.m[k] = y

    @entry
    def put10(self, k: str, v: int) -> None:
        x = [v]
        self.m[k] = [x if i else x for i in range(3)]  # noqa: RUF034

    @entry
    def put11(self, k: str, v: int) -> None:
        x = [v]
        d = {1: x, 2: x}
        self.m[k] = list(d.values())

    @entry
    def put12(self, k: str, v: int) -> None:
        x = y = [v]
        self.m[k] = [x, y]

    @entry
    def put13(self, k: str, v: int) -> None:
        x = [[v], [v]]
        x[1] = x[0]
        self.m[k] = x

    @entry
    def put14(self, k: str, v: int) -> None:
        p = Pair([v], [v])
        p.b = p.a
        self.p[k] = p

    @entry
    def put15(self, k: str, v: int) -> None:
        self.m[k] = sum([[x, x] for x in [[v]]], [])  # noqa: C419, RUF017

    @entry
    def put16(self, k: str, v: int) -> None:
        x = [[v]]
        self.m[k] = x[:] + x[0:1]

    @entry
    def put17(self, k: str, v: int) -> None:
        x = [v]
        self.m[k] = [y for y in (x, x)]  # noqa: C416

    @entry
    def put18(self, k: str, v: int) -> None:
        x = [v]
        self.m[k] = sorted([x, x])

    @entry
    def put19(self, k: str, v: int) -> None:
        self.m[k] = list(map(lambda _: self_list, range(2))) if (self_list := [v]) else []  # noqa: C417

    @entry
    def put20(self, k: str, v: int) -> None:
        a, *rest = [[v], [v]]
        self.m[k] = [a, a, *rest]

    @entry
    def change(self, k: str) -> None:
        if k in self.m:
            self.m[k][0].append(9)
        if k in self.p:
            self.p[k].a.append(9)

    @entry
    def see(self, k: str) -> str:
        return f"{self.m.get(k, [])} {self.p.get(k)}"


@pytest.mark.parametrize("epochs", [1, 2, 5])
@pytest.mark.parametrize("way", range(1, 21))
def test_an_object_that_is_put_twice_becomes_two(way, epochs):
    given = [5] if way == 7 else 5
    rows = [(f"put{way}", "k", given), ("change", "k"), ("see", "k"), ("change", "k"), ("see", "k")]
    plain = Twice()
    expected = [getattr(plain, name)(*copy.deepcopy(arguments)) for name, *arguments in rows]
    assert simulate(Twice, rows, epochs=epochs, partitions=2).replies == expected
