"""Dead letters on Spark: whole rows with their place and their reason, which a replay feeds again, once."""

from __future__ import annotations

import datetime
import decimal
import random
from datetime import UTC, timedelta

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812

from millpond import EventTime, Tuning, memory, parquet
from millpond.engine import compute
from millpond.errors import FeedError
from tests.programs.keyed import committed_state, oracle
from tests.programs.raising import Chain
from tests.spark.feeding import stream_of, write_part
from tests.spark.mending import Broken, Late, Mended, Mild

START = datetime.datetime(2024, 3, 1, 12, 30, 0, 250, UTC)
AMOUNTS = [1.5, -1.0, 250.0, float("inf"), 3.0, -7.25, 0.0, 500.0]


def values(at):
    """The arguments of a row."""
    return (
        "abc"[at % 3],
        AMOUNTS[at % len(AMOUNTS)],
        bytes([at, 255, 0]),
        START.date() + timedelta(days=at),
        START + timedelta(microseconds=at),
        (decimal.Decimal(at) / 4).quantize(decimal.Decimal("1e-18")),
        ["x", "ü"][: at % 3],
        {at: 0.5, -1: float(at)},
    )


NAMES = ("name", "amount", "data", "day", "at", "price", "tags", "weights")
TYPES = (
    pa.string(),
    pa.float64(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us", tz="UTC"),
    pa.decimal128(38, 18),
    pa.list_(pa.string()),
    pa.map_(pa.int64(), pa.float64()),
)


def part(first, last):
    """Rows as a table, with a column that is no parameter."""
    rows = [values(at) for at in range(first, last)]
    columns = [
        [list(one.items()) if isinstance(one, dict) else one for one in column] for column in zip(*rows, strict=True)
    ]
    table = pa.table([pa.array(column, kind) for column, kind in zip(columns, TYPES, strict=True)], names=NAMES)
    return table.append_column("id", pa.array(range(first, last), pa.int64()))


def feed(program, spark, folder, frame, dead, **options):
    job = program.on(spark, checkpoint=folder / "ck", partitions=2, local_root=folder / "local")
    return job.feed("note", frame, to=parquet(folder / "out"), keep=["id"], on_bad_row=dead, **options)


def ids(spark, folder):
    return sorted(row.id for row in spark.read.parquet(str(folder)).collect())


def test_a_stream_goes_on_after_its_dead_letters_were_replayed_once(spark, tmp_path):
    dead = parquet(tmp_path / "dead")
    write_part(tmp_path / "in", 0, part(0, 6))
    write_part(tmp_path / "in", 1, part(6, 8))
    report = feed(Broken, spark, tmp_path, stream_of(spark, tmp_path / "in"), dead).run()
    bad = [at for at in range(8) if AMOUNTS[at] < 0 or AMOUNTS[at] > 100]
    assert sum(one.bad_rows for one in report.epochs) == len(bad)
    assert ids(spark, tmp_path / "out") == [at for at in range(8) if at not in bad]
    letters = spark.read.parquet(str(tmp_path / "dead")).orderBy("position").collect()
    assert {letter.exception for letter in letters} == {"ValueError", "KeyError"}
    assert all(letter.source.endswith(".parquet") and letter.epoch in (1, 2) for letter in letters)
    assert all("mending.py:" in letter.lines[-1] and "in note: raise" in letter.lines[-1] for letter in letters)

    mended = feed(Mended, spark, tmp_path, stream_of(spark, tmp_path / "in"), dead)
    assert mended.replay(dead, "mended").rows == len(bad)
    assert mended.replay(dead, "mended").rows == 0, "a name that is committed does nothing"
    write_part(tmp_path / "in", 2, part(8, 12))
    assert feed(Mended, spark, tmp_path, stream_of(spark, tmp_path / "in"), dead).run().rows == 4
    assert ids(spark, tmp_path / "out") == list(range(12))
    order = [at for at in range(8) if at not in bad] + bad + list(range(8, 12))
    assert committed_state(tmp_path / "ck") == oracle(Mended, [("note", values(at)) for at in order]).state


def test_letters_in_memory_keep_what_orders_them_and_what_is_kept(spark, tmp_path):
    dead = memory()
    frame = spark.createDataFrame(part(0, 8)).repartition(3)
    feed(Broken, spark, tmp_path, frame, dead, order_by="id").run()
    letters = dead.rows()
    assert sorted(letter["order_by"] for letter in letters) == [1, 2, 3, 5, 7]
    assert all(f'"id": {letter["order_by"]}}}' in letter["row"] for letter in letters)
    mended = feed(Mended, spark, tmp_path, frame, dead, order_by="id")
    assert mended.replay(dead).rows == 5
    assert ids(spark, tmp_path / "out") == list(range(8))
    order = [0, 4, 6, 1, 2, 3, 5, 7]
    assert committed_state(tmp_path / "ck") == oracle(Mended, [("note", values(at)) for at in order]).state


def test_some_letters_may_be_replayed_and_what_is_still_bad_is_a_letter_again(spark, tmp_path):
    dead = parquet(tmp_path / "dead")
    frame = spark.createDataFrame(part(0, 8))
    job = feed(Broken, spark, tmp_path, frame, dead, order_by="id")
    job.run()
    letters = spark.read.parquet(str(tmp_path / "dead"))
    report = job.replay(letters.where("exception = 'KeyError'"), "once more")
    assert (report.rows, report.epochs[0].bad_rows) == (0, 3)
    assert spark.read.parquet(str(tmp_path / "dead")).count() == 5 + 3


def test_letters_keep_their_event_time(spark, tmp_path):
    dead = memory()
    rows = [(1, 1, START), (1, -1, START + timedelta(seconds=5)), (2, 2, START + timedelta(seconds=9))]
    frame = spark.createDataFrame(rows, "key long, n long, ts timestamp")

    def job(program):
        made = program.on(spark, checkpoint=tmp_path / "ck", partitions=2, local_root=tmp_path / "local")
        made.feed("see", frame, order_by="ts", time=EventTime("ts", lateness=timedelta(hours=1)), on_bad_row=dead)
        return made

    job(Late).run(close=False)
    assert [letter["event_time"] for letter in dead.rows()] == [rows[1][2]]
    assert job(Mild).replay(dead).rows == 1
    held = committed_state(tmp_path / "ck").values()
    assert any(rows[1][2].isoformat().encode() in value for value in held)


def test_what_is_no_dead_letter_is_refused(spark, tmp_path):
    dead = memory()
    frame = spark.createDataFrame(part(0, 4))
    job = feed(Broken, spark, tmp_path, frame, dead, order_by="id")
    job.run()
    other = spark.createDataFrame(pa.Table.from_pylist(dead.rows())).withColumn("feed", F.lit("elsewhere"))
    for letters, found in ((frame, "no feed"), (other, "letters of elsewhere"), ("dead", "'dead'")):
        with pytest.raises(FeedError) as caught:
            job.replay(letters)
        assert caught.value.code == "MP528"
        assert found in str(caught.value)


def test_a_replay_waits_for_the_end_of_the_query(spark, tmp_path):
    dead = memory()
    write_part(tmp_path / "in", 0, part(0, 4))
    job = feed(Broken, spark, tmp_path, stream_of(spark, tmp_path / "in"), dead)
    query = job.start()
    try:
        query.processAllAvailable()
        with pytest.raises(FeedError) as caught:
            job.replay(dead)
        assert caught.value.code == "MP529"
    finally:
        query.stop()
        query.awaitTermination()
    assert job.replay(dead).epochs[0].bad_rows == len(dead.rows()) // 2


def test_on_spark_too_rows_that_raise_in_one_place_cost_one_run_and_after_a_move_two(spark, tmp_path, monkeypatch):
    counted = []
    assembled = compute.assemble
    monkeypatch.setattr(compute, "assemble", lambda *given, **named: (counted.append(1), assembled(*given, **named))[1])
    frame = spark.createDataFrame(part(0, 200))
    once = frame.where("amount <= 100")
    feed(Broken, spark, tmp_path / "once", once, "skip", order_by="id").run()
    assert len(counted) == 1
    feed(Broken, spark, tmp_path / "twice", frame, "skip", order_by="id").run()
    assert len(counted) == 3


def test_rows_that_raise_because_of_each_other_give_on_spark_what_plain_python_gives(spark, tmp_path):
    dice = random.Random(1)
    rows = [(dice.randrange(4), dice.randrange(4)) for _ in range(120)]
    expected, plain, good = {}, Chain(), []
    for at, row in enumerate(rows):
        try:
            expected[at] = plain.go(*row)
            good.append(row)
        except ValueError:
            plain = Chain()
            for before in good:
                plain.go(*before)
    assert len(expected) < len(rows) - 20
    frame = spark.createDataFrame([(at, *row) for at, row in enumerate(rows)], "at long, key long, other long")
    for small in (0, 1000):
        replies, folder = memory(), tmp_path / str(small)
        job = Chain.on(
            spark, checkpoint=folder / "ck", partitions=2, local_root=folder / "local", tuning=Tuning(small_epoch=small)
        )
        report = job.feed("go", frame.repartition(3), order_by="at", to=replies, keep=["at"], on_bad_row="skip").run()
        assert {row["at"]: row["reply"] for row in replies.rows()} == expected
        assert report.epochs[0].bad_rows == len(rows) - len(expected)
