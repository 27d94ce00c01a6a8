"""The instance of partial state that a row meets follows from its entry point and arguments, in all ways."""

from __future__ import annotations

import random

import pytest

from millpond import Counter, Map, Partial, Partitioned, Program, entry
from millpond.compiler.compile import compile_program
from millpond.compiler.compiled import Meets
from millpond.engine.plan import BadRows
from millpond.engine.sequence import ways
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.errors import ProgramError


class Near(Program):
    """Entry points that meet an instance by a key, by two, by all arguments, and by a key that they compute."""

    total = Partitioned(Map[str, int])
    pairs = Partitioned(Map[tuple[str, int], int])
    near = Partial(Counter[str])
    far = Partitioned(Map[int, int])

    @entry
    def add(self, n: int, key: str) -> int:
        self.total[key] = self.total.get(key, 0) + n
        self.near[key] += n
        return sum(self.near.values())

    @entry
    def pair(self, key: str, n: int, more: int) -> int:
        self.pairs[key, n] = more
        self.near[key] += more
        return len(self.near)

    @entry
    def loose(self, key: str, n: int) -> int:
        self.near[key] += n
        return len(self.near)


class Reported(Near):
    @entry
    def report(self) -> int:
        return sum(self.total.values())


class Computed(Near):
    @entry
    def long(self, key: str, n: int) -> int:
        self.far[self.total.get(key, 0)] = n
        self.near[key] += 1
        return len(self.near)


class Both(Computed, Reported):
    pass


class Twice(Reported):
    """An entry point that meets two elements in instances of its own: by its arguments, and then by a key."""

    rules = Partial(Counter[str])

    @entry
    def ruled(self, key: str, n: int) -> int:
        self.rules[key] += 1
        rules = len(self.rules)
        self.total[key] = self.total.get(key, 0) + rules
        self.near[key] += n
        return rules * 100 + len(self.near)


def rows_of(program: type[Program], rng: random.Random, count: int):
    names = list(program.entries())
    for _ in range(count):
        name = rng.choice(names)
        given = {"key": rng.choice("abcdefgh"), "n": rng.randrange(4), "more": rng.randrange(3)}
        yield name, tuple(given[one] for one, _ in program.entries()[name].parameters)


@pytest.mark.parametrize("many", [0, 4], ids=["whole", "cut"])
@pytest.mark.parametrize("program", [Reported, Both, Twice])
def test_the_way_of_an_epoch_is_not_seen_in_instances(program, many, tmp_path, monkeypatch):
    monkeypatch.setattr(ways, "CUT_ROWS_MAX", many)
    rng = random.Random(many)
    rows = list(rows_of(program, rng, 120))
    compiled = compile_program(program)
    run, oracle = Simulated(compiled, tmp_path, 3, instances=4), Sequential(compiled, instances=4)
    expected = [oracle.call(name, *given) for name, given in rows]
    while run.fed < len(rows):
        run.epoch(rows[run.fed : run.fed + rng.randrange(1, 12)])
    assert run.replies() == dict(enumerate(expected))


def test_what_decides_about_the_instance_is_known_when_compiling():
    near, both = compile_program(Computed).entries, compile_program(Both)
    told = [near[name].meets for name in ("add", "pair", "loose")]
    assert told == [Meets((("near", ("key",)),)), Meets((("near", ("key", "n")),)), Meets()]
    assert near["long"].meets == Meets(sure=False), "alone it keeps its steps"
    assert "the instance of partial state" in both.graph.why_sequence("long")
    assert not both.graph.why_sequence("add")


def test_a_way_that_would_show_in_instances_is_refused_where_it_is_asked_for():
    class Asks(Reported):
        @entry(way="steps")
        def long(self, key: str, n: int) -> int:
            self.far[self.total.get(key, 0)] = n
            self.near[key] += 1
            return len(self.near)

    with pytest.raises(ProgramError) as refused:
        compile_program(Asks)
    assert refused.value.code == "MP189"


class Raising(Near):
    @entry
    def move(self, key: str, n: int) -> int:
        self.total[key] = self.total.get(key, 0) + n
        self.near[key] += 1
        self.far[n] = self.far.get(n, 0) + 1
        if self.far[n] % 3 == 0:
            raise ValueError(key)
        return sum(self.near.values())


@pytest.mark.parametrize("partitions", [1, 3])
def test_rows_that_raise_after_a_move_change_no_instance_of_others(partitions, tmp_path):
    rows = list(rows_of(Raising, random.Random(7), 60))
    compiled = compile_program(Raising)
    run, oracle = Simulated(compiled, tmp_path, partitions, instances=4, bad_rows=BadRows.SKIP), None
    kept: list[tuple[str, tuple[object, ...]]] = []
    expected: dict[int, object] = {}
    for number, row in enumerate(rows):
        oracle = Sequential(compiled, instances=4)
        for name, given in kept:
            oracle.call(name, *given)
        try:
            expected[number] = oracle.call(row[0], *row[1])
        except ValueError:
            continue
        kept.append(row)
    assert len(kept) < len(rows)
    for start in range(0, len(rows), 20):
        run.epoch(rows[start : start + 20])
    assert run.replies() == expected
