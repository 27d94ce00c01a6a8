"""Names in annotations that only type checkers see, and private names, in methods that run in sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from millpond import Map, Partitioned, Program, entry
from millpond.testing import simulate

if TYPE_CHECKING:
    from decimal import Decimal


class Base(Program):
    m = Partitioned(Map[str, int])
    __limit = 5

    def __more(self, n: int) -> int:
        return n + 1

    @entry
    def go(self, k: str, other: str) -> int:
        """Doc."""

        def inner(x: Decimal) -> int:
            y: Decimal = x
            return y + 1

        if k not in self.m:
            self.m[k] = 0
        nxt = str(self.m[k] + len(other))
        self.m[nxt] = self.m.get(nxt, 0) + self.__more(inner(self.__limit))
        self.m[k] += 1
        try:
            return self.m[nxt] + sum(self.m[x] for x in [k, nxt] if x in self.m)
        finally:
            __tmp = 3
            self.m["t"] = __tmp


class Sub(Base):
    __limit = 7

    @entry
    def go(self, k: str, other: str) -> int:
        __r = super().go(k, other)
        self.m[k] += __r
        return __r


@pytest.mark.parametrize("program", [Base, Sub])
def test_annotations_need_no_value_and_private_names_are_those_of_their_class(program):
    rows = [("go", key, other) for key in "abc" for other in ("x", "yy", "1")] * 3
    plain = program()
    expected = [plain.go(key, other) for _, key, other in rows]
    assert simulate(program, rows, epochs=4, partitions=3).replies == expected
    assert "in sequence" in program.explain()
