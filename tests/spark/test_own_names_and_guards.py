"""Relaxed loops, guards before keys, names of one's own and literals on Spark: as in plain Python."""

from __future__ import annotations

from typing import Literal, NamedTuple

import pytest

from millpond import Map, Partitioned, Program, entry
from tests.spark.feeding import feed_all, replies_in, tables, write_parts


def enumerate(items: list[int]) -> list[tuple[int, int]]:  # noqa: A001 - a function named like Python's own
    return [(item + 100, item) for item in items]


class Place(NamedTuple):
    x: int
    kind: Literal["a", "b"]


class Seats(Program):
    taken = Partitioned(Map[int, int])

    @entry(relaxed=True)
    def go(self, key: int | None, kind: Literal["a", "b"], items: list[int]) -> int:
        sold = 0
        for seat in items:
            owner = self.taken.get(seat, 0)
            self.taken[seat] = owner + 1
            sold += owner
        return sold


class Guarded(Program):
    counts = Partitioned(Map[int, int])

    @entry
    def go(self, key: int | None, kind: Literal["a", "b"], items: list[int]) -> int:
        if key is None:
            return -len(kind)
        self.counts[key] = self.counts.get(key, 0) + len(items)
        return self.counts[key]


class Numbered(Program):
    found = Partitioned(Map[int, int])
    kinds = Partitioned(Map[str, Place])

    @entry
    def go(self, key: int | None, kind: Literal["a", "b"], items: list[int]) -> int:
        total = 0
        for place, item in enumerate(items):
            total += self.found.get(place, 7)
            self.found[item] = total
        if key is not None:
            self.found[key] = total
        return total

    @entry
    def put(self, kind: Literal["a", "b"], place: Place) -> str:
        self.kinds[kind] = place
        return self.kinds[kind].kind


ROWS = [
    ("go", (1, "a", [7])),
    ("go", (None, "b", [7])),
    ("go", (1, "b", [7])),
    ("go", (None, "a", [])),
    ("go", (107, "a", [7])),
    ("go", (1, "a", [7])),
]


@pytest.mark.parametrize("program", [Seats, Guarded, Numbered])
def test_a_batch_equals_plain_python(spark, tmp_path, program):
    rows = [*ROWS, ("put", ("a", Place(1, "b")))] if program is Numbered else ROWS
    plain = program()
    wanted = [getattr(plain, name)(*args) for name, args in rows]
    write_parts(tmp_path / "in", program, rows, 1)
    job = program.on(spark, checkpoint=tmp_path / "ck", partitions=3, local_root=tmp_path / "local")
    feed_all(job, program, tables(spark, program, tmp_path / "in"), tmp_path / "out").run()
    assert [reply for _, reply in sorted(replies_in(tmp_path / "out").items())] == wanted
