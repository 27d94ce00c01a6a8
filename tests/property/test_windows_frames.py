"""What a task does with rows of windows equals brute force: any keys, batches and pieces; by columns and by records."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise
from unittest import mock

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond import windowing as w
from millpond.spark.frames import windowcolumns
from millpond.spark.frames.windowcolumns import column_results
from millpond.spark.frames.windowplan import WindowPlan, result_type
from millpond.spark.frames.windowrecords import record_results
from tests.lengths import us
from tests.property.windows_oracle import periodic
from tests.property.windows_oracle import session as brute_session
from tests.sizes import some_of

STAMP = pa.timestamp("us", tz="UTC")
KINDS = {"v": pa.int32(), "f": pa.float64(), "s": pa.string()}
FAR = 2**62

AGGREGATES = {
    "sum": w.sum_of("v"),
    "n": w.count(),
    "mean": w.mean_of("f"),
    "sample": w.variance_of("v", sample=True),
    "low": w.min_of("f"),
    "high": w.max_of("v"),
    "first": w.first_of("s"),
    "best": w.argmax("v", "s"),
}


def evaluate(rows):
    v, s = [row[3] for row in rows], [row[4] for row in rows]
    return {
        "sum": sum(v),
        "n": len(v),
        "mean": statistics.fmean(v) / 8,
        "sample": statistics.variance(map(float, v)) if len(v) > 1 else None,
        "low": min(v) / 8,
        "high": max(v),
        "first": s[0],
        "best": max(rows, key=lambda row: row[3])[4],
    }


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.sampled_from([0.0, 1.5, math.nan]),
        st.integers(-40, 80),
        st.integers(-20, 20),
    ),
    min_size=1,
    max_size=50,
)
"""A key of two columns, a time, a value."""


def plan_of(queries, aggregates=None, types=None):
    aggregates = aggregates or AGGREGATES
    return WindowPlan(
        keys=(("name", pa.string()), ("size", pa.float64())),
        time=STAMP,
        columns=tuple(KINDS.items()),
        queries=queries,
        single=len(queries) == 1,
        aggregates=aggregates,
        results=tuple(result_type(name, each, KINDS, (types or {}).get(name)) for name, each in aggregates.items()),
    )


def batches_of(rows, cuts):
    edges = [0, *sorted(cut % (len(rows) + 1) for cut in cuts), len(rows)]
    for low, high in pairwise(edges):
        columns = list(zip(*rows[low:high], strict=True)) or [()] * 5
        values = [number / 8 for number in columns[3]]
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(columns[0], pa.string()),
                pa.array(columns[1], pa.float64(), from_pandas=False),
                pa.array(columns[2], pa.int64()).cast(STAMP),
                pa.array(columns[3], pa.int32()),
                pa.array(values, pa.float64()),
                pa.array(columns[4], pa.string()),
            ],
            names=["k0", "k1", "t", "v0", "v1", "v2"],
        )


def key_of(row):
    return row[0] or "", -1.0 if math.isnan(row[1]) else row[1]


def told(batches, names):
    found = {}
    for batch in batches:
        for row in batch.cast(unstamped(batch.schema)).to_pylist():
            place = (*key_of((row["name"], row["size"])), row.get("window"), row["window_begin"], row["window_end"])
            assert place not in found
            found[place] = {name: row[name] for name in names}
    return found


def unstamped(schema):
    return pa.schema([pa.field(each.name, pa.int64() if each.type == STAMP else each.type) for each in schema])


def brute(rows, queries):
    wanted = {}
    for key in {key_of(row) for row in rows}:
        mine = sorted((row for row in rows if key_of(row) == key), key=lambda row: row[2])
        for name, find in queries.items():
            for bounds, inside in find([row[2] for row in mine]):
                wanted[(*key, name if len(queries) > 1 else None, *bounds)] = evaluate([mine[i] for i in inside])
    return wanted


def assert_alike(got, want):
    assert got.keys() == want.keys()
    for place, values in want.items():
        for name, value in values.items():
            mine = got[place][name]
            assert mine == value or math.isclose(mine, value, rel_tol=1e-9, abs_tol=1e-9), (place, name)


@settings(max_examples=some_of(80), deadline=None)
@given(
    ROWS,
    st.lists(st.integers(0, 60), max_size=5),
    st.integers(1, 25),
    st.integers(1, 25),
    st.integers(1, 20),
    st.booleans(),
    st.sampled_from([1, 4, 60]),
    st.integers(1, 60),
)
def test_windows_of_a_task_equal_brute_force(rows, cuts, range_, slide, gap, both, added, pieces):
    rows = [(*row, f"row{place}") for place, row in enumerate(rows)]
    queries = (
        {"slides": w.sliding(us(range_), us(slide)), "visits": w.session(us(gap))}
        if both
        else {"x": w.sliding(us(range_), us(slide))}
    )
    finds = {
        "slides": lambda times: periodic(times, range_, slide),
        "visits": lambda t: brute_session(gap).find(t, t, FAR),
    }
    want = brute(rows, {name: finds.get(name, finds["slides"]) for name in queries})
    plan = plan_of(queries)
    assert plan.columnar
    with mock.patch.multiple(windowcolumns, ROWS_ADDED_MIN=added, WINDOWS_CLOSED=pieces, BATCH_ROWS=7):
        assert_alike(told(column_results(plan, batches_of(rows, cuts)), AGGREGATES), want)
    ordered = sorted(rows, key=lambda row: (*key_of(row), row[2]))
    assert_alike(told(record_results(plan, batches_of(ordered, cuts)), AGGREGATES), want)


@settings(max_examples=some_of(40), deadline=None)
@given(ROWS, st.lists(st.integers(0, 60), max_size=5), st.integers(1, 6), st.integers(1, 6))
def test_windows_without_a_form_over_columns_go_record_by_record(rows, cuts, size, slide):
    rows = sorted([(*row, "") for row in rows], key=lambda row: (*key_of(row), row[2]))
    plan = plan_of(
        {"counted": w.count_sliding(size, slide), "timed": w.tumbling("10 us")},
        {"all": w.collect("v"), "n": w.count()},
        {"all": list[int]},
    )
    assert not plan.columnar
    got = [
        row
        for batch in record_results(plan, batches_of(rows, cuts))
        for row in batch.cast(unstamped(batch.schema)).to_pylist()
    ]
    wanted = []
    for key in dict.fromkeys(map(key_of, rows)):
        mine = [row for row in rows if key_of(row) == key]
        values = [row[3] for row in mine]
        wanted += [
            (*key, "counted", begin, begin + size, values[begin : begin + size])
            for begin in range(0, len(values), slide)
            if begin + size <= len(values)
        ]
        wanted += [
            (*key, "timed", *bounds, [values[i] for i in inside])
            for bounds, inside in periodic([row[2] for row in mine], 10, 10)
        ]
    found = [
        (
            *key_of((row["name"], row["size"])),
            row["window"],
            *(
                (row["window_from"], row["window_to"])
                if row["window"] == "counted"
                else (row["window_begin"], row["window_end"])
            ),
            row["all"],
        )
        for row in got
    ]
    assert sorted(found) == sorted(wanted)
    assert all(row["n"] == len(row["all"]) for row in got)
