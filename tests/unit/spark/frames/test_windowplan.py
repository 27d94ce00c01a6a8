"""What a task refuses of the rows that it is given, which types results have, and the numbers of keys."""

from __future__ import annotations

import datetime
import operator
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from millpond import windowing as w
from millpond.engine.gathered.keycodes import KeyCodes
from millpond.errors import WindowError
from millpond.spark.frames import windowcolumns, windowrecords
from millpond.spark.frames.windowcolumns import column_results
from millpond.spark.frames.windowplan import WindowPlan, result_type
from millpond.spark.frames.windowrecords import record_results
from millpond.windowing.kinds.periodic import Periodic

STAMP = pa.timestamp("us")
KINDS = {"n": pa.int16(), "f": pa.float32(), "d": pa.decimal128(9, 2), "s": pa.string(), "b": pa.bool_()}


def longest(texts) -> int:
    return len(texts)


OWN = w.aggregate(lift=str, combine=max, lower=longest, identity="")
UNTOLD = w.aggregate(lift=str, combine=max, lower=lambda text: text, identity="")


def plan_of(window, kinds, **aggregates):
    return WindowPlan(
        keys=(("key", pa.int64()),),
        time=STAMP,
        columns=tuple(kinds.items()),
        queries={"window": window},
        single=True,
        aggregates=aggregates,
        results=tuple(result_type(name, each, kinds, None) for name, each in aggregates.items()),
    )


def batch_of(kinds, times, *columns):
    keys = pa.array([1] * len(times), pa.int64())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds.values(), strict=True)]
    names = ["k0", "t", *(f"v{place}" for place in range(len(arrays)))]
    return pa.RecordBatch.from_arrays([keys, pa.array(times, pa.int64()).cast(STAMP), *arrays], names=names)


@pytest.mark.parametrize(
    ("aggregate", "kind"),
    [
        (w.count(), pa.int64()),
        (w.sum_of("n"), pa.int64()),
        (w.sum_of("b"), pa.int64()),
        (w.sum_of("f"), pa.float64()),
        (w.sum_of("d"), pa.decimal128(38, 2)),
        (w.mean_of("n"), pa.float64()),
        (w.variance_of("f"), pa.float64()),
        (w.min_of("n"), pa.int16()),
        (w.max_of("s"), pa.string()),
        (w.last_of("b"), pa.bool_()),
        (w.argmax("n", "s"), pa.string()),
        (w.first_of(), pa.struct(list(KINDS.items()))),
        (OWN, pa.int64()),
    ],
)
def test_types_of_results_follow_from_columns_and_annotations(aggregate, kind):
    assert result_type("x", aggregate, KINDS, None).kind == kind


def test_a_told_type_has_the_last_word():
    assert result_type("x", UNTOLD, KINDS, list[int]).kind == pa.list_(pa.int64())


@pytest.mark.parametrize("aggregate", [UNTOLD, w.collect("s"), w.sum_of(lambda row: row["n"])])
def test_a_type_that_nobody_tells_is_asked_for(aggregate):
    with pytest.raises(WindowError, match="MP643"):
        result_type("x", aggregate, KINDS, None)


@pytest.mark.parametrize("aggregate", [w.sum_of("s"), w.mean_of("d"), w.mean_of("s")])
def test_sums_and_means_want_numbers(aggregate):
    with pytest.raises(WindowError, match="MP642"):
        result_type("x", aggregate, KINDS, None)


def test_columns_are_known_where_they_are_named():
    assert w.argmin("n", "s").named == {"n", "s"}
    assert w.count().named == set()
    assert w.sum_of(lambda row: 1).named is None
    assert w.argmin("n").named is None


@pytest.mark.parametrize("results", [column_results, record_results])
@pytest.mark.parametrize(("code", "times", "values"), [("MP644", [1, None], [1, 2]), ("MP645", [1, 2], [None, 2])])
def test_rows_without_a_time_or_a_value_are_refused(results, code, times, values):
    plan = plan_of(w.tumbling("5 us"), {"n": pa.int64()}, total=w.sum_of("n"))
    with pytest.raises(WindowError, match=code):
        list(results(plan, [batch_of({"n": pa.int64()}, times, values)]))


