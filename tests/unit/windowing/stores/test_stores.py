"""Stores of slices: all of them keep the order, and say the same as a plain list."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond import windowing as w
from millpond.windowing.stores.counters import Counters
from millpond.windowing.stores.flatfat import CAPACITY_MIN, FlatFat
from millpond.windowing.stores.stores import EAGER, ON_DEMAND, PREFIX, choose_store, make_store
from tests.sizes import some_of

TEXT = w.aggregate(lift=str, combine=lambda a, b: a + b, lower=str, identity="", name="text")
NUMBERS = w.sum_of(integers=True)
STORES = {"on_demand": (ON_DEMAND, TEXT, ""), "eager": (EAGER, TEXT, ""), "prefix": (PREFIX, NUMBERS, 0)}
MOVES = st.lists(st.tuples(st.sampled_from("aaaalpm"), st.floats(0, 1), st.integers(0, 99)), max_size=120)


def whole(partials, empty):
    total = empty
    for partial in partials:
        total += partial
    return total


@pytest.mark.parametrize("name", STORES)
@settings(max_examples=some_of(120), deadline=None)
@given(MOVES, st.sets(st.integers(0, 119)))
def test_a_store_says_the_same_as_a_list(name, moves, moved):
    kind, aggregate, empty = STORES[name]
    store = make_store(kind, aggregate, Counters())
    model, next_id = [], 0
    for turn, (move, part, value) in enumerate(moves):
        at = int(part * (len(model) - 1)) if model else 0
        if move == "a":
            next_id += 1 + value % 3
            partial = value if kind == PREFIX else f"{value};"
            store.add(next_id, partial)
            model.append((next_id, partial))
        elif move == "l":
            after = model[at][0] if model else 0
            assert store.lookup(after) == whole([p for i, p in model if i > after], empty)
            assert store.lookup(-1) == whole([p for _, p in model], empty)
        elif move == "p" and model:
            through = model[at][0]
            store.purge(through)
            model = [(i, p) for i, p in model if i > through]
        elif move == "m" and len(model) > 1:
            ends = [i for i, _ in model[:-1] if (i + value) % 3 == 0]
            store.merge(ends)
            merged, waiting = [], empty
            for i, p in model:
                waiting += p
                if i not in ends:
                    merged.append((i, waiting))
                    waiting = empty
            model = merged
        if turn in moved:
            other = make_store(kind, aggregate, Counters())
            other.arrange(list(store.slices()), store.layout())
            assert other.layout() == store.layout()
            store = other
        assert list(store.slices()) == model
        assert len(store) == len(model)


def test_the_tree_of_the_document_updates_five_nodes_and_looks_up_two():
    """16 leaves: adding the fourth record renews its four ancestors; the records 4 to 8 are a leaf and one node."""
    counters = Counters()
    calls = []
    store = FlatFat(
        w.aggregate(lift=str, combine=lambda a, b: calls.append(a + b) or a + b, lower=str, identity=""), counters
    )
    for record in range(1, 17):
        store.add(record, f"{record:x}")
        calls.clear()
        assert store.lookup(0) == "".join(f"{each:x}" for each in range(1, record + 1))
    store.purge(0)
    calls.clear()
    before = counters.merge_calls
    assert store.lookup(3)[:5] == "45678"
    store.purge(0)
    for record in range(9, 17):  # Leave eight, so that the lookup ends with the eighth.
        assert record in dict(store.slices())
    assert counters.merge_calls - before == 2  # s[4], s[5,8] and s[9,16]


def test_the_tree_doubles_when_full_and_halves_at_a_third():
    store = FlatFat(TEXT, Counters())
    sizes = []
    for record in range(1, 34):
        store.add(record, "x")
        sizes.append(store.layout()[0])
    assert sizes[CAPACITY_MIN - 1 : CAPACITY_MIN + 1] == [4, 8]
    assert sizes[-1] == 64
    store.purge(11)
    assert store.layout()[0] == 64  # 22 of 64 are more than a third
    store.purge(12)
    assert store.layout()[0] == 32


def test_order_is_kept_over_the_wrap_around():
    store = FlatFat(TEXT, Counters())
    for record in range(1, 5):
        store.add(record, str(record))
    store.purge(2)
    store.add(5, "5")
    store.add(6, "6")
    assert store.layout()[:3] == [4, 2, 4]
    assert (store.lookup(2), store.lookup(3), store.lookup(4), store.lookup(6)) == ("3456", "456", "56", "")


def test_the_rule_takes_few_slices_on_demand_and_many_eagerly():
    assert choose_store(w.min_of(), 3, 1) == ON_DEMAND
    assert choose_store(w.min_of(), 1000, 1) == EAGER
    assert choose_store(w.min_of(), 1000, 0.001) == ON_DEMAND
    assert choose_store(w.count(), 1000, 1) == PREFIX


@pytest.mark.parametrize(("range_", "kind"), [(20, ON_DEMAND), (4000, EAGER)])
def test_the_store_is_chosen_by_what_happens(range_, kind):
    windows = w.SharedWindows(w.max_of(), {"w": w.count_sliding(range_, 10)})
    results = [result.value for number in range(20_000) for result in windows.add(number)]
    assert results == [begin + range_ - 1 for begin in range(0, 20_000 - range_, 10)]
    assert windows.store_kind == kind


def test_exported_state_names_its_store_as_checkpoints_do():
    """The word on disk is an older one than that of users, and is read as it was written."""
    windows = w.SharedWindows(w.count(), {"s": w.session("5 us")}, store=ON_DEMAND)
    windows.add("row", 1)
    state = windows.export()
    assert state["store"] == "lazy"
    again = w.SharedWindows(w.count(), {"s": w.session("5 us")})
    again.restore(state)
    assert again.export()["store"] == "lazy"
    assert again.advance(20) == windows.advance(20)
