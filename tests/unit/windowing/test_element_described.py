"""What is described badly, or given what does not fit, is refused with a code."""

from __future__ import annotations

import sys
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.baselines import panes
from millpond import windowing as w
from millpond.errors import WindowError
from millpond.windowing.columns.columnsessions import ColumnSessions
from millpond.windowing.columns.vectorised import ColumnWindows
from tests.lengths import us


def never(*_):
    return False


BAD = {
    "no aggregate": ("MP610", w.several),
    "no function": ("MP610", lambda: w.aggregate(lift=1, combine=max, lower=int, identity=0)),
    "no inverse": ("MP610", lambda: w.aggregate(lift=int, combine=max, lower=int, identity=0, invertible=True)),
    "no field": ("MP610", lambda: w.sum_of(3)),
    "no k": ("MP610", lambda: w.top_k(0)),
    "no rank": ("MP610", lambda: w.quantiles_of([1.5])),
    "no compression": ("MP610", lambda: w.quantiles_of([0.5], compression=1)),
    "no buckets": ("MP610", lambda: w.distinct_count(log2_buckets=99)),
    "no value": ("MP611", lambda: w.distinct_count().lift([1])),
    "no column": ("MP613", lambda: ColumnWindows(w.tumbling("5 us"), {"s": w.sum_of()})),
    "no store": ("MP615", lambda: w.SharedWindows(w.count(), {}, store="heap")),
    "no prefixes": ("MP616", lambda: w.SharedWindows(w.min_of(), {}, store="prefix")),
    "no range": ("MP617", lambda: w.sliding("0 s", "1 us")),
    "no slide": ("MP617", lambda: w.sliding("1 us", timedelta(0))),
    "no whole microseconds": ("MP617", lambda: w.tumbling(1.5)),
    "no records": ("MP617", lambda: w.count_sliding(2.0, 1)),
    "no gap": ("MP617", lambda: w.session("-1 us")),
    "no whole gap": ("MP617", lambda: w.session(0.5)),
    "no whole gap above one": ("MP617", lambda: w.session(1.9)),
    "no gap in 64 bits": ("MP617", lambda: w.session(us(2**63))),
    "no range in 64 bits": ("MP617", lambda: w.tumbling(us(2**63))),
    "no origin": ("MP617", lambda: w.tumbling("5 us", origin="noon")),
    "no origin in 64 bits": ("MP617", lambda: w.tumbling("5 us", origin=us(-(2**63)))),
    "no origin of a measure": ("MP617", lambda: w.measured(float, 5, origin="noon")),
    "no finite origin": ("MP617", lambda: w.measured(float, 5, origin=float("nan"))),
    "no finite range": ("MP617", lambda: w.measured(float, float("inf"))),
    "no records to view": ("MP617", lambda: w.last_every(0, "5 us")),
    "no time to view": ("MP617", lambda: w.last_every(2, "0 s")),
    "no whole time to view": ("MP617", lambda: w.last_every(2, 0.5)),
    "no lateness": ("MP650", lambda: ColumnWindows(w.tumbling("5 us"), {"n": w.count()}, lateness=0.5)),
    "no mark": ("MP617", lambda: w.punctuation(3)),
    "no landmark": ("MP617", lambda: w.landmark(None)),
    "no length": ("MP617", lambda: w.landmark(never, length=0.5)),
    "no measure": ("MP617", lambda: w.measured(None, 3)),
    "no shape": ("MP617", lambda: w.varying(3)),
    "no cut": ("MP617", lambda: w.user_defined(3)),
    "no view": ("MP617", lambda: w.viewed(3)),
    "no span": ("MP617", lambda: w.days("UTC", span=0)),
    "no multiple": ("MP617", lambda: w.days("UTC", span=3, every=2)),
    "no zone": ("MP620", lambda: w.days("Atlantis/Capital")),
    "no query": ("MP624", lambda: w.SharedWindows(w.count(), {}).remove_query("q")),
    "no form": ("MP629", lambda: ColumnWindows(w.tumbling("5 us"), {"t": w.top_k(3, "v")})),
    "no window of columns": ("MP629", lambda: ColumnWindows(w.session("5 us"), {"n": w.count()})),
    "no session": ("MP629", lambda: ColumnSessions(w.tumbling("5 us"), {"n": w.count()})),
}


@pytest.mark.parametrize("name", BAD)
def test_what_makes_no_sense_is_refused(name):
    code, make = BAD[name]
    with pytest.raises(WindowError) as refused:
        make()
    assert refused.value.code == code


@pytest.mark.parametrize("queries", [{"a": w.tumbling("1 us"), "b": w.tumbling("2 us")}, {"a": w.session("1 us")}])
def test_panes_are_for_one_periodic_query(queries):
    with pytest.raises(TypeError, match="one tumbling or sliding query"):
        panes(w.count(), queries)


def refused_code(call, *arguments):
    with pytest.raises(WindowError) as refused:
        call(*arguments)
    return refused.value.code


