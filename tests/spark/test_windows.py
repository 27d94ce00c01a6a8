"""`millpond.windows` over DataFrames equals Spark's own windows where it has them, else brute force."""

from __future__ import annotations

import datetime
import math
import random

import pytest
from pyspark.errors import PythonException
from pyspark.sql import functions as F  # noqa: N812

import millpond
from millpond import EventTime
from millpond import windowing as w
from millpond.errors import WindowError
from tests.lengths import us

ROWS = 3000
SECOND = 1_000_000
UTC = datetime.UTC

AGGREGATES = {
    "total": w.sum_of("n"),
    "many": w.count(),
    "mean": w.mean_of("x"),
    "spread": w.variance_of("x", sample=True),
    "low": w.min_of("n"),
    "high": w.max_of("x"),
}
SPARKS_OWN = {
    "total": "sum(n)",
    "many": "count(*)",
    "mean": "avg(x)",
    "spread": "var_samp(x)",
    "low": "min(n)",
    "high": "max(x)",
}
SCHEMA = "id long, name string, size int, at timestamp, n int, x double"


@pytest.fixture(scope="module")
def events(spark):
    """Rows of few keys, null among them, some seconds apart, before 1970 too."""
    rng = random.Random(7)
    rows = [
        (
            number,
            rng.choice(["ann", "bob", None]),
            rng.randrange(3),
            datetime.datetime.fromtimestamp(rng.randrange(-400_000, 1_600_000) / 1000, UTC),
            rng.randrange(-50, 50),
            rng.choice([rng.uniform(-9, 9), float(rng.randrange(9))]),
        )
        for number in range(ROWS)
    ]
    return spark.createDataFrame(rows, SCHEMA).repartition(3).persist()


def sparks_own():
    return [F.expr(each).alias(name) for name, each in SPARKS_OWN.items()]


def by_place(frame):
    found = {}
    for row in frame.collect():
        place = (row["name"], row["size"], row["window_begin"], row["window_end"])
        assert place not in found
        found[place] = {name: row[name] for name in AGGREGATES}
    return found


def assert_alike(mine, other):
    got, want = by_place(mine), by_place(other)
    assert got.keys() == want.keys()
    for place, values in want.items():
        for name, value in values.items():
            alike = got[place][name] == value or (
                isinstance(value, float) and math.isclose(got[place][name], value, rel_tol=1e-9, abs_tol=1e-9)
            )
            assert alike, (place, name, got[place][name], value)


@pytest.mark.parametrize(
    ("range_s", "slide_s", "origin_s"),
    [(10, 10, 0), (100, 7, 0), (60, 20, 5), (5, 1, 0), (600, 30, 0)],
)
def test_tumbling_and_sliding_windows_are_sparks(events, range_s, slide_s, origin_s):
    window = w.sliding(us(range_s * SECOND), us(slide_s * SECOND), origin=us(origin_s * SECOND))
    mine = millpond.windows(events, key=["name", "size"], time="at").aggregate(window, **AGGREGATES)
    spans = F.window("at", f"{range_s} seconds", f"{slide_s} seconds", f"{origin_s} seconds")
    grouped = events.groupBy("name", "size", spans.alias("span")).agg(*sparks_own())
    own = grouped.withColumns({"window_begin": F.col("span.start"), "window_end": F.col("span.end")})
    assert_alike(mine, own)


def test_sessions_are_sparks(events):
    mine = millpond.windows(events, key=["name", "size"], time="at").aggregate(w.session(us(9 * SECOND)), **AGGREGATES)
    grouped = events.groupBy("name", "size", F.session_window("at", "9 seconds").alias("span")).agg(*sparks_own())
    own = grouped.withColumns({"window_begin": F.col("span.start"), "window_end": F.col("span.end")})
    assert mine.count() > 300
    assert_alike(mine, own)