def test_a_sum_that_does_not_fit_is_an_error_either_way():
    kinds = {"n": pa.int64()}
    plan = plan_of(w.tumbling("5 us"), kinds, total=w.sum_of("n"))
    batch = batch_of(kinds, [1, 2], [2**62, 2**62])
    with pytest.raises(WindowError, match="MP614"):
        list(column_results(plan, [batch]))
    with pytest.raises(WindowError, match="MP646"):
        list(record_results(plan, [batch]))


@pytest.mark.parametrize("window", [w.sliding("20 us", "10 us"), w.session("10 us")])
def test_all_windows_end_also_if_the_last_rows_to_come_are_old(window, monkeypatch):
    monkeypatch.setattr(windowcolumns, "ROWS_ADDED_MIN", 1)
    plan = plan_of(window, {}, n=w.count())
    batches = [batch_of({}, [95, 99]), batch_of({}, [5, 6, 7, 8]), batch_of({}, [3])]
    told = [row for batch in column_results(plan, batches) for row in batch.to_pylist()]
    assert sum(row["n"] for row in told) == (14 if isinstance(window, Periodic) else 7)


def test_decimals_are_added_exactly():
    kinds = {"d": pa.decimal128(9, 2)}
    plan = plan_of(w.tumbling("5 us"), kinds, total=w.sum_of("d"), low=w.min_of("d"))
    assert not plan.columnar
    (batch,) = record_results(plan, [batch_of(kinds, [1, 2], [Decimal("0.10"), Decimal("0.20")])])
    assert batch.column("total").to_pylist() == [Decimal("0.30")]
    assert batch.column("low").to_pylist() == [Decimal("0.10")]


def test_no_two_columns_of_a_result_have_one_name():
    with pytest.raises(WindowError, match="MP641"):
        plan_of(w.tumbling("5 us"), {}, window_end=w.count())


def test_codes_of_keys_stay_as_more_keys_come():
    rng = np.random.default_rng(3)
    codes, seen = KeyCodes(2), {}
    for _ in range(6):
        left, right = rng.integers(0, 4, 40).tolist(), rng.integers(0, 5, 40).tolist()
        right = [None if each == 0 else each for each in right]
        got = codes.encode([pa.chunked_array([pa.array(left)]), pa.chunked_array([pa.array(right, pa.int64())])])
        want = [seen.setdefault(pair, len(seen)) for pair in zip(left, right, strict=True)]
        assert got.tolist() == want
    assert len(codes) == len(seen)
    pairs = zip(*(column.to_pylist() for column in codes.decode(np.arange(len(seen)))), strict=True)
    assert list(pairs) == list(seen)


MOMENT = datetime.datetime(2026, 3, 1, 12, 30, 0, 250, tzinfo=datetime.UTC)


@pytest.mark.parametrize("results", [column_results, record_results])
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.timestamp("us", tz="UTC"), [MOMENT, MOMENT + datetime.timedelta(microseconds=1)]),
        (pa.timestamp("us"), [MOMENT.replace(tzinfo=None), MOMENT.replace(tzinfo=None, year=1950)]),
        (pa.date32(), [datetime.date(1969, 1, 2), datetime.date(2026, 3, 4)]),
        (pa.decimal128(9, 2), [Decimal("1.25"), Decimal("-3.50")]),
        (pa.bool_(), [True, False]),
        (pa.int8(), [-128, 127]),
        (pa.float32(), [0.5, -0.25]),
        (pa.binary(), [b"\x00", b"\xff"]),
        (pa.duration("us"), [datetime.timedelta(seconds=3), datetime.timedelta(days=-1)]),
        (pa.list_(pa.int32()), [[1, 2], []]),
        (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
        (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [("b", 2), ("c", 3)]]),
    ],
)
def test_first_and_last_give_values_of_any_type_as_they_were(results, kind, values):
    plan = plan_of(w.tumbling("5 us"), {"v": kind}, first=w.first_of("v"), last=w.last_of("v"))
    assert plan.columnar
    (batch,) = results(plan, [batch_of({"v": kind}, [1, 2], values)])
    assert batch.schema.field("first").type == kind
    assert [batch.column(name).to_pylist() for name in ("first", "last")] == [values[:1], values[1:]]


