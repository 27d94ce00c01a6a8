from __future__ import annotations

import dataclasses

import pytest

from millpond.engine.sequential import Sequential
from millpond.errors import FeedError, RowError
from millpond.keygroups import Layout
from millpond.program import Partial, Partitioned, ProgramBase, each, entry, merged
from millpond.state.containers.counter import Counter
from millpond.state.containers.list import List
from millpond.state.containers.map import Map
from millpond.state.containers.matrix import Matrix
from millpond.state.containers.value import Value
from millpond.state.containers.vector import Vector
from millpond.state.local.storekey import store_key
from tests.sizes import compile_once

LAYOUT = Layout(key_groups=128, partitions=1, instances=8, aligned=True)


def add_vectors(vectors: list[Vector[int]]) -> Vector[int]:
    total: Vector[int] = Vector()
    for vector in vectors:
        total = total.add(vector)
    return total


class Recommender(ProgramBase):
    ratings = Partitioned(Matrix[int, int, float], by="row")
    together = Partial(Matrix[int, int, int])

    @entry
    def rate(self, user: int, item: int, rating: float) -> None:
        self.ratings[user, item] = rating
        for other in self.ratings.row(user):
            self.together[item, other] += 1
            self.together[other, item] += 1

    @entry
    def recommend(self, user: int) -> dict[int, float]:
        row = self.ratings.row(user)
        scores = each(self.together).multiply(row)
        return merged(scores, add_vectors)


class Words(ProgramBase):
    counts = Partitioned(Counter[str])
    seen = Partial(Counter[str])

    @entry
    def add(self, word: str) -> int:
        self.counts[word] += 1
        self.seen["all"] += 1
        return self.counts[word]

    @entry
    def total(self) -> int:
        return merged(each(self.seen).get("all", 0), sum)

    @entry
    def parts(self) -> list[int]:
        return merged(each(self.seen).get("all", 0), list)


@dataclasses.dataclass
class Account:
    spent: float = 0.0
    places: list[str] = dataclasses.field(default_factory=list)


class Fraud(ProgramBase):
    accounts = Partitioned(Map[int, Account])
    log = Partitioned(List[str])
    total = Partitioned(Value[float])

    @entry
    def pay(self, account: int, amount: float, place: str) -> bool:
        known = self.accounts.setdefault(account, Account())
        known.spent += amount
        known.places.append(place)
        bad = known.spent > 100.0
        self.log.append(place)
        self.total.set(self.total.get(0.0) + amount)
        return bad


def test_the_recommender_equals_its_plain_run():
    plain = Recommender()
    compiled = Sequential(compile_once(Recommender))
    for number in range(60):
        row = (number * 7 % 5, number * 3 % 11, float(number % 4))
        assert compiled.call("rate", *row) is plain.rate(*row)
    for user in range(6):
        assert compiled.call("recommend", user) == plain.recommend(user)


def test_records_of_one_key_meet_one_instance_and_all_are_asked_in_order():
    words = Sequential(compile_once(Words))
    texts = [f"word {number % 20}" for number in range(100)]
    for text in texts:
        words.call("add", text)
    expected = [0] * 8
    for text in texts:
        expected[LAYOUT.instance_of(LAYOUT.group_of(text))] += 1
    assert words.call("parts") == expected
    assert words.call("total") == 100


def test_state_is_what_a_checkpoint_holds():
    words = Sequential(compile_once(Words))
    words.call("add", "mill")
    counts, seen = Words.elements().values()
    group = LAYOUT.group_of("mill")
    home = LAYOUT.home_of(LAYOUT.instance_of(group))
    assert words.state() == {
        store_key(0, group, counts.type.keys.encode("mill")): counts.type.values.encode(1),
        store_key(1, home, seen.type.keys.encode("all")): seen.type.values.encode(1),
    }


def test_values_and_lists_live_under_the_group_of_the_only_key():
    fraud = Sequential(compile_once(Fraud))
    assert [fraud.call("pay", 1, 60.0, place) for place in ("a", "b")] == [False, True]
    _, log, total = Fraud.elements().values()
    group = LAYOUT.group_of(())
    held = fraud.state()
    assert held[store_key(1, group, log.type.keys.encode(1))] == log.type.values.encode("b")
    assert held[store_key(2, group, total.type.keys.encode(()))] == total.type.values.encode(120.0)
    assert len(held) == 4


def test_what_crosses_a_cut_is_a_copy_that_can_travel():
    class Travels(ProgramBase):
        ones = Partitioned(Counter[int])
        twos = Partitioned(Counter[int])

        @entry
        def go(self, a: int, b: int) -> str:
            carried = make(a)
            self.ones[a] += 1
            self.twos[b] += 1
            return repr(carried)

    made = [object()]

    def make(number: int) -> object:
        return (number, {number}) if number else made[0]

    program = Sequential(compile_once(Travels))
    assert program.call("go", 1, 2) == "(1, {1})"
    with pytest.raises(RowError) as refused:
        program.call("go", 0, 2)
    assert refused.value.code == "MP601"


def test_an_unknown_entry_point_and_a_wrong_number_of_arguments_are_refused():
    words = Sequential(compile_once(Words))
    with pytest.raises(FeedError) as unknown:
        words.call("remove", "x")
    with pytest.raises(FeedError) as wrong:
        words.call("add")
    assert (unknown.value.code, wrong.value.code) == ("MP510", "MP503")
