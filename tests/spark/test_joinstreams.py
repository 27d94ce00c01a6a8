"""`join_job` over two streaming DataFrames gives what `join` gives of the same rows as batches."""

from __future__ import annotations

import random
import re
import runpy
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812

import millpond
from millpond import EventTime, memory, parquet
from millpond import windowing as w
from millpond.errors import EpochError, MillpondError, RowError
from tests.spark.feeding import stream_of, write_part

pytestmark = pytest.mark.usefixtures("in_utc")

PAGE = Path(__file__).parents[2] / "docs" / "WINDOWS.md"
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
DISORDER = timedelta(seconds=10)
PARTS = 4
KEYS = ["name", "size"]
WITHIN = (timedelta(seconds=-2), timedelta(seconds=5))


def made_up(seed, time, number, rows=30):
    """Parts of a stream, out of order by less than is allowed; nulls where they may be."""
    chance = random.Random(seed)
    parts = []
    for part in range(PARTS):
        ats = [NOON + timedelta(seconds=part * 12 + chance.randrange(-9, 12) / 2 + 4) for _ in range(rows)]
        parts.append(
            pa.table(
                {
                    "name": [chance.choice(("ann", "bob")) for _ in ats],
                    time: pa.array(ats, pa.timestamp("us", tz="UTC")),
                    "size": pa.array([chance.randrange(2) for _ in ats], pa.int32()),
                    number: pa.array([part * rows + place for place in range(rows)], pa.int32()),
                    f"{number}_day": [None if chance.random() < 0.3 else at.date() for at in ats],
                    f"{number}_cost": pa.array(
                        [Decimal(chance.randrange(9**9)).scaleb(-2) for _ in ats], pa.decimal128(12, 2)
                    ),
                    f"{number}_word": [chance.choice(("mill", "pond", None)) for _ in ats],
                    f"{number}_x": pa.array([chance.randrange(64) / 4 for _ in ats], pa.float32()),
                }
            )
        )
    return parts


def written(folder, parts):
    for number, part in parts:
        write_part(folder, number, part)
    return folder


def counted(frame):
    return Counter(str(row) for row in frame.collect())


def table(name, *rows):
    key, seconds, n = zip(*rows, strict=True)
    ats = [None if second is None else NOON + timedelta(seconds=second) for second in seconds]
    at = pa.array(ats, pa.timestamp("us", tz="UTC"))
    return pa.table({"key": pa.array(key, pa.string()), f"{name}_at": at, name: n})


def sides(spark, folder, left, right, **options):
    """Two streams of one part each, as `windows` takes them."""
    frames = []
    for name, part in (("l", left), ("r", right)):
        stream = stream_of(spark, written(folder / name, [(0, part)]))
        frames.append(millpond.windows(stream, key="key", time=EventTime(f"{name}_at"), **options))
    return frames


@pytest.mark.parametrize(("how", "join"), [("full", {"within": WITHIN}), ("left", {"window": w.sliding("6 s", "4 s")})])
def test_streams_with_a_restart_give_what_batches_give(spark, tmp_path, how, join):
    left, right = made_up(1, "at", "n"), made_up(2, "then", "m")
    for first in (0, 2):
        streams = [
            stream_of(spark, written(tmp_path / name, list(enumerate(parts))[first : first + 2]))
            for name, parts in (("left", left), ("right", right))
        ]
        mine = millpond.windows(streams[0], key=KEYS, time=EventTime("at", disorder=DISORDER), partitions=2)
        theirs = millpond.windows(streams[1], key=KEYS, time=EventTime("then", disorder=DISORDER))
        mine.join_job(
            theirs,
            **join,
            how=how,
            to=parquet(tmp_path / "out"),
            checkpoint=tmp_path / "ck",
            local_root=tmp_path / "local",
        ).run(close=first == 2)
    batches = [spark.read.parquet(str(tmp_path / name)) for name in ("left", "right")]
    wanted = millpond.windows(batches[0], key=KEYS, time="at").join(
        millpond.windows(batches[1], key=KEYS, time="then"), **join, how=how
    )
    told = spark.read.parquet(str(tmp_path / "out"))
    assert [(field.name, field.dataType) for field in told.schema] == [
        (field.name, field.dataType) for field in wanted.schema
    ]
    found = counted(told)
    assert found == counted(wanted)
    assert found.total() > 200
    assert min(number for path in (tmp_path / "out").glob("*.parquet") for number in [int(path.name[:10])]) < 5


