"""Joins over time of DataFrames equal Spark's own joins on generated rows, nulls among them."""

from __future__ import annotations

import datetime
import random
from collections import Counter

import pytest
from pyspark.sql import functions as F  # noqa: N812

import millpond
from millpond import windowing as w
from millpond.errors import MillpondError
from millpond.windowing.kinds.calendar import Calendar
from millpond.windowing.kinds.periodic import Periodic
from tests.lengths import us
from tests.property.joined import Spec, batch_join

UTC = datetime.UTC
ROWS = 700


def rows(seed, names):
    rng = random.Random(seed)

    def moment():
        return datetime.datetime.fromtimestamp(rng.randrange(-40_000, 60_000) / 1000, UTC)

    return [
        (
            rng.choice(names),
            rng.choice([0.0, -0.0, 1.5, float("nan"), None]),
            moment() if rng.random() > 0.05 else None,
            number,
        )
        for number in range(ROWS)
    ]


@pytest.fixture(scope="module")
def frames(spark):
    """Left and right rows of a few keys of two columns; each side has a key that the other lacks."""
    left = spark.createDataFrame(rows(1, ["ann", "bob", "cy", None]), "name string, size double, at timestamp, n long")
    right = spark.createDataFrame(
        rows(2, ["ann", "bob", "dee", None]), "name string, size double, at timestamp, n long"
    )
    right = right.withColumnRenamed("at", "then").withColumnRenamed("n", "m")
    return left.repartition(3).persist(), right.repartition(2).persist()


def counted(frame):
    """Rows as a multiset; NaN equals itself there, and zero has no sign."""
    return Counter(str(tuple(0.0 if value == 0.0 and isinstance(value, float) else value for value in row))
                   for row in frame.collect())  # fmt: skip


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
@pytest.mark.parametrize(("low", "high"), [(-3_000_000, 0), (-1_000_000, 2_500_000)])
def test_an_interval_join_equals_sparks_own(frames, how, low, high):
    left, right = frames
    mine = millpond.windows(left, key=["name", "size"], time="at", partitions=3).join(
        millpond.windows(right, key=["name", "size"], time="then"),
        within=(datetime.timedelta(microseconds=low), us(high)),
        how=how,
    )
    apart = F.unix_micros("then") - F.unix_micros("at")
    both = right.withColumnRenamed("name", "who").withColumnRenamed("size", "large")
    matching = (F.col("name") == F.col("who")) & (F.col("size") == F.col("large")) & apart.between(low, high)
    # Where there is no left row, the keys are those of the right one.
    keys = [F.when(F.col("n").isNull(), F.col(other)).otherwise(F.col(name)).alias(name)
            for name, other in (("name", "who"), ("size", "large"))]  # fmt: skip
    wanted = left.join(both, matching, how).select(*keys, "at", "n", "then", "m")
    found = counted(mine)
    assert mine.columns == wanted.columns
    assert found == counted(wanted)
    assert found.total() > 100


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
@pytest.mark.parametrize("slide", [4, 8])
def test_a_window_join_equals_sparks_own(frames, how, slide):
    left, right = frames
    mine = millpond.windows(left, key="name", time="at").join(
        millpond.windows(right.drop("size"), key="name", time="then"),
        w.sliding(datetime.timedelta(seconds=8), datetime.timedelta(seconds=slide)),
        how=how,
    )
    span = ("8 seconds", f"{slide} seconds")
    theirs = right.select(F.col("name").alias("who"), "then", "m", F.window("then", *span).alias("other"))
    ours = left.select("*", F.window("at", *span).alias("own"))
    window = F.coalesce("own", "other")
    wanted = ours.join(theirs, (F.col("name") == F.col("who")) & (F.col("own") == F.col("other")), how).select(
        F.when(F.col("n").isNull(), F.col("who")).otherwise(F.col("name")).alias("name"),
        *(window[bound] for bound in ("start", "end")),
        *("size", "at", "n", "then", "m"),
    )
    assert mine.columns == ["name", "window_begin", "window_end", "size", "at", "n", "then", "m"]
    assert counted(mine) == counted(wanted)


