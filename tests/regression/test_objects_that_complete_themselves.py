"""`__post_init__` is run where a program makes an object, and not again when it comes out of state or a column."""

from __future__ import annotations

import dataclasses
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import msgspec
import pytest

from millpond import Map, Partitioned, Program, entry
from millpond.state.codec.valuecodec import ValueCodec
from millpond.testing import assert_equals_plain, simulate


@dataclass
class Counted:
    n: int
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.n += 1
        self.log.append("made")


@dataclass(slots=True)
class Doubled:
    xs: list[int]
    ys: list[int] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.ys = self.xs


@dataclass
class Bounded(Counted):
    limit: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n > self.limit:
            raise ValueError(self.n)


class Held:
    one: Counted
    all: list[Counted]

    def __init__(self) -> None:
        self.one = Counted(1)
        self.all = [self.one]


class Keeping(Program):
    counted = Partitioned(Map[int, Counted])
    doubled = Partitioned(Map[int, dict[str, Doubled]])
    bounded = Partitioned(Map[int, Bounded | None])
    held = Partitioned(Map[int, Held])
    waiting = Partitioned(Map[int, deque[Counted]])

    @entry
    def put(self, k: int) -> str:
        self.counted[k] = Counted(k)
        self.doubled[k] = {"x": Doubled([k])}
        self.doubled[k]["x"].xs.append(7)
        self.bounded[k] = Bounded(k) if k % 2 else None
        self.held[k] = Held()
        self.waiting.setdefault(k, deque()).append(Counted(k))
        return self._shown(k)

    @entry
    def change(self, k: int) -> str:
        self.doubled[k]["x"].xs.append(1)
        self.counted[k].log.append("changed")
        if found := self.bounded.get(k):
            found.n = 100
        self.held[k].one.n += 1
        self.waiting[k].append(self.counted[k])
        return self._shown(k)

    @entry
    def take(self, k: int, given: Counted) -> Counted:
        given.log.append("taken")
        self.counted[k] = given
        return given

    def _shown(self, k: int) -> str:
        held = self.held[k]
        whole = (self.counted[k], self.doubled[k], self.bounded[k], held.one, held.all, self.waiting[k])
        return str(whole)


ROWS = [("put", 1), ("change", 1), ("take", 1, Counted(3)), ("change", 1), ("put", 2), ("change", 2), ("change", 1)]


@pytest.mark.parametrize("epochs", [1, 3, len(ROWS)])
def test_what_a_class_does_to_a_new_object_is_done_once(epochs):
    run = simulate(Keeping, ROWS, epochs=epochs, partitions=2)
    assert_equals_plain(run)
    assert dataclasses.asdict(run.replies[2]) == {"n": 4, "log": ["made", "taken"]}
    assert "Doubled(xs=[1, 7, 1, 1], ys=[1, 7])" in run.replies[3]
    assert "Bounded(n=100" in run.replies[3]


def test_classes_are_left_as_they_were():
    before = {kind: dict(vars(kind)) for kind in (Counted, Bounded, Doubled)}
    with ThreadPoolExecutor(4) as pool:
        codecs = list(pool.map(ValueCodec, [list[Bounded], Counted, dict[str, Doubled], Held] * 8))
        made = list(pool.map(Counted, range(200)))
    assert {kind: dict(vars(kind)) for kind in before} == before
    assert all(one.log == ["made"] for one in made)
    assert codecs[1].renew(Counted(1)) == Counted(1)
    assert msgspec.convert({"n": 1}, Counted).n == 2
