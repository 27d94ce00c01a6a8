"""Which partitions change executors because these have too much to do."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.engine.elastic import Observed, TaskLoad
from millpond.keygroups import Layout
from millpond.spark.placement.placement import REPORTS, UNEVEN, WORTH, Loads, PartitionLoads, keep_places, relieved

PARTITIONS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 1000)), min_size=1, max_size=16)


def highest(places, rows):
    held = Counter()
    for place, count in zip(places, rows, strict=True):
        held[place] += count
    return max(held.values())


def after(places, rows, seconds=None):
    order = relieved(places, Loads(rows, seconds or rows))
    return [places[at] for at in order]


@given(PARTITIONS)
def test_executors_keep_their_number_of_partitions_and_what_was_done_is_not_done_again(partitions):
    places, rows = [place for place, _ in partitions], [float(count) for _, count in partitions]
    now = after(places, rows)
    assert Counter(now) == Counter(places)
    if now != places:
        assert highest(now, rows) <= WORTH * highest(places, rows)
    assert after(now, rows) == now


@given(PARTITIONS)
def test_executors_that_are_nearly_even_keep_theirs(partitions):
    places, rows = [place for place, _ in partitions], [float(count) for _, count in partitions]
    if highest(places, rows) <= UNEVEN * sum(rows) / len(set(places)):
        assert after(places, rows) == places


@pytest.mark.parametrize(
    ("places", "rows", "moved"),
    [
        ("aabb", (9, 8, 1, 1), 2),
        ("aabb", (5, 5, 5, 5), 0),
        ("aabb", (9, 1, 1, 1), 0),
        ("aaabbb", (9, 9, 9, 1, 1, 1), 2),
        ("aaaabbbb", (9, 9, 9, 9, 1, 1, 1, 1), 4),
        ("aabbcc", (9, 9, 5, 5, 1, 1), 2),
        ("ab", (9, 1), 0),
        ("aa", (9, 1), 0),
        ("aabb", (0, 0, 0, 0), 0),
    ],
)
def test_no_more_partitions_move_than_must(places, rows, moved):
    now = after(places, rows)
    assert sum(one != other for one, other in zip(now, places, strict=True)) == moved


@pytest.mark.parametrize(
    ("rows", "seconds"),
    [
        ((5, 5, 5, 5), (8, 8, 1, 1)),
        ((8, 8, 2, 2), (5, 5, 5, 5)),
        ((8, 8, 2, 2), (3, 3, 9, 9)),
    ],
    ids=["slow with as much as others", "slow with less on purpose", "slow with less, and still slow"],
)
def test_a_slow_executor_is_no_reason(rows, seconds):
    assert after("aabb", rows, seconds) == list("aabb")


def test_partitions_without_a_place_go_where_there_is_least_to_do():
    wanted, offered = ["a", "gone", "gone", "b", "gone", "gone"], list("aaabbb")
    rows = [1.0, 9.0, 8.0, 5.0, 2.0, 1.0]
    chosen = keep_places(wanted, offered, rows)
    places = [offered[at] for at in chosen]
    assert sorted(chosen) == list(range(6))
    assert places == ["a", "a", "b", "b", "a", "b"]


def seen(seconds, rows=(30, 10)):
    layout = Layout(2, 2, 1, aligned=False)
    tasks = (TaskLoad("add.0", rows, seconds, 0),)
    return Observed(1, layout.owners(), 2, layout.atoms, tasks, seconds, 1.0, ("a", "b"))


def test_loads_are_those_of_several_epochs_that_took_some_time():
    loads = PartitionLoads()
    for _ in range(REPORTS):
        assert loads.of_late(2) is None
        loads.learn(seen((0.01, 0.02)))
        loads.learn(seen((0.3, 0.1)))
    loads.learn(seen((5.0, 0.1), (500, 10)))
    rows, seconds = loads.of_late(2)
    assert (list(rows), list(seconds)) == ([30.0, 10.0], [0.3, 0.1])
    assert loads.of_late(3) is None
