"""What sharing costs where windows are not alone or not periodic; one periodic query has formulas, held elsewhere."""

from __future__ import annotations

from millpond import windowing as w


def test_many_queries_keep_no_more_slices_than_windows_are_open():
    """A long window beside short ones: begins of short windows that are over would pile up if they were not merged."""
    queries = {"long": w.count_tumbling(5000), **{f"q{n}": w.count_sliding(7 + n, 3 + n) for n in range(5)}}
    for store in ("on_demand", "eager", "auto"):
        windows = w.SharedWindows(w.collect(), queries, store=store, check=True)
        results = [result for number in range(5001) for result in windows.add(number)]
        assert all(result.value == list(range(*result.bounds)) for result in results)
        assert sum(result.query == "long" for result in results) == 1
        assert windows.counters.live_slices_max < 30


def test_nothing_is_kept_between_sessions():
    windows = w.SharedWindows(w.count(), {"s": w.session("5 us")}, store="on_demand", check=True)
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
