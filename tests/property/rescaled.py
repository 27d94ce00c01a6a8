"""A program with a partial element of every kind and policy, and what a checkpoint holds of it by instance."""

from __future__ import annotations

import random
from typing import Any

from millpond import Counter, List, Map, Matrix, Partial, Partitioned, Program, Set, Value, Vector, each, entry, merged
from millpond.engine.sequential import Sequential
from millpond.keygroups import Layout
from millpond.program.merges import concatenate, greatest, total, union
from millpond.state.local.storekey import element_of, group_of, unit_of
from tests.sizes import compile_once

KEY_GROUPS = 12


def average(weights: list[float]) -> float:
    return total(weights) / len(weights)


class Kinds(Program):
    """Every kind of element; `totals` shows that partitioned state stays where it is."""

    totals = Partitioned(Map[str, int])
    counts = Partial(Counter[str], merge=sum)
    parts = Partial(Counter[str], on_scale_out="split", merge=total)
    best = Partial(Map[str, int], on_scale_out="split", merge=greatest)
    weights = Partial(Vector[str], on_scale_out="copy", merge=average)
    pairs = Partial(Matrix[str, int, int], by="column", on_scale_out="split", merge=total)
    seen = Partial(Set[str], on_scale_out="copy", merge=union)
    log = Partial(List[str], on_scale_out="split", merge=concatenate)
    last = Partial(Value[int], on_scale_out="copy", merge=greatest)

    @entry
    def add(self, word: str, number: int) -> int:
        self.totals[word] = self.totals.get(word, 0) + number
        return self.totals[word]

    @entry
    def count(self, word: str, number: int) -> int:
        self.counts[word] += number
        return self.counts[word]

    @entry
    def part(self, word: str, number: int) -> int:
        self.parts[word] += number
        return self.parts[word]

    @entry
    def improve(self, word: str, number: int) -> int:
        self.best[word] = max(self.best.get(word, number), number)
        return self.best[word]

    @entry
    def learn(self, word: str, number: int) -> float:
        self.weights[word] += number / 4
        return self.weights[word]

    @entry
    def pair(self, word: str, number: int) -> int:
        self.pairs[word, number] += 1
        return self.pairs[word, number]

    @entry
    def see(self, word: str) -> bool:
        new = word not in self.seen
        self.seen.add(word)
        return new

    @entry
    def write(self, word: str) -> int:
        self.log.append(word)
        return len(self.log)

    @entry
    def keep(self, number: int) -> int:
        before = self.last.get(0)
        self.last.set(number)
        return before

    @entry
    def counted(self, word: str) -> int:
        return merged(each(self.counts).get(word, 0), sum)

    @entry
    def parted(self, word: str) -> int:
        return merged(each(self.parts).get(word, 0), sum)


COMPILED = compile_once(Kinds)
WORDS = ("a", "b", "ä", "word", "", "日本", "z" * 600)
POLICIES = {name: element.on_scale_out for name, element in Kinds.elements().items()}
MERGES = {name: element.merge for name, element in Kinds.elements().items()}

Row = tuple[str, tuple[Any, ...]]
Contents = dict[str, list[dict[Any, Any]]]
"""What each element holds, by instance: entries by unit."""


def random_row(rng: random.Random) -> Row:
    name = rng.choice(list(COMPILED.entries))
    word, number = rng.choice(WORDS), rng.randrange(-2, 5)
    given = {"word": word, "number": number}
    return name, tuple(given[parameter] for parameter, _ in COMPILED.entries[name].point.parameters)


def random_rows(seed: int, count: int) -> list[Row]:
    rng = random.Random(seed)
    return [random_row(rng) for _ in range(count)]


def contents_of(state: dict[bytes, bytes], instances: int, key_groups: int = KEY_GROUPS) -> Contents:
    """The state by element and instance; an entry of a partial element anywhere but at a home is an error."""
    layout = Layout(key_groups, 1, instances, aligned=True)
    homes = {layout.home_of(number): number for number in range(instances)}
    elements = list(Kinds.elements().values())
    contents: Contents = {element.name: [{} for _ in range(instances)] for element in elements if element.partial}
    for key, value in state.items():
        element = elements[element_of(key)]
        if element.partial:
            entries = contents[element.name][homes[group_of(key)]]
            entries[element.type.keys.decode(unit_of(key))] = element.type.values.decode(value)
    return contents


def load(state: dict[bytes, bytes], instances: int) -> Sequential:
    """The sequential runtime with so many instances, holding this state."""
    sequential = Sequential(COMPILED, KEY_GROUPS, instances)
    elements = list(Kinds.elements().values())
    for name, held in contents_of(state, instances).items():
        for number, entries in enumerate(held):
            dict.update(sequential._states[name][number].entries, entries)
    for key, value in state.items():
        element = elements[element_of(key)]
        if not element.partial:
            unit = element.type.keys.decode(unit_of(key))
            dict.__setitem__(
                sequential._states[element.name][0].entries,
                unit,
                element.type.values.decode(value),
            )
    assert sequential.state() == state
    return sequential