def test_any_number_of_shuffle_partitions_gives_the_same(spark, events):
    window = w.sliding(us(60 * SECOND), us(20 * SECOND))
    want = millpond.windows(events, key="size", time="at").aggregate(window, total=w.sum_of("n")).collect()
    spark.conf.set("spark.sql.shuffle.partitions", "40")
    try:
        for adaptive in ("true", "false"):
            spark.conf.set("spark.sql.adaptive.enabled", adaptive)
            got = millpond.windows(events, key="size", time="at").aggregate(window, total=w.sum_of("n")).collect()
            assert sorted(got) == sorted(want)
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", "true")
        spark.conf.set("spark.sql.shuffle.partitions", "2")
    five = millpond.windows(events, key="size", time="at", partitions=5).aggregate(window, total=w.sum_of("n"))
    assert sorted(five.collect()) == sorted(want)


def test_windows_of_several_kinds_share_a_pass(events):
    """Days are columns, windows of records are not: then all go record by record, with the same results."""
    by_size = millpond.windows(events, key="size", time="at")
    queries = {"minute": w.tumbling(us(60 * SECOND)), "ten": w.count_tumbling(10), "day": w.days("Europe/Berlin")}
    rows = by_size.aggregate(queries, total=w.sum_of("n"), many=w.count(), last=w.last_of("id")).collect()
    alone = by_size.aggregate(queries["minute"], total=w.sum_of("n"), many=w.count(), last=w.last_of("id")).collect()
    minutes = [row for row in rows if row["window"] == "minute"]
    assert sorted((r["size"], r["window_begin"], r["total"], r["many"], r["last"]) for r in minutes) == sorted(
        (r["size"], r["window_begin"], r["total"], r["many"], r["last"]) for r in alone
    )
    assert sum(row["many"] for row in rows if row["window"] == "day") == ROWS
    tens = [row for row in rows if row["window"] == "ten"]
    ordered = sorted(events.collect(), key=lambda row: (row["at"], row["n"], row["id"]))
    for size in range(3):
        mine = [row["n"] for row in ordered if row["size"] == size]
        told = sorted((row["window_from"], row["total"]) for row in tens if row["size"] == size)
        whole = range(0, len(mine) - 9, 10)
        assert told == [(begin, sum(mine[begin : begin + 10])) for begin in whole]
        assert {row["window_begin"] for row in tens} == {None}


def test_functions_of_records_and_own_aggregates(events):
    """A function sees whole records; its type is told, or annotated."""

    def best(partial) -> int:
        return partial[1]

    own = w.aggregate(lift=lambda row: (row["x"], row["id"]), combine=max, lower=best, identity=(-math.inf, -1))
    rows = (
        millpond.windows(events, key="name", time="at")
        .aggregate(
            w.tumbling(us(200 * SECOND)),
            types={"twice": int},
            twice=w.sum_of(lambda row: 2 * row["n"]),
            own=own,
            top=w.argmax("x", "id"),
        )
        .collect()
    )
    all_rows = events.collect()
    for row in rows:
        inside = [
            e for e in all_rows if e["name"] == row["name"] and row["window_begin"] <= e["at"] < row["window_end"]
        ]
        assert row["twice"] == 2 * sum(e["n"] for e in inside)
        assert row["own"] == max((e["x"], e["id"]) for e in inside)[1]


def test_times_and_keys_may_be_expressions_and_other_types(spark):
    rows = [(1, "2026-01-01 00:00:01", 0.0), (3, "2026-01-01 00:00:02", -0.0), (5, "2026-01-01 00:00:11", math.nan)]
    frame = spark.createDataFrame(rows, "n int, text string, size double")
    windows = millpond.windows(frame, key=[F.col("size"), "n % 2 as odd"], time="to_timestamp_ntz(text)")
    got = windows.aggregate(w.tumbling(us(10 * SECOND)), total=w.sum_of("n"), last=w.last_of("text"))
    assert got.dtypes == [
        *(("size", "double"), ("odd", "int"), ("window_begin", "timestamp_ntz"), ("window_end", "timestamp_ntz")),
        *(("total", "bigint"), ("last", "string")),
    ]
    found = sorted((str(row["size"]), row["odd"], row["window_begin"].second, row["total"]) for row in got.collect())
    assert found == [("0.0", 1, 0, 4), ("nan", 1, 10, 5)]


