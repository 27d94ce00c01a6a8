"""A message for an element waits for the element's level, whatever its own entry point visited before."""

from __future__ import annotations

import itertools

import pytest

from millpond import Map, Partitioned, Program, entry
from millpond.engine.simulated import Simulated
from tests.sizes import compile_once


class ThreeLevels(Program):
    """`write` meets `last` at its third step; `read` and `skip` could be there earlier, and must wait."""

    first = Partitioned(Map[int, int])
    middle = Partitioned(Map[int, int])
    last = Partitioned(Map[int, int])

    @entry
    def write(self, x: int, y: int, z: int) -> None:
        one = self.first.get(x, 0)
        two = self.middle.get(y, 0) + one
        self.last[z] = self.last.get(z, 0) * 2 + two + 1

    @entry
    def read(self, z: int) -> int:
        return self.last.get(z, 0)

    @entry
    def skip(self, x: int, z: int) -> int:
        self.first[x] = self.first.get(x, 0) + 1
        if x == 1:
            self.last[z] = self.last.get(z, 0) + 10
        return self.last.get(z, 0)


CALLS = [("write", (1, 2, 3)), ("read", (3,)), ("skip", (1, 3)), ("skip", (2, 3))]


@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_an_entry_point_that_skips_levels_waits(tmp_path, partitions):
    compiled = compile_once(ThreeLevels)
    rows = [call for order in itertools.permutations(CALLS, 3) for call in order]
    plain = ThreeLevels()
    replies = [getattr(plain, name)(*arguments) for name, arguments in rows]
    expected = {number: reply for number, reply in enumerate(replies) if reply is not None}
    simulated = Simulated(compiled, tmp_path, partitions)
    simulated.epoch(rows[:20])
    simulated.epoch(rows[20:])
    assert simulated.replies() == expected
