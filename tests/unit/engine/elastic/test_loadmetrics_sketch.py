from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from millpond.engine.elastic.loadmetrics import Sketch

ADDED = st.lists(st.tuples(st.sampled_from("abcdefghij"), st.integers(1, 50)), max_size=80)


@given(ADDED, st.integers(1, 6))
def test_a_key_that_is_told_surely_has_its_share_and_heavy_ones_are_told(added, counters):
    sketch = Sketch.of(added, counters)
    truth: Counter[str] = Counter()
    for key, rows in added:
        truth[key] += rows
    total = sum(truth.values())
    assert sketch.total == total
    for key, share in sketch.heaviest(0.01):
        assert share <= truth[key] / total + 1e-9
    for key, rows in truth.items():
        if rows > total / counters:
            assert key in sketch._counts, "what has more than one part in so many counters has one"
            held = sketch._counts[key]
            assert held.rows - held.error <= rows <= held.rows


@given(ADDED)
def test_with_a_counter_for_each_key_it_is_exact(added):
    truth: Counter[str] = Counter()
    for key, rows in added:
        truth[key] += rows
    total = sum(truth.values())
    wanted = sorted(((key, rows / total) for key, rows in truth.items()), key=lambda one: (-one[1], one[0]))
    assert Sketch.of(added).heaviest(0) == wanted


@given(ADDED)
def test_the_same_additions_give_the_same_counters(added):
    assert Sketch.of(added, 3) == Sketch.of(added, 3)


def test_what_was_hot_long_ago_is_forgotten():
    sketch = Sketch.of([("old", 100)])
    for _ in range(5):
        sketch.fade(0.5)
        sketch.add("new", 60)
        sketch.add_others(40)
    assert [key for key, _ in sketch.heaviest(0.2)] == ["new"]


def test_nothing_is_hot_before_anything_came():
    assert Sketch().heaviest(0.0) == []