def test_a_frame_is_joined_with_itself_in_sessions(spark):
    at = [datetime.datetime(2024, 5, 1, 12, 0, second, tzinfo=UTC) for second in (0, 5, 30)]
    frame = spark.createDataFrame([(1, each, n) for n, each in enumerate(at)], "k int, at timestamp, n int")
    again = frame.select("k", F.col("at").alias("at2"), F.col("n").alias("n2"))
    joined = millpond.windows(frame, key="k", time="at").join(
        millpond.windows(again, key="k", time="at2"), w.session(datetime.timedelta(seconds=10))
    )
    found = sorted((row.n, row.n2) for row in joined.collect())
    assert found == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)]


def test_one_side_may_be_empty(frames):
    left, right = frames
    none = right.where("false")
    for how, size in (("inner", 0), ("left", ROWS), ("right", 0), ("full", ROWS)):
        joined = millpond.windows(left, key="name", time="at").join(
            millpond.windows(none.drop("size"), key="name", time="then"), within=("0 s", "1 us"), how=how
        )
        assert joined.count() == size
    joined = millpond.windows(none, key="name", time="then").join(
        millpond.windows(left.drop("size"), key="name", time="at"), within=("0 s", "1 us"), how="left"
    )
    assert joined.count() == 0
    for how in ("right", "full"):
        joined = millpond.windows(none, key="name", time="then").join(
            millpond.windows(left.drop("size"), key="name", time="at"), w.tumbling(us(10**9)), how=how
        )
        assert joined.where("name is null and n is not null").count() > 0
        assert joined.count() == left.where("at is not null").count()


def test_a_session_in_another_time_zone_joins_the_same_rows(spark, frames):
    left, right = frames
    one = left.selectExpr("name", "at", "n", "struct(at as inner, array(at) as more, map('x', at) as named) as deep")
    other = right.selectExpr("name", "then", "m")

    def found(how, **join):
        told = millpond.windows(one, key="name", time="at").join(
            millpond.windows(other, key="name", time="then"), how=how, **join
        )
        moments = [F.unix_micros(name) for name, kind in told.dtypes if kind == "timestamp"]
        inner = [F.expr(f"unix_micros({each})") for each in ("deep.inner", "deep.more[0]", "deep.named['x']")]
        return sorted(map(str, told.select("n", "m", *moments, *inner).collect()))

    asked = [("full", {"within": ("-10 s", "10 s")}), ("left", {"window": w.tumbling("10 s")})]
    want = [found(how, **join) for how, join in asked]
    usual = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York" if usual != "America/New_York" else "UTC")
    try:
        assert [found(how, **join) for how, join in asked] == want
    finally:
        spark.conf.set("spark.sql.session.timeZone", usual)
    assert all(len(rows) > 10 for rows in want)


def test_columns_may_have_any_names(spark):
    one = spark.range(3).selectExpr("id as time", "timestamp_micros(id) as k0", "id as `a.b`", "id as bucket")
    other = spark.range(3).selectExpr("id as time", "timestamp_micros(id) as v0", "id as `c d`", "id as `e``f`")
    joined = millpond.windows(one, key="time", time="k0").join(
        millpond.windows(other, key="time", time="v0"), within=("0 s", "0 s"), how="full"
    )
    assert joined.columns == ["time", "k0", "a.b", "bucket", "v0", "c d", "e`f"]
    assert sorted((row[0], row[2], row[3], row[5], row[6]) for row in joined.collect()) == [(n,) * 5 for n in range(3)]


@pytest.mark.parametrize(
    "kinds", [("int", "bigint"), ("bigint", "smallint"), ("float", "double"), ("int", "decimal(12,2)")]
)
def test_equal_numbers_of_two_types_are_one_key(spark, kinds):
    one, other = (
        spark.range(40).selectExpr(f"cast(id as {kind}) as k", f"timestamp_micros(id) as {at}", f"id as {at}_n")
        for kind, at in zip(kinds, ("at", "then"), strict=True)
    )
    for how, more in (("inner", 0), ("left", 5), ("right", 10), ("full", 15)):
        joined = millpond.windows(one.where("k >= 10"), key="k", time="at").join(
            millpond.windows(other.where("k < 35"), key="k", time="then"), within=("0 s", "0 s"), how=how
        )
        found = [(row["k"], row["at_n"], row["then_n"]) for row in joined.collect()]
        assert len(found) == 25 + more
        assert all(k == (right if left is None else left) for k, left, right in found)
        assert sum(left == right for _, left, right in found) == 25


