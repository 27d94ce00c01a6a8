"""Columns as they are taken in: nothing wraps around, nothing becomes something else, nulls are refused."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pyarrow as pa
import pytest

from millpond import windowing as w
from millpond.errors import WindowError
from millpond.windowing.columns.columnsessions import ColumnSessions
from millpond.windowing.columns.vectorised import ColumnWindows
from tests.lengths import us

MAKERS = [lambda aggregates: ColumnWindows(w.tumbling("100 us"), aggregates),
          lambda aggregates: ColumnSessions(w.session("100 us"), aggregates)]  # fmt: skip


def refused(call, *arguments):
    with pytest.raises(WindowError) as caught:
        call(*arguments)
    return caught.value.code


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "column", [np.array([2**63 + 5], np.uint64), pa.array([2**64 - 1], pa.uint64()), [2**63], [2**63, -1], [2**64]]
)
def test_integers_above_64_bits_are_refused(make, column):
    keys = [0] * len(column)
    for aggregate in (w.sum_of("v"), w.max_of("v"), w.mean_of("v"), w.argmax("v", "v")):
        assert refused(make({"x": aggregate}).add, keys, keys, {"v": column}) == "MP628"
    assert refused(make({"n": w.count()}).add, keys, column, {}) == "MP628"
    assert refused(make({"n": w.count()}).add, column, keys, {}) == "MP628"


@pytest.mark.parametrize("make", MAKERS)
def test_small_unsigned_integers_are_integers(make):
    windows = make({"x": w.sum_of("v")})
    windows.add([0, 0], [1, 2], {"v": np.array([2**62, 2], np.uint64)})
    assert windows.close(1000).values["x"].tolist() == [2**62 + 2]


@pytest.mark.parametrize("make", MAKERS)
def test_a_batch_without_rows_tells_no_type(make):
    windows = make({"x": w.sum_of("v"), "last": w.last_of("s")})
    assert len(windows.add([], [], {"v": [], "s": []}).rows) == 0
    windows.restore(windows.export())
    windows.close(0)
    windows.add([0, 0], [1, 2], {"v": [2**53 + 1, 0], "s": ["a", "b"]})
    windows.add([], [], {"v": [], "s": []})
    closed = windows.close(1000)
    assert closed.values["x"].tolist() == [2**53 + 1]
    assert closed.values["x"].dtype == np.int64
    assert closed.values["last"].tolist() == ["b"]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("column", [["a", None], [None, None], np.array([1, None], object), [[1, 2], [3, 4]], [[1], 2]])
def test_nulls_and_columns_of_columns_are_refused(make, column):
    for aggregate in (w.first_of("v"), w.last_of("v"), w.argmax("u", "v")):
        assert refused(make({"x": aggregate}).add, [0, 0], [1, 2], {"v": column, "u": [1, 2]}) == "MP628"


def test_values_of_several_types_stay_what_they_are():
    windows = ColumnWindows(w.tumbling("2 us"), {"x": w.last_of("v")})
    windows.add([0, 0], [1, 2], {"v": ["a", 7]})
    assert windows.close(1000).values["x"].tolist() == ["a", 7]


@pytest.mark.parametrize("by", [lambda record: -record["v"], None])
def test_what_is_chosen_by_a_function_has_no_form_over_columns(by):
    assert refused(ColumnWindows, w.tumbling("10 us"), {"x": w.argmax(by, "v")}) == "MP613"
    assert refused(ColumnWindows, w.tumbling("10 us"), {"x": w.argmin(by, "v")}) == "MP613"


VALUES = [
    [1e15, 1e15 + 1, 1e15, 1e15],
    [1e9 + number % 7 for number in range(50)],
    [math.nan],
    [1.0, math.nan, 2.0],
    [math.nan, 1.0, 1.0],
    [math.inf],
    [1.0, math.inf],
    [3.0],
    [0.1, 0.2, 0.4],
]


@pytest.mark.parametrize("sample", [False, True])
@pytest.mark.parametrize("values", VALUES)
def test_the_variance_of_records_is_that_of_columns(values, sample):
    each = w.variance_of("v", sample=sample)
    columns = ColumnWindows(w.tumbling("1 ms"), {"x": each})
    with np.errstate(invalid="ignore"):
        columns.add([0] * len(values), range(len(values)), {"v": np.array(values)})
        (wanted,) = columns.close(1000).values["x"].tolist()
    records = w.SharedWindows(each, {"t": w.tumbling("1 ms")})
    for time, value in enumerate(values):
        records.add({"v": value}, time)
    (found,) = records.advance(1000)
    got = math.nan if found.value is None else found.value
    assert got == wanted or (math.isnan(got) and math.isnan(wanted))


@pytest.mark.parametrize("cut", [(1, 3), (2, 2), (3, 1)])
def test_no_slice_makes_a_variance_less_exact(cut):
    values = VALUES[0]
    windows = w.SharedWindows(w.variance_of(), {"long": w.count_tumbling(4), "cut": w.count_sliding(*cut)})
    results = [one for value in [*values, 0.0] for one in windows.add(value)]
    assert [one.value for one in results if one.query == "long"] == [0.1875]
    assert statistics.pvariance(values) == 0.1875
    columns = ColumnWindows(w.sliding("4 us", us(cut[1])), {"x": w.variance_of("v")})
    columns.add([0] * 4, [0, 1, 2, 3], {"v": values})
    closed = columns.close(100)
    assert closed.values["x"][closed.begins == 0].tolist() == [0.1875]
