"""Aggregates: associative down to their partials, plain in state, and right at their edges."""

from __future__ import annotations

import hashlib
import math
import random
import statistics
import subprocess
import sys
from functools import reduce

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond import windowing as w
from millpond.errors import WindowError
from millpond.state.codec.valuecodec import ValueCodec
from millpond.windowing.columns.columnsessions import ColumnSessions
from millpond.windowing.columns.vectorised import ColumnWindows
from tests.sizes import some_of

EXACT = {
    "sum": w.sum_of(),
    "count": w.count(),
    "mean": w.mean_of(),
    "min": w.min_of(),
    "max": w.max_of(),
    "first": w.first_of(),
    "last": w.last_of(),
    "argmin": w.argmin(abs),
    "argmax": w.argmax(abs),
    "top": w.top_k(3, abs),
    "collect": w.collect(),
    "several": w.several({"a": w.sum_of()}, b=w.last_of(), c=w.top_k(2)),
}


@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=some_of(30), deadline=None)
@given(st.lists(st.integers(-9, 9)), st.lists(st.integers(-9, 9)), st.lists(st.integers(-9, 9)))
def test_partials_are_associative_and_have_an_identity(name, one, two, three):
    each = EXACT[name]
    a, b, c = (reduce(each.combine, map(each.lift, values), each.identity) for values in (one, two, three))
    assert each.combine(each.combine(a, b), c) == each.combine(a, each.combine(b, c))
    assert each.combine(each.identity, a) == a == each.combine(a, each.identity)
    if each.commutative:
        assert each.lower(each.combine(a, b)) == each.lower(each.combine(b, a))
    if each.inverse is not None:
        assert each.inverse(each.combine(a, b), a) == b
    codec = ValueCodec(each.partial_type)
    assert codec.decode(codec.encode(a)) == a


@pytest.mark.parametrize("name", ["min", "max", "argmin", "argmax"])
@given(st.lists(st.sampled_from([1.0, math.nan, -2.0]), min_size=1, max_size=5))
def test_nan_spreads_whatever_the_order_of_combining(name, values):
    each = {"min": w.min_of(), "max": w.max_of(), "argmin": w.argmin(None), "argmax": w.argmax(None)}[name]
    lifted = [each.lift(value) for value in values]
    left = each.lower(reduce(each.combine, lifted))
    right = each.lower(reduce(lambda later, earlier: each.combine(earlier, later), lifted[::-1]))
    assert math.isnan(left) == math.isnan(right) == any(map(math.isnan, values))


@given(st.lists(st.floats(-1e6, 1e6), min_size=2))
def test_variance_does_not_cancel_far_from_zero(values):
    each = w.variance_of(sample=True)
    shifted = [value + 1e9 for value in values]
    half = len(values) // 2
    parts = [reduce(each.combine, map(each.lift, part), each.identity) for part in (shifted[:half], shifted[half:])]
    want = statistics.variance(shifted)
    assert math.isclose(each.lower(each.combine(*parts)), want, rel_tol=1e-6, abs_tol=1e-3)


def test_nothing_has_a_result_too():
    results = {name: each.lower(each.identity) for name, each in EXACT.items()}
    assert results["mean"] is results["min"] is results["first"] is results["argmax"] is None
    assert (results["sum"], results["count"], results["top"], results["collect"]) == (0, 0, [], [])
    assert w.variance_of(sample=True).lower((1, 2.0, 0.0, 0.0)) is None
    assert w.quantiles_of([0.5]).lower(w.quantiles_of([0.5]).identity) == [None]
    assert w.quantiles_of([0.5]).lower(w.quantiles_of([0.5]).lift(float("nan"))) == [None]
    assert w.distinct_count().lower(w.distinct_count().identity) == 0


def test_records_are_read_by_name():
    each = w.several(total=w.sum_of("a"), best=w.argmax("b", "a"))
    assert each.lower(reduce(each.combine, map(each.lift, [{"a": 1, "b": 5}, {"a": 2, "b": 3}]))) == {
        "total": 3,
        "best": 1,
    }