@pytest.mark.parametrize(
    ("kind", "values", "low"),
    [
        (pa.string(), ["b", "a"], "a"),
        (pa.date32(), [datetime.date(2026, 3, 4), datetime.date(1969, 1, 2)], datetime.date(1969, 1, 2)),
        (pa.timestamp("us", tz="UTC"), [MOMENT, MOMENT - datetime.timedelta(1)], MOMENT - datetime.timedelta(1)),
    ],
)
def test_the_smallest_of_what_is_no_number_is_found_record_by_record(kind, values, low):
    plan = plan_of(w.tumbling("5 us"), {"v": kind}, low=w.min_of("v"))
    assert not plan.columnar
    (batch,) = record_results(plan, [batch_of({"v": kind}, [1, 2], values)])
    assert batch.column("low").to_pylist() == [low]


@pytest.mark.parametrize("name", ["t", "k0", "v1", "window_begin", "key", "a.b", "a b"])
def test_columns_may_have_any_names(name):
    kinds = {name: pa.int64(), "x": pa.int64()}
    batch = batch_of(kinds, [1, 2], [5, 6], [70, 80])
    for way, window in ((column_results, w.tumbling("10 us")), (record_results, w.count_tumbling(2))):
        plan = plan_of(window, kinds, total=w.sum_of(name), top=w.max_of("x"))
        (found,) = [row for told in way(plan, [batch]) for row in told.to_pylist()]
        assert (found["total"], found["top"]) == (11, 80)


def test_windows_that_overlap_much_leave_in_pieces(monkeypatch):
    monkeypatch.setattr(windowrecords, "BATCH_ROWS", 100)
    kinds = {"n": pa.int64()}
    plan = plan_of(
        w.sliding("50 us", "1 us"), kinds, all=w.aggregate(lift=size, combine=max, lower=longest, identity="")
    )
    times = list(range(0, 3000, 30))
    batches = [
        batch_of(kinds, times[low : low + 30], range(low, low + len(times[low : low + 30])))
        for low in range(0, 100, 30)
    ]
    told = [batch.num_rows for batch in record_results(plan, batches)]
    assert max(told) == 100
    assert sum(told) == 3000 - 30 + 50


def size(record):
    return "x" * record["n"]


def hours(record):
    return [record["at"].isoformat()]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
def test_records_have_moments_in_utc_whatever_the_zone_of_the_session(zone):
    kinds = {"at": pa.timestamp("us", "UTC")}
    own = w.aggregate(lift=hours, combine=operator.add, lower=first_text, identity=[])
    plan = plan_of(w.count_tumbling(1), kinds, text=own)
    batch = batch_of({"at": pa.timestamp("us", zone)}, [1], [0])
    assert [row["text"] for told in record_results(plan, [batch]) for row in told.to_pylist()] == [
        "1970-01-01T00:00:00+00:00"
    ]
    with pytest.raises(WindowError, match="MP609"):
        list(record_results(plan, [batch_of({"at": pa.timestamp("us", zone)}, [1], [2**58])]))


def first_text(texts) -> str:
    return texts[0]


def inverse(record) -> float:
    return 1 / record["n"]


def number(record) -> float:
    return float(record["n"])


def whole(total) -> float:
    return float(total)


def inverse_of_all(total) -> float:
    return 1 / total


@pytest.mark.parametrize(("lift", "lower"), [(inverse, whole), (number, inverse_of_all)], ids=["at once", "at the end"])
def test_a_function_that_raises_is_told_with_its_key(lift, lower):
    kinds = {"n": pa.int64()}
    own = w.aggregate(lift=lift, combine=operator.add, lower=lower, identity=0.0)
    plan = plan_of(w.session("10 us"), kinds, own=own)
    with pytest.raises(WindowError, match=r"MP638.*ZeroDivisionError") as told:
        list(record_results(plan, [batch_of(kinds, [1], [0])]))
    assert "at the key" in str(told.value)
    assert isinstance(told.value.__cause__, ZeroDivisionError)