def test_a_frame_without_rows_gives_none(spark, events):
    got = millpond.windows(events.where("false"), key="name", time="at").aggregate(w.tumbling("5 us"), n=w.count())
    assert got.collect() == []


@pytest.mark.parametrize("window", [w.tumbling(us(50 * SECOND)), w.count_tumbling(3)])
def test_moments_are_the_same_whatever_the_settings_of_the_session(spark, events, window):
    """In keys, bounds and values; texts too, in whichever form Spark sends them."""
    hours = events.withColumns({"hour": F.date_trunc("minute", "at"), "name": F.coalesce("name", F.lit("none"))})

    def found():
        windows = millpond.windows(hours, key=["hour", "name"], time="at")
        told = windows.aggregate(window, n=w.count(), first=w.first_of("at"), who=w.last_of("name"))
        moments = [F.unix_micros(name) for name, kind in told.dtypes if kind == "timestamp"]
        return sorted(told.select(*moments, "n", "who").collect())

    want = found()
    assert len(want) > 50
    changed = {
        "spark.sql.session.timeZone": ("Asia/Kathmandu", "UTC"),
        "spark.sql.execution.arrow.useLargeVarTypes": ("true", "false"),
    }
    for name, (other, _) in changed.items():
        spark.conf.set(name, other)
    try:
        assert found() == want
    finally:
        for name, (_, usual) in changed.items():
            spark.conf.set(name, usual)


@pytest.mark.parametrize(
    ("code", "key", "time", "aggregates"),
    [
        ("MP648", "nme", "at", {"n": w.count()}),
        ("MP648", "name", "att", {"n": w.count()}),
        ("MP648", "name +", "at", {"n": w.count()}),
        ("MP648", "max(name)", "at", {"n": w.count()}),
        ("MP640", None, "at", {"n": w.count()}),
        ("MP640", 5, "at", {"n": w.count()}),
        ("MP640", [], "at", {"n": w.count()}),
        ("MP640", ["name", 5], "at", {"n": w.count()}),
        ("MP640", "name", 5, {"n": w.count()}),
        ("MP648", "name", "at", {"n": w.sum_of("nn")}),
        ("MP642", "name", "n", {"n": w.count()}),
        ("MP642", "array(n)", "at", {"n": w.count()}),
        ("MP642", "name", "at", {"n": w.sum_of("name")}),
        ("MP641", "name", "at", {"name": w.count()}),
        ("MP643", "name", "at", {"n": w.collect("name")}),
        ("MP640", "name", "at", {}),
        ("MP640", "name", "at", {"n": 5}),
        ("MP640", "name", "at", {"n": w.count(), "types": {"m": int}}),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_row_is_read(events, code, key, time, aggregates):
    with pytest.raises(WindowError, match=code):
        millpond.windows(events, key=key, time=time).aggregate(w.tumbling("5 us"), **aggregates)


@pytest.mark.parametrize("window", [5, {}, {"a": "b"}, {3: w.tumbling("5 us")}])
def test_what_is_no_window_is_refused(events, window):
    with pytest.raises(WindowError, match="MP640"):
        millpond.windows(events, key="name", time="at").aggregate(window, n=w.count())


def test_a_streaming_frame_is_refused(spark):
    windows = millpond.windows(spark.readStream.format("rate").load(), key="value", time=EventTime("timestamp"))
    with pytest.raises(WindowError, match="MP640"):
        windows.aggregate(w.tumbling("5 us"), n=w.count())


def test_rows_without_a_time_or_a_value_are_told(events):
    windows = millpond.windows(events.withColumn("at", F.when(F.col("id") > 3, F.col("at"))), key="size", time="at")
    with pytest.raises(PythonException, match="MP644"):
        windows.aggregate(w.tumbling("5 us"), n=w.count()).collect()
    windows = millpond.windows(events.withColumn("n", F.when(F.col("id") > 3, F.col("n"))), key="size", time="at")
    with pytest.raises(PythonException, match="MP645"):
        windows.aggregate(w.tumbling("5 us"), n=w.max_of("n")).collect()
