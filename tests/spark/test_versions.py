"""The main paths, in short: `make versions` runs them on every minor version of Spark that the package takes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812

import millpond
from millpond import Counter, Durability, EventTime, Map, Partitioned, Program, entry, memory, parquet
from millpond import windowing as w
from millpond.front.frames import read_state
from tests.spark.feeding import stream_of, write_part

pytestmark = [pytest.mark.connect, pytest.mark.usefixtures("in_utc")]

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


class Orders(Program):
    counts = Partitioned(Counter[str])
    baskets = Partitioned(Map[str, set[str]])
    stock = Partitioned(Map[str, int])

    @entry
    def order(self, user: str, item: str) -> int:
        self.counts[user] += 1
        self.baskets[user] = self.baskets.get(user, set()) | {item}
        left = self.stock.get(item, 10) - 1
        self.stock[item] = left
        return left


def rows(first=0, count=12):
    numbers = range(first, first + count)
    return pa.table(
        {
            "user": [f"u{number % 3}" for number in numbers],
            "item": [f"i{number % 5}" for number in numbers],
            "at": pa.array([NOON + timedelta(seconds=number) for number in numbers], pa.timestamp("us", "UTC")),
            "price": [number / 4 for number in numbers],
            "tags": [[f"t{number}"] for number in numbers],
            "n": pa.array(list(numbers), pa.int32()),
        }
    )


def replies_of(table):
    plain = Orders()
    return [plain.order(user, item) for user, item in zip(*(table[name].to_pylist() for name in ("user", "item")))]  # noqa: B905


def test_a_batch_keeps_columns_that_are_no_parameters_and_its_state_can_be_read(spark, tmp_path):
    frame = spark.createDataFrame(rows())
    replies = memory()
    job = Orders.on(spark, checkpoint=tmp_path / "c", partitions=2)
    job.feed("order", frame, order_by="n", keep=["n", "at", "price", "tags"], to=replies)
    job.run()
    told = sorted(replies.rows(), key=lambda row: row["n"])
    assert [row["reply"] for row in told] == replies_of(rows())
    assert [row["tags"] for row in told] == rows()["tags"].to_pylist()
    assert [row["at"].replace(tzinfo=UTC) for row in told] == rows()["at"].to_pylist()
    state = {row.key: row.value for row in read_state(spark, tmp_path / "c", "counts").collect()}
    assert state == {"u0": 4, "u1": 4, "u2": 4}


def test_a_stream_goes_on_after_a_restart(spark, tmp_path):
    for epoch in range(2):
        write_part(tmp_path / "in", epoch, rows(epoch * 12))
        job = Orders.on(spark, checkpoint=tmp_path / "c", partitions=2, durability=Durability(work=tmp_path / "work"))
        job.feed("order", stream_of(spark, tmp_path / "in"), keep=["n"], to=parquet(str(tmp_path / "out")))
        job.start(trigger="available now").awaitTermination()
    told = {row.n: row.reply for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    assert [told[n] for n in sorted(told)] == replies_of(pa.concat_tables([rows(), rows(12)]))


def test_windows_of_a_batch(spark):
    found = (
        millpond.windows(spark.createDataFrame(rows()), key="user", time="at")
        .aggregate(w.tumbling(timedelta(seconds=6)), total=w.sum_of("price"), high=w.max_of("item"), many=w.count())
        .collect()
    )
    assert sorted((row.user, row.total, row.many) for row in found) == [
        *[("u0", 0.75, 2), ("u0", 3.75, 2), ("u1", 1.25, 2), ("u1", 4.25, 2), ("u2", 1.75, 2), ("u2", 4.75, 2)],
    ]


def test_windows_and_joins_of_streams(spark, tmp_path):
    write_part(tmp_path / "left", 0, rows())
    other = rows().rename_columns(["user", "thing", "when", "cost", "labels", "m"])
    write_part(tmp_path / "right", 0, other)

    def side(folder, time):
        frame = stream_of(spark, tmp_path / folder)
        return millpond.windows(frame, key="user", time=EventTime(time, disorder=timedelta(seconds=1)))

    told = memory()
    side("left", "at").job(
        w.tumbling(timedelta(seconds=6)), total=w.sum_of("price"), to=told, checkpoint=tmp_path / "windows"
    ).run(close=True)
    assert sorted(row["total"] for row in told.rows()) == [0.75, 1.25, 1.75, 3.75, 4.25, 4.75]
    pairs = memory()
    left = millpond.windows(
        stream_of(spark, tmp_path / "left").select("user", "at", "n", F.col("price").cast("float").alias("price")),
        key="user",
        time=EventTime("at", disorder=timedelta(seconds=1)),
    )
    right = millpond.windows(
        stream_of(spark, tmp_path / "right").select("user", "when", "m"),
        key="user",
        time=EventTime("when", disorder=timedelta(seconds=1)),
    )
    left.join_job(right, within=(timedelta(0), timedelta(seconds=3)), to=pairs, checkpoint=tmp_path / "join").run(
        close=True
    )
    expected = [(n, m) for n in range(12) for m in (n, n + 3) if m < 12]
    assert sorted((row["n"], row["m"]) for row in pairs.rows()) == expected
