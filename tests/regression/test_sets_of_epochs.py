"""The cut into epochs is not seen in the order of a set, whatever is seen: a row ends with sets in canonical order."""

from __future__ import annotations

import random

import pytest

from millpond import Map, Partitioned, Program, Value, entry
from millpond.engine.simulated import Simulated
from tests.sizes import compile_once


class Hidden:
    """What it holds has no type that the compiler knows."""

    def __init__(self, held):
        self.held = held


def walked(hidden):
    return " ".join(map(str, hidden.held))


class Walks(Program):
    tags = Partitioned(Map[str, set[int]])
    kept = Partitioned(Map[str, frozenset[int]])
    deep = Partitioned(Map[str, dict[str, list[set[int]]]])

    @entry
    def change(self, key: str, add: int, drop: int, pops: int) -> str:
        tags = self.tags.get(key, set())
        seen = walked(Hidden(tags))
        tags.add(add)
        tags.discard(drop)
        if pops == 0 and tags:
            add += 1000 * Hidden(tags).held.pop()
        self.tags[key] = tags
        kept = self.kept.get(key, frozenset())
        self.kept[key] = (kept | {add, add * 8}) - {drop}
        deep = self.deep.get(key, {})
        deep.setdefault("x", [set()])[0].add(add * 16 % 512)
        self.deep[key] = deep
        return f"{seen} | {walked(Hidden(kept))} | {walked(Hidden(deep['x'][0]))} | {add}"


class One(Program):
    last = Partitioned(Value[set[str]])

    @entry
    def put(self, word: str) -> str:
        found = self.last.get(set())
        shown = walked(Hidden(found))
        found.add(word)
        self.last.set(found)
        return shown


def rows(seed, count=60):
    dice = random.Random(seed)
    numbers = [8 * number for number in range(12)]
    return [
        ("change", (dice.choice("ab"), dice.choice(numbers), dice.choice(numbers), dice.randrange(5)))
        for _ in range(count)
    ]


def cut(given, dice):
    """The rows in epochs, by chance."""
    while given:
        size = dice.randrange(1, len(given) + 1)
        yield given[:size]
        given = given[size:]


def told(program, given, folder, partitions, seed):
    run = Simulated(compile_once(program), folder, partitions, key_groups=16)
    for epoch in cut(given, random.Random(seed)):
        run.epoch(epoch)
    return [reply for _, reply in sorted(run.replies().items())]


@pytest.mark.parametrize("seed", range(4))
def test_replies_are_those_of_plain_python_on_any_cut(seed, tmp_path):
    given = rows(seed)
    plain = Walks()
    expected = [plain.change(key, add, drop, pops) for _, (key, add, drop, pops) in given]
    for cuts in range(4):
        assert told(Walks, given, tmp_path / str(cuts), 1 + cuts % 3, cuts) == expected


def test_the_same_goes_for_a_single_value(tmp_path):
    given = [("put", (f"w{number}",)) for number in range(40)]
    plain = One()
    expected = [plain.put(word) for _, (word,) in given]
    for cuts in range(3):
        assert told(One, given, tmp_path / str(cuts), 1, cuts) == expected