def test_sketches_say_which_package_they_need(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasketches", None)
    assert refused_code(w.distinct_count) == "MP612"


def test_times_do_not_go_back():
    windows = w.SharedWindows(w.count(), {"t": w.tumbling("10 us"), "m": w.measured(float, 10)})
    windows.add(3.0, 5)
    windows.add(2.0, 6)  # A measure may.
    assert refused_code(windows.add, 4.0, 5) == "MP618"
    assert refused_code(windows.advance, 1) == "MP618"
    columns = ColumnWindows(w.tumbling("5 us"), {"n": w.count()})
    columns.close(10)
    assert refused_code(columns.close, 9) == "MP618"
    sessions = ColumnSessions(w.session("5 us"), {"n": w.count()})
    sessions.close(10)
    assert refused_code(sessions.close, 9) == "MP618"


def test_windows_over_time_need_times():
    assert refused_code(w.SharedWindows(w.count(), {"t": w.session("10 us")}).add, 1) == "MP619"
    assert refused_code(w.SharedWindows(w.count(), {"t": w.last_every(2, "10 us")}).add, 1) == "MP619"


def test_lengths_of_time_are_texts_or_timedeltas():
    second = timedelta(seconds=1)
    assert w.session(second) == w.session("1 s")
    assert w.measured(int, second, origin=second).grid == w.measured(int, 1_000_000, origin=1_000_000).grid
    assert w.last_every(2, second).describe() == w.last_every(2, "1 s").describe()
    assert w.last_every(2, second).describe() != w.last_every(3, second).describe()


@pytest.mark.parametrize(
    "shape", [(0.5, "1 s"), ("1 s", "0 s"), (4, 4), 7, None, ("1 s",) * 3, ("a", "1 s"), (us(10**12), us(1))]
)
def test_a_shape_is_a_range_and_a_slide(shape):
    windows = w.SharedWindows(w.count(), {"v": w.varying(lambda _: shape)})
    assert refused_code(windows.add, 1, 5) == "MP617"


@pytest.mark.parametrize("counts", [(0, 1), (-1, 0)])
def test_a_window_function_ends_only_what_is_open(counts):
    windows = w.SharedWindows(w.count(), {"u": w.user_defined(lambda state, moment: (*counts, None))})
    assert refused_code(windows.add, 1) == "MP621"


def test_the_end_function_of_the_document_lacks_a_guard():
    """Count windows 4/2 as printed would end windows at the records 0 and 2, before any is four long."""

    def printed(_state, moment):
        return int(moment.position % 2 == 0), int((moment.position - 4) % 2 == 0), None

    windows = w.SharedWindows(w.count(), {"u": w.user_defined(printed)})
    assert refused_code(windows.add, 1) == "MP621"


def test_a_view_lets_go_only_what_it_holds():
    windows = w.SharedWindows(w.count(), {"v": w.viewed(lambda state, moment, held: (held + 1, True, None))})
    assert refused_code(windows.add, 1) == "MP626"


def test_queries_have_names_of_their_own_and_keep_their_windows():
    windows = w.SharedWindows(w.count(), {"q": w.tumbling("10 us")})
    assert refused_code(windows.add_query, "q", w.tumbling("5 us")) == "MP622"
    assert refused_code(windows.add_query, "q", w.last_every(3, "5 us")) == "MP622"
    windows.add(1, 1)
    assert refused_code(w.SharedWindows(w.count(), {"q": w.tumbling("5 us")}).restore, windows.export()) == "MP623"
    assert refused_code(w.SharedWindows(w.sum_of(), {"q": w.tumbling("10 us")}).restore, windows.export()) == "MP625"


@pytest.mark.parametrize(
    ("keys", "times", "column"),
    [
        ([0, 1], [1], [1, 2]),
        ([0, 1], [1, 2], [1]),
        ([-1], [1], [1]),
        ([0.5], [1], [1]),
        ([0], [1.5], [1]),
        ([0], [1], ["a"]),
        ([0], [1], pa.array([None], pa.int64())),
    ],
)
def test_columns_must_fit(keys, times, column):
    windows = ColumnWindows(w.tumbling("5 us"), {"s": w.sum_of("v")})
    assert refused_code(windows.add, keys, times, {"v": column}) == "MP628"


def test_a_column_keeps_its_type_and_must_be_there():
    windows = ColumnWindows(w.tumbling("5 us"), {"s": w.sum_of("v")})
    assert refused_code(windows.add, [0], [1], {}) == "MP628"
    windows.add([0], [1], {"v": [1]})
    assert refused_code(windows.add, [0], [1], {"v": [1.5]}) == "MP628"
    windows.add([0], [1], {"v": np.array([True])})
    assert windows.close(10).values["s"].tolist() == [2]


def test_sums_of_integers_do_not_wrap_around():
    windows = ColumnWindows(w.sliding("10 us", "5 us"), {"s": w.sum_of("v")})
    windows.add([0, 0], [1, 2], {"v": [2**62, -(2**62)]})
    assert refused_code(windows.add, [0, 0], [1, 2], {"v": [2**62, 2**62]}) == "MP614"
    windows.add([0, 0], [1, 6], {"v": [2**62, 2**62]})
    assert refused_code(windows.close, 100) == "MP614"
