"""A variable that is a key in the head of a statement, and gets another value inside of it."""

from __future__ import annotations

import pytest

from millpond import Map, Partitioned, Program, entry
from millpond.testing import assert_equals_plain, simulate


class Branch(Program):
    """Two keys of one element."""

    m = Partitioned(Map[int, int])

    @entry
    def go(self, a: int, b: int) -> list[int]:
        t = 0
        w = [a, b]
        if t in self.m:
            w.append(a)
        else:
            t = a
        t += b
        self.m[a] = a
        return [t, *w]


class Turns(Program):
    """The head is evaluated once, before the first turn."""

    m = Partitioned(Map[int, list[int]])

    @entry
    def go(self, a: int, b: int) -> int:
        t = a
        total = 0
        for x in self.m.get(t, []):
            t = x
            total += x
        self.m[a] = [*self.m.get(a, []), b]
        return total + t


class Cases(Program):
    """A pattern that binds the key."""

    m = Partitioned(Map[int, int])

    @entry
    def go(self, a: int, b: int) -> int:
        t = a
        match self.m.get(t, 0):
            case 0:
                t = b
            case t:
                pass
        self.m[a] = t
        return t


@pytest.mark.parametrize("program", [Branch, Turns, Cases])
def test_the_head_sees_the_value_from_before(program):
    rows = [("go", number % 3, number % 5 + 1) for number in range(20)]
    assert_equals_plain(simulate(program, rows, epochs=[7], partitions=3))