def test_nulls_match_nothing_where_rows_alone_are_not_told(spark, tmp_path):
    left = table("l", ("a", 1, 1), (None, 2, 2), ("a", None, 3), ("b", 4, 4))
    right = table("r", ("a", 2, 10), (None, 2, 20), ("c", 3, 30))
    for number, (how, join) in enumerate((("inner", {"within": WITHIN}), ("inner", {"window": w.tumbling("10 s")}))):
        sink = memory()
        mine, theirs = sides(spark, tmp_path / f"in{number}", left, right)
        mine.join_job(theirs, **join, how=how, to=sink, checkpoint=tmp_path / f"ck{number}").run(close=True)
        assert [(row["key"], row["l"], row["r"]) for row in sink.rows()] == [("a", 1, 10)]
    # A row without a time is in no window, so it is not told as a row alone either.
    sink = memory()
    mine, theirs = sides(spark, tmp_path / "alone", left.filter(left["key"].is_valid()), right)
    mine.join_job(theirs, w.tumbling("10 s"), how="left", to=sink, checkpoint=tmp_path / "ck").run(close=True)
    assert sorted((row["key"], row["l"], row["r"]) for row in sink.rows()) == [("a", 1, 10), ("b", 4, None)]
    # A null key, or no time within distances, is told by a batch as a row alone: a stream refuses it.
    for number, part in enumerate((left.filter(left["l_at"].is_valid()), left.filter(left["key"].is_valid()))):
        mine, theirs = sides(spark, tmp_path / f"null{number}", part, right)
        job = mine.join_job(theirs, within=WITHIN, how="left", to=memory(), checkpoint=tmp_path / f"null-ck{number}")
        with pytest.raises(RowError, match="MP602"):
            job.run()


def test_what_streams_cant_have_is_refused_before_they_start(spark, tmp_path):
    mine, theirs = sides(spark, tmp_path / "in", table("l", ("a", 1, 1)), table("r", ("a", 1, 1)))
    left, right = (stream_of(spark, tmp_path / "in" / name) for name in ("l", "r"))
    batch = millpond.windows(spark.read.parquet(str(tmp_path / "in" / "r")), key="key", time="r_at")
    rows = {"to": memory(), "checkpoint": tmp_path / "ck", "within": ("0 s", "1 s")}

    def other(frame, key="key"):
        return millpond.windows(frame, key=key, time=EventTime("r_at"))

    for code, call in (
        ("join_job", lambda: mine.join(theirs, within=("0 s", "1 us"))),
        ("MP640", lambda: mine.join_job(batch, **rows)),
        ("MP640", lambda: batch.join_job(theirs, **rows)),
        ("MP526", lambda: mine.join_job(theirs, **rows, on={"progress": False})),
        ("MP526", lambda: mine.join_job(theirs, **rows, tunning=None)),
        ("MP526", lambda: mine.join_job(theirs, **{**rows, "within": (0, 1)})),
        ("MP651", lambda: mine.join_job(theirs, **{**rows, "within": ("1 s", "0 s")})),
        ("MP651", lambda: mine.join_job(theirs, w.count_tumbling(3), **{**rows, "within": None})),
        ("MP652", lambda: mine.join_job(theirs, w.tumbling("3 us"), **rows)),
        ("MP652", lambda: mine.join_job(theirs, how="outer", **rows)),
        ("MP652", lambda: mine.join_job(other(right.withColumn("l", F.lit(1))), **rows)),
        ("MP652", lambda: mine.join_job(other(right.withColumn("key", F.lit(1))), **rows)),
        ("MP652", lambda: mine.join_job(other(right, F.col("r").alias("k")), **rows)),
        ("MP642", lambda: mine.join_job(other(right.withColumn("r", F.array("r"))), **rows)),
        ("MP642", lambda: mine.join_job(other(right.withColumn("r_at", F.col("r_at").cast("timestamp_ntz"))), **rows)),
    ):
        with pytest.raises(MillpondError, match=code):
            call()
    assert not (tmp_path / "ck").exists()
    mine.join_job(theirs, **rows).run()
    with pytest.raises(EpochError, match="MP441"):
        millpond.windows(left, key="key", time=EventTime("l_at")).join_job(theirs, **{**rows, "within": ("0 s", "2 s")})


def test_the_example_of_the_page_runs(spark, tmp_path):
    section = PAGE.read_text(encoding="utf-8").partition("\n## Joins")[2]
    (block,) = re.findall(r"```python\n((?:(?!```).)*?join_job.*?)query = job.start", section, re.DOTALL)
    module = tmp_path / "page.py"
    module.write_text(block.replace('"attributed', f'"{tmp_path}/attributed'), encoding="utf-8")
    minutes = 60
    tables = {
        "shown": ("at", table("ad", ("ann", 0, 1), ("bob", 5 * minutes, 2), ("ann", 50 * minutes, 3))),
        "clicks": ("clicked_at", table("click", ("ann", 30 * minutes, 7), ("bob", 36 * minutes, 8))),
    }
    streams = {}
    for name, (time, rows) in tables.items():
        folder = written(tmp_path / name, [(0, rows.rename_columns(["user", time, rows.column_names[2]]))])
        streams[name] = stream_of(spark, folder)
    job = runpy.run_path(str(module), streams)["job"]
    job.run(close=True)
    told = spark.read.parquet(str(tmp_path / "attributed"))
    assert told.columns == ["user", "at", "ad", "clicked_at", "click"]
    assert sorted((row.user, row.ad, row.click) for row in told.collect()) == [
        ("ann", 1, 7),
        ("ann", 3, None),
        ("bob", 2, None),
    ]
