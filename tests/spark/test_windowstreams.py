"""`millpond.windows` over streaming DataFrames gives what it gives of the same rows as a batch."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

import millpond
from millpond import EventTime, memory, parquet
from millpond import windowing as w
from millpond.errors import MillpondError
from tests.spark.feeding import stream_of, write_part

pytestmark = pytest.mark.usefixtures("in_utc")

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
DISORDER = timedelta(seconds=10)
PARTS = 4
WINDOWS = {
    "slid": w.sliding(timedelta(seconds=7), timedelta(seconds=3)),
    "visit": w.session(timedelta(seconds=2)),
    "day": w.days("Europe/Berlin"),
}
AGGREGATES = {
    "total": w.sum_of("n"),
    "many": w.count(),
    "mean": w.mean_of("x"),
    "high": w.max_of("word"),
    "spread": w.variance_of("x", sample=True),
}
KEYS = ["name", "size"]
PAIR = tuple[float, float]


def made_up(seed, rows=60):
    """Parts of a stream, out of order by less than is allowed."""
    chance = random.Random(seed)
    parts = []
    for part in range(PARTS):
        ats = [NOON + timedelta(seconds=part * 12 + chance.randrange(-9, 12) / 2 + 4) for _ in range(rows)]
        parts.append(
            pa.table(
                {
                    "name": [chance.choice(("ann", "bob")) for _ in ats],
                    "size": pa.array([chance.randrange(2) for _ in ats], pa.int32()),
                    "at": pa.array(ats, pa.timestamp("us", tz="UTC")),
                    "n": pa.array([chance.randrange(-9, 9) for _ in ats], pa.int32()),
                    "x": [float(chance.randrange(64)) for _ in ats],
                    "word": [chance.choice(("mill", "pond", "weir")) for _ in ats],
                }
            )
        )
    return parts


def fed(spark, folder, parts):
    for number, part in parts:
        write_part(folder, number, part)
    return stream_of(spark, folder)


def lines(rows):
    """Rows as text, sorted; of floats not the last bits, which depend on the order of sums."""
    return sorted(str(sorted((name, plain(one)) for name, one in row.items())) for row in rows)


def plain(one):
    if isinstance(one, datetime):
        return one.replace(tzinfo=None)
    return round(one, 9) if isinstance(one, float) else one


def batch_lines(frame):
    return lines([row.asDict() for row in frame.collect()])


def test_a_stream_with_a_restart_gives_what_a_batch_gives(spark, tmp_path):
    parts = made_up(1)
    for first in (0, 2):
        stream = fed(spark, tmp_path / "in", enumerate(parts[first : first + 2], first))
        job = millpond.windows(stream, key=KEYS, time=EventTime("at", disorder=DISORDER), partitions=2).job(
            WINDOWS,
            to=parquet(tmp_path / "out"),
            checkpoint=tmp_path / "ck",
            local_root=tmp_path / "local",
            **AGGREGATES,
        )
        job.run(close=first == 2)
    batch = spark.read.parquet(str(tmp_path / "in"))
    wanted = millpond.windows(batch, key=KEYS, time="at").aggregate(WINDOWS, **AGGREGATES)
    told = spark.read.parquet(str(tmp_path / "out"))
    assert [(field.name, field.dataType) for field in told.schema] == [
        (field.name, field.dataType) for field in wanted.schema
    ]
    found = batch_lines(told)
    assert found == batch_lines(wanted)
    assert len(found) > 60


def test_one_key_and_one_window_over_records_in_order(spark, tmp_path):
    # Rows of one time are taken as they came, and in a batch in the order of their columns: here are none.
    parts = [part.set_column(2, "at", apart(part["at"], number)) for number, part in enumerate(made_up(2, rows=30))]
    sink = memory()
    windows = {"rows": w.count_sliding(4, 3), "long": w.tumbling(timedelta(seconds=30))}
    own = {
        "vwap": w.aggregate(lift=lift, combine=combine, lower=lower, identity=(0.0, 0.0), partial_type=PAIR),
        "last": w.last_of("n"),
    }
    stream = fed(spark, tmp_path / "in", enumerate(parts))
    job = millpond.windows(stream, key="name", time=EventTime("at", disorder=DISORDER)).job(
        windows, to=sink, checkpoint=tmp_path / "ck", types={"vwap": float}, **own
    )
    job.run(close=True)
    batch = spark.read.parquet(str(tmp_path / "in"))
    wanted = millpond.windows(batch, key="name", time="at").aggregate(windows, types={"vwap": float}, **own)
    assert lines(sink.rows()) == batch_lines(wanted)
    assert {row["window"] for row in sink.rows()} == {"rows", "long"}
    assert all((row["window_from"] is None) == (row["window"] == "long") for row in sink.rows())


def apart(ats, number):
    moved = [at.as_py() + timedelta(microseconds=100 * number + place) for place, at in enumerate(ats)]
    return pa.array(moved, pa.timestamp("us", tz="UTC"))


def lift(row):
    return (row["x"] * row["n"], float(row["n"]))


def combine(left, right):
    return (left[0] + right[0], left[1] + right[1])


def lower(partial):
    return partial[0] / partial[1] if partial[1] else 0.0


def table(*rows):
    key, seconds, n = zip(*rows, strict=True)
    ats = [NOON + timedelta(seconds=second) for second in seconds]
    return pa.table({"key": key, "at": pa.array(ats, pa.timestamp("us", tz="UTC")), "n": n})


def told(sink):
    return [(row["key"], (row["window_begin"] - NOON).seconds, row["total"], row.get("change")) for row in sink]


def test_late_rows_correct_windows_or_go_to_their_sink(spark, tmp_path):
    parts = [table(("a", 1, 1), ("a", 12, 2)), table(("a", 3, 4), ("b", 25, 8)), table(("a", 4, 16), ("a", 45, 32))]
    fed(spark, tmp_path / "in", enumerate(parts))
    sinks = {}
    for name, options in {"corrected": {"lateness": timedelta(seconds=10)}, "late": {"late": memory()}}.items():
        sinks[name] = memory()
        windows = millpond.windows(stream_of(spark, tmp_path / "in"), key="key", time=EventTime("at", **options))
        windows.job(
            w.tumbling(timedelta(seconds=10)), to=sinks[name], checkpoint=tmp_path / name, total=w.sum_of("n")
        ).run(close=True)
    assert told(sinks["corrected"].rows()) == [
        ("a", 0, 1, "tell"),
        ("a", 0, 5, "correct"),
        ("a", 10, 2, "tell"),
        ("a", 10, 18, "correct"),
        ("b", 20, 8, "tell"),
        ("a", 40, 32, "tell"),
    ]
    late = options["late"].rows()
    assert [(row["window_key"], row["window_row"]["_1"], row["late_by"]) for row in late] == [
        ("a", 4, 9.0),
        ("a", 16, 21.0),
    ]
    assert sum(row["total"] for row in sinks["late"].rows()) == 1 + 2 + 8 + 32


def test_the_last_word_on_each_window_is_what_the_batch_gives(spark, tmp_path):
    """Sessions grow and join after they were told, in every part and across a restart."""
    parts = made_up(3, rows=25)
    parts = [parts[1], parts[3], parts[0], parts[2]]
    windows = {"visit": w.session(timedelta(seconds=4)), "five": w.tumbling(timedelta(seconds=5))}
    for first in (0, 2):
        stream = fed(spark, tmp_path / "in", enumerate(parts[first : first + 2], first))
        millpond.windows(stream, key=KEYS, time=EventTime("at", lateness=timedelta(minutes=5))).job(
            windows, to=parquet(tmp_path / "out"), checkpoint=tmp_path / "ck", total=w.sum_of("n"), many=w.count()
        ).run(close=first == 2)
    told = spark.read.parquet(str(tmp_path / "out"))
    windowed = Window.partitionBy(*KEYS, "window", "window_begin", "window_end")
    last = told.withColumn("place", F.row_number().over(windowed.orderBy(F.desc("_metadata.file_name"))))
    table = last.where("place = 1 and change != 'retract'").drop("place", "change")
    batch = spark.read.parquet(str(tmp_path / "in"))
    wanted = millpond.windows(batch, key=KEYS, time="at").aggregate(windows, total=w.sum_of("n"), many=w.count())
    assert batch_lines(table) == batch_lines(wanted)
    changes = {(row["window"], row["change"]) for row in told.select("window", "change").distinct().collect()}
    assert changes == {*((name, one) for name in windows for one in ("tell", "correct")), ("visit", "retract")}


def test_a_count_needs_no_column(spark, tmp_path):
    sink = memory()
    stream = fed(spark, tmp_path / "in", [(0, table(("a", 1, 1), ("a", 12, 2), ("b", 3, 1)))])
    millpond.windows(stream, key=F.upper("key").alias("who"), time=EventTime("at")).job(
        w.tumbling(timedelta(seconds=10)), to=sink, checkpoint=tmp_path / "ck", many=w.count()
    ).run(close=True)
    assert sorted((row["who"], row["window_begin"].second, row["many"]) for row in sink.rows()) == [
        ("A", 0, 1),
        ("A", 10, 1),
        ("B", 0, 1),
    ]


def test_what_a_stream_cant_have_is_refused_before_it_starts(spark, tmp_path):
    stream = fed(spark, tmp_path / "in", [(0, table(("a", 1, 1)))])
    batch = spark.read.parquet(str(tmp_path / "in"))
    rows = {"to": memory(), "checkpoint": tmp_path / "ck"}
    ten = w.tumbling(timedelta(seconds=10))

    def job(frame, window=ten, key="key", time="at", **aggregates):
        return millpond.windows(frame, key=key, time=EventTime(time)).job(
            window, **rows, **(aggregates or {"many": w.count()})
        )

    def corrected(frame):
        return millpond.windows(frame, key="key", time=EventTime("at", lateness=DISORDER)).job(
            ten, **rows, change=w.count()
        )

    ntz = stream.withColumn("at", F.col("at").cast("timestamp_ntz"))
    decimal = stream.withColumn("n", F.col("n").cast(T.DecimalType(10, 2)))
    for code, call in (
        ("MP640", lambda: millpond.windows(stream, key="key", time=EventTime("at")).aggregate(ten, many=w.count())),
        ("MP640", lambda: millpond.windows(stream, key="key", time=EventTime("at")).side),
        ("MP640", lambda: millpond.windows(batch, key="key", time=EventTime("at", disorder=DISORDER))),
        ("MP640", lambda: millpond.windows(stream, key="key", time="at")),
        ("MP640", lambda: millpond.windows(batch, key="key", time="at", order_by="n")),
        ("MP640", lambda: millpond.windows(batch, key="key", time="at").job(ten, **rows, many=w.count())),
        ("MP640", lambda: job(stream, "ten")),
        ("MP526", lambda: job(stream, many=w.count(), on={"progress": False})),
        ("MP526", lambda: job(stream, w.session(3))),
        ("MP641", lambda: corrected(stream)),
        ("MP642", lambda: job(ntz)),
        ("MP642", lambda: job(decimal, total=w.sum_of("n"))),
        ("MP642", lambda: job(stream, key=F.col("n").cast("double"))),
        ("MP643", lambda: job(stream, best=w.top_k(2, "n"))),
        ("MP648", lambda: job(stream, total=w.sum_of("m"))),
    ):  # fmt: skip
        with pytest.raises(MillpondError, match=code):
            call()
    assert not (tmp_path / "ck").exists()


def test_a_null_is_an_error_and_is_left_to_the_user(spark, tmp_path):
    for number, column in enumerate(("key", "n")):
        folder = tmp_path / f"in{number}"
        nulls = table(("a", 1, 1)).set_column(
            ["key", "at", "n"].index(column), column, pa.nulls(1, pa.string() if column == "key" else pa.int64())
        )
        stream = fed(spark, folder, [(0, nulls)])
        job = millpond.windows(stream, key="key", time=EventTime("at")).job(
            w.tumbling(timedelta(seconds=10)), to=memory(), checkpoint=tmp_path / f"ck{number}", total=w.sum_of("n")
        )
        with pytest.raises(MillpondError):
            job.run()