def sketched(size=3000):
    values = [random.Random(7).random() * number for number in range(size)]
    quantiles, distinct = w.quantiles_of([0.1, 0.5, 0.99]), w.distinct_count()
    parts = []
    for each, told in ((quantiles, values), (distinct, [int(value) for value in values])):
        slices = [told[i : i + 700] for i in range(0, size, 700)]
        partials = [reduce(each.combine, map(each.lift, some), each.identity) for some in slices]
        parts.append(reduce(each.combine, partials))
    return values, quantiles, distinct, parts


def test_sketches_are_near_the_truth_and_fit_in_state():
    values, quantiles, distinct, (digest, registers) = sketched()
    for rank, estimate in zip([0.1, 0.5, 0.99], quantiles.lower(digest), strict=True):
        assert abs(sum(value < estimate for value in values) / len(values) - rank) < 0.02
    true = len({int(value) for value in values})
    assert abs(distinct.lower(registers) - true) < 0.06 * true
    for each, partial in ((quantiles, digest), (distinct, registers)):
        codec = ValueCodec(each.partial_type)
        assert codec.decode(codec.encode(partial)) == partial


READING = {
    "sum": w.sum_of,
    "mean": w.mean_of,
    "variance": w.variance_of,
    "min": w.min_of,
    "max": w.max_of,
    "first": w.first_of,
    "last": w.last_of,
    "collect": w.collect,
    "top_k by": lambda of: w.top_k(2, by=of, of=lambda _: 1),
    "top_k of": lambda of: w.top_k(2, by=lambda _: 1, of=of),
    "argmin by": lambda of: w.argmin(of, lambda _: 1),
    "argmax of": lambda of: w.argmax(lambda _: 1, of),
    "quantiles": lambda of: w.quantiles_of([0.5], of),
    "distinct": w.distinct_count,
}


@pytest.mark.parametrize("name", READING)
@pytest.mark.parametrize(
    ("of", "record"), [("v", {"v": None}), (lambda record: record["v"], {"v": None}), (None, None)]
)
def test_none_is_an_error_in_records_as_in_columns(name, of, record):
    with pytest.raises(WindowError, match="MP608"):
        READING[name](of).lift(record)
    READING[name]("v").lift({"v": 1})
    READING[name](lambda record: record["v"] or 0).lift({"v": None})


@pytest.mark.parametrize(
    "aggregate",
    [w.sum_of("v"), w.mean_of("v"), w.variance_of("v"), w.min_of("v"), w.max_of("v"), w.first_of("v"), w.last_of("v"),
     w.argmin("v", "u"), w.argmax("u", "v")],
    ids=lambda each: each.name,
)  # fmt: skip
def test_nulls_are_an_error_in_columns_of_every_kind(aggregate):
    columns = {"v": pa.array([1, None]), "u": pa.array([1, 2])}
    for windows in (
        ColumnWindows(w.tumbling("9 us"), {"x": aggregate}),
        ColumnSessions(w.session("9 us"), {"x": aggregate}),
    ):
        with pytest.raises(WindowError, match="MP628"):
            windows.add([0, 0], [1, 2], columns)


def test_count_alone_does_not_look_at_records():
    assert w.count().lift(None) == 1


def test_distinct_values_are_counted_by_value():
    each = w.distinct_count()
    values = [1, 1.0, True, "1", b"x", b"x", 2.5, 2**70, 2**70]
    assert round(each.lower(reduce(each.combine, map(each.lift, values)))) == 5


@pytest.mark.slow
def test_sketches_are_the_same_bytes_in_every_process():
    script = (
        "import hashlib; from tests.unit.windowing.aggregates.test_aggregates import sketched\n"
        "print(hashlib.sha256(b''.join(part[0] for part in sketched()[3])).hexdigest())"
    )
    told = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout for _ in "ab"
    ]
    mine = hashlib.sha256(b"".join(part[0] for part in sketched()[3])).hexdigest()
    assert [text.strip() for text in told] == [mine, mine]
