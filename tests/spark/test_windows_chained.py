"""Windows that feed windows on Spark: a bounded run and streams of several files against a brute force."""

from __future__ import annotations

from ast import literal_eval
from datetime import timedelta

import pyarrow as pa
import pytest

from millpond import EventTime, Tuning, memory
from millpond.program.semantics.epoch_time import moment_of
from tests.regression.test_windows_that_feed_windows import Trades, by_force, rows_of
from tests.spark.feeding import stream_of, write_part

pytestmark = pytest.mark.usefixtures("in_utc")


def table_of(rows):
    times, symbols, numbers = zip(*rows, strict=True)
    return pa.table({"symbol": symbols, "n": numbers, "ts": pa.array([moment_of(us) for us in times])})


def parts_of(files):
    rows = rows_of()
    size = -(-len(rows) // files)
    return [table_of(rows[number * size : (number + 1) * size]) for number in range(files)]


def told(sink):
    return [one for row in sink.rows() for one in literal_eval(row["reply"])]


@pytest.mark.parametrize("files", [1, 3])
def test_a_stream_of_any_number_of_files_tells_what_a_brute_force_says(spark, tmp_path, files):
    for number, table in enumerate(parts_of(files)):
        write_part(tmp_path / "in", number, table)
    sink = memory()
    job = Trades.on(spark, checkpoint=tmp_path / "ck", partitions=2, local_root=tmp_path / "local")
    job.feed("trade", stream_of(spark, tmp_path / "in"), time=EventTime("ts", disorder=timedelta(minutes=1)))
    job.on_window("five", to=sink)
    job.run(close=True)
    assert sorted(told(sink)) == sorted(by_force())


def test_a_bounded_run_tells_what_a_brute_force_says(spark, tmp_path):
    (table,) = parts_of(1)
    write_part(tmp_path / "in", 0, table)
    sink = memory()
    job = Trades.on(
        spark, checkpoint=tmp_path / "ck", partitions=3, local_root=tmp_path / "local", tuning=Tuning(small_epoch=0)
    )
    job.feed("trade", spark.read.parquet(str(tmp_path / "in")), time=EventTime("ts", disorder=timedelta(minutes=1)))
    job.on_window("five", to=sink)
    job.run()
    assert sorted(told(sink)) == sorted(by_force())
