"""Merge functions that are ready made: right by themselves, and in programs."""

from __future__ import annotations

import fractions
from collections import Counter as Tally

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond import Counter, Map, Matrix, Partial, Program, Set, each, entry, merged, merges
from millpond.engine.sequential import Sequential
from millpond.errors import ProgramError
from millpond.state.containers.vector import Vector
from millpond.testing import simulate
from tests.sizes import compile_once

TOP = merges.top_k(3)


class Shop(Program):
    sold = Partial(Counter[str])
    best = Partial(Map[str, int])
    seen = Partial(Set[str])
    logs = Partial(Map[str, list[int]])
    pairs = Partial(Matrix[str, str, int])
    sums = Partial(Map[str, tuple[int, int]])

    @entry
    def sell(self, item: str, price: int, customer: str) -> None:
        self.sold[item] += 1
        self.best[item] = max(self.best.get(item, price), price)
        self.seen.add(customer)
        self.logs.setdefault(item, []).append(price)
        self.pairs[item, customer] += price
        old, count = self.sums.get(item, (0, 0))
        self.sums[item] = (old + price, count + 1)

    @entry
    def count(self, item: str) -> int:
        return merged(each(self.sold).get(item), merges.total)

    @entry
    def dearest(self, item: str) -> int | None:
        return merged(each(self.best).get(item), merges.greatest)

    @entry
    def cheapest_best(self, item: str) -> int | None:
        found = merged(each(self.best).get(item), merges.least)
        return found if found is None else min(found, 10**6)

    @entry
    def customers(self, item: str) -> list[str]:
        return sorted(merged(each(self.pairs).row(item), merges.union))

    @entry
    def prices(self, item: str) -> list[int]:
        return sorted(merged(each(self.logs).get(item), merges.concatenate))

    @entry
    def spent(self, item: str) -> dict[str, float]:
        return dict(merged(each(self.pairs).row(item), merges.add_vectors))

    @entry
    def average(self, item: str) -> float | None:
        return merged(each(self.sums).get(item), merges.mean)

    @entry
    def leaders(self, item: str) -> list[tuple[str, float]]:
        return merged(each(self.pairs).row(item), TOP)


SALES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.sampled_from(["ann", "bob", "cy", "dee", "eve"])),
    max_size=25,
)
ASKS = [name for name in Shop.entries() if name not in ("sell", "cheapest_best")]


@pytest.mark.slow
@given(SALES)
def test_programs_with_them_equal_plain_python(sales):
    plain, sequential = Shop(), Sequential(compile_once(Shop))
    for sale in sales:
        plain.sell(*sale)
        sequential.call("sell", *sale)
    for name in ASKS:
        for item in "abcd":
            assert sequential.call(name, item) == getattr(plain, name)(item), name


def test_they_travel_to_many_partitions():
    rows = [("sell", "abc"[n % 3], n % 7, f"c{n % 5}") for n in range(40)]
    asks = [(name, item) for name in ("count", "dearest", "average", "prices") for item in "abx"]
    plain = Shop()
    wanted = [getattr(plain, name)(*arguments) for name, *arguments in [*rows, *asks]]
    assert simulate(Shop, [*rows, *asks], epochs=[40], partitions=3).replies == wanted


@given(st.lists(st.none() | st.integers(), max_size=8))
def test_numbers_are_merged_and_none_is_nothing(answers):
    known = [answer for answer in answers if answer is not None]
    assert merges.total(answers) == sum(known)
    assert merges.least(answers) == min(known, default=None)
    assert merges.greatest(answers) == max(known, default=None)


def test_sums_of_floats_are_added_one_by_one():
    assert merges.total([1e16, 1.0, 1.0]) == (1e16 + 1.0) + 1.0
    assert merges.total([fractions.Fraction(1, 3)] * 3) == 1


@given(st.lists(st.none() | st.sets(st.integers()) | st.lists(st.integers()), max_size=5))
def test_unions_and_concatenations_hold_every_item(answers):
    known = [answer for answer in answers if answer is not None]
    assert merges.union(answers) == {item for answer in known for item in answer}
    assert Tally(merges.concatenate(answers)) == Tally(item for answer in known for item in answer)


COUNTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9), max_size=6)


@given(
    st.lists(st.none() | COUNTS | COUNTS.map(Vector) | COUNTS.map(lambda c: list(c.items())), max_size=5),
    st.integers(0, 7),
)
def test_the_largest_of_all_are_found(answers, k):
    tally = {}
    for answer in answers:
        for key, count in dict(answer or {}).items():
            tally[key] = tally.get(key, 0) + count
    assert dict(merges.add_vectors(answers)) == tally
    assert merges.top_k(k)(answers) == sorted(tally.items(), key=lambda pair: (-pair[1], pair[0]))[:k]


def test_a_mean_weighs_each_instance_by_its_count():
    assert merges.mean([(1.0, 1), (9.0, 3), None]) == 2.5
    assert merges.mean([None, (0.0, 0)]) is None


def test_a_negative_k_is_refused():
    with pytest.raises(ProgramError) as caught:
        merges.top_k(-1)
    assert caught.value.code == "MP179"