def test_what_can_not_be_joined_is_refused(frames):
    left, right = frames
    mine, theirs = (millpond.windows(each, key="name", time=at) for each, at in ((left, "at"), (right, "then")))
    other = millpond.windows(right.drop("size"), key="name", time="then")
    for side, options, code in (
        (theirs, {"within": ("0 s", "1 s")}, "MP652"),  # `size` is on both sides
        (other, {}, "MP652"),
        (other, {"within": ("0 s", "1 s"), "window": w.tumbling("3 us")}, "MP652"),
        (other, {"within": 3}, "MP652"),
        (millpond.windows(right, key="m", time="then"), {"within": ("0 s", "1 s")}, "MP652"),
        (other, {"within": ("1 s", "0 s")}, "MP651"),
        (other, {"within": (0, 1)}, "MP526"),
        (other, {"within": ("0 s", "1 s"), "how": "outer"}, "MP652"),
        (right, {"within": ("0 s", "1 s")}, "MP640"),
        (
            millpond.windows(right.select(F.lit(1).alias("name"), "then"), key="name", time="then"),
            {"within": ("0 s", "1 s")},
            "MP652",
        ),
        (
            millpond.windows(right.select("name", F.col("then").cast("timestamp_ntz")), key="name", time="then"),
            {"within": ("0 s", "1 s")},
            "MP652",
        ),
    ):
        with pytest.raises(MillpondError, match=code):
            mine.join(side, **options)


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
@pytest.mark.parametrize(
    "spec",
    [
        Spec("full", (-400_000, 250_000)),
        Spec("full", None, w.session("300 ms")),
        Spec("left", None, w.sliding("7 s", "3 s", origin="1 s")),
        Spec("right", None, w.sliding("3 s", "7 s")),
        Spec("full", None, w.days("America/Sao_Paulo", span=2, every=1)),
    ],
    ids=lambda spec: f"{spec.how}-{spec.window.describe() if spec.window else spec.within}",
)
def test_a_join_equals_brute_force(spark, spec, kind):
    chance = random.Random(str(spec) + kind)
    wide = isinstance(spec.window, Periodic) and isinstance(spec.window.grid, Calendar)
    # Around a midnight that Sao Paulo had twice, or a few seconds before and after 1970.
    origin, spread = (1_518_919_200_000_000, 4 * 86_400_000_000) if wide else (0, 20_000_000)
    rows = [
        (chance.randrange(2), chance.randrange(3), origin + chance.randrange(-spread, spread), number)
        for number in range(150)
    ]
    sides = []
    for side, (at, n) in enumerate((("at", "n"), ("then", "m"))):
        own = [row[1:] for row in rows if row[0] == side]
        zero = "timestamp_ntz'1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, us / 1000000.0)"
        moment = "timestamp_micros(us)" if kind == "timestamp" else zero
        sides.append(spark.createDataFrame(own, f"k int, us long, {n} int").selectExpr("k", f"{moment} as {at}", n))
    within = None if spec.within is None else tuple(map(us, spec.within))
    joined = millpond.windows(sides[0], key="k", time="at", partitions=2).join(
        millpond.windows(sides[1], key="k", time="then"), spec.window, within=within, how=spec.how
    )
    zone = datetime.datetime(1970, 1, 1, tzinfo=UTC if kind == "timestamp" else None)
    columns = ["n", "m"]
    if spec.window is not None:
        zero = F.lit(zone) if kind == "timestamp" else F.expr("timestamp_ntz'1970-01-01 00:00:00'")
        columns = [(F.col(name) - zero).alias(name) for name in ("window_begin", "window_end")] + columns
    found = Counter()
    for *bounds, left, right in joined.select(*columns).collect():
        ends = [bound // datetime.timedelta(microseconds=1) for bound in bounds] or [None, None]
        found[*ends, left, right] += 1
    assert found == batch_join(spec, rows)
    assert found.total() > 50


def test_times_too_far_off_are_refused(spark):
    far = spark.range(1).selectExpr("id as k", "timestamp_micros(4611686018427387905) as at")
    near = spark.range(1).selectExpr("id as k", "timestamp_micros(id) as then")
    joined = millpond.windows(far, key="k", time="at").join(
        millpond.windows(near, key="k", time="then"), within=("0 s", "1 s"), how="left"
    )
    with pytest.raises(Exception, match="MP628"):
        joined.select("k").collect()
