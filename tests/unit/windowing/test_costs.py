"""What sharing costs for one periodic query: the formulas of the document, as its errata have them."""

from __future__ import annotations

import math

import pytest

from millpond import windowing as w
from millpond.windowing.baselines import Naive, pairs, pairs_plus, panes, reactive

RECORDS = 3000
SHAPES = [(10, 3), (12, 4), (9, 6), (100, 7), (64, 64), (5, 1), (3, 10)]


def shared(store):
    return lambda aggregate, queries: w.SharedWindows(aggregate, queries, store=store, check=True)


def count(make, range_, slide):
    windows = make(w.max_of(), {"w": w.count_sliding(range_, slide)})
    results = [result for number in range(RECORDS) for result in windows.add(number)]
    assert [result.value for result in results] == [begin + range_ - 1 for begin in range(0, RECORDS - range_, slide)]
    return windows.counters


def begins(slide):
    return math.ceil(RECORDS / slide)


@pytest.mark.parametrize(("range_", "slide"), SHAPES)
def test_a_record_is_combined_once_and_a_slice_is_made_per_slide(range_, slide):
    """Slices are cut at begins alone. The first record of a slice is not combined with anything.

    The document keeps one slice more: it cuts before it ends windows. Here a window that ends frees its slice first.
    """
    counters = count(shared("lazy"), range_, slide)
    width = math.ceil(range_ / slide)
    covered = sum(1 for record in range(RECORDS) if record % slide < range_)
    assert counters.fold_calls == covered - begins(slide)
    assert counters.update_calls == 0
    assert counters.partials == (begins(slide) - 1 if range_ > slide else 0)
    assert counters.live_slices_max + 1 == width
    assert counters.merge_calls == counters.windows * (width - 1)
    assert counters.lookups == counters.windows


@pytest.mark.parametrize(("range_", "slide"), SHAPES)
def test_the_eager_store_pays_a_logarithm_per_slice_and_lookup(range_, slide):
    counters = count(shared("eager"), range_, slide)
    width = math.ceil(range_ / slide)
    depth = math.ceil(math.log2(max(width, 4))) + 1
    assert counters.live_slices_max + 1 == width
    assert counters.update_calls <= counters.partials * 2 * depth
    assert counters.merge_calls <= counters.windows * 2 * depth


@pytest.mark.parametrize(("range_", "slide"), [shape for shape in SHAPES if shape[0] > shape[1]])
def test_pairs_make_twice_the_slices_where_ends_are_not_begins(range_, slide):
    lazy, cutty = count(pairs, range_, slide), count(shared("lazy"), range_, slide)
    ends = 0 if range_ % slide == 0 else len(range(range_, RECORDS, slide))
    assert lazy.partials == cutty.partials + ends
    assert lazy.live_slices_max + 1 <= math.ceil(2 * range_ / slide)
    eager = count(pairs_plus, range_, slide)
    assert (eager.partials, eager.live_slices_max) == (lazy.partials, lazy.live_slices_max)


@pytest.mark.parametrize(("range_", "slide"), [shape for shape in SHAPES if shape[0] > shape[1]])
def test_panes_reactive_and_naive_cost_what_the_document_says(range_, slide):
    common = math.gcd(range_, slide)
    assert count(panes, range_, slide).live_slices_max + 1 == range_ // common
    assert count(panes, range_, slide).partials == math.ceil(RECORDS / common) - 1
    leaves = count(reactive, range_, slide)
    assert leaves.partials == RECORDS - 1
    assert leaves.live_slices_max + 1 == range_
    naive = count(Naive, range_, slide)
    records_of_windows = sum(min(range_, RECORDS - begin) for begin in range(0, RECORDS, slide))
    assert naive.update_calls == records_of_windows - begins(slide)
    assert (naive.merge_calls, naive.live_slices_max) == (0, math.ceil(range_ / slide))


def test_many_queries_keep_no_more_slices_than_windows_are_open():
    """A long window beside short ones: begins of short windows that are over would pile up if they were not merged."""
    queries = {"long": w.count_tumbling(5000), **{f"q{n}": w.count_sliding(7 + n, 3 + n) for n in range(5)}}
    for store in ("lazy", "eager", "auto"):
        windows = w.SharedWindows(w.collect(), queries, store=store, check=True)
        results = [result for number in range(5001) for result in windows.add(number)]
        assert all(result.value == list(range(*result.bounds)) for result in results)
        assert sum(result.query == "long" for result in results) == 1
        assert windows.counters.live_slices_max < 30


def test_nothing_is_kept_between_sessions():
    windows = w.SharedWindows(w.count(), {"s": w.session(5)}, store="lazy", check=True)
    for number in range(1000):
        windows.add(number, number * 10)
    assert (windows.counters.partials, windows.counters.live_slices_max, windows.counters.reduce_calls) == (0, 0, 0)
    assert windows.counters.fold_calls == 0


def test_a_record_is_shown_to_a_periodic_query_only_where_its_windows_change():
    asked = []

    class Watched(w.count_sliding(10, 5).start().__class__):
        def on_record(self, moment):
            asked.append(moment.position)
            return super().on_record(moment)

    window = w.count_sliding(10, 5)
    windows = w.SharedWindows(w.count(), {})
    windows._discretiser.add_query(
        "w",
        type(
            "Shown",
            (),
            {
                "needs_time": False,
                "start": lambda self: Watched(window),
                "describe": lambda self: "shown",
            },
        )(),
    )
    for number in range(100):
        windows.add(number)
    assert asked == list(range(0, 100, 5))
