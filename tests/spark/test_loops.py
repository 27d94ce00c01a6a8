"""Loops over windows of DataFrames: a batch and a stream with restarts give what the oracle gives."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

import millpond
from millpond import EventTime, parquet
from millpond.errors import MillpondError
from millpond.loops import fixpoint, rounds
from tests.programs.looped import Carried, Spread, carried_of, made_up, shown, spread_of
from tests.spark.feeding import stream_of, write_part

pytestmark = pytest.mark.usefixtures("in_utc")

CASES = {"spread": (Spread, fixpoint(), spread_of), "carried": (Carried, fixpoint() | rounds(12), carried_of)}


def table(rows):
    at, key, target = zip(*rows, strict=True)
    return pa.table({"at": pa.array(at, pa.timestamp("us", tz="UTC")), "node": key, "target": target})


def results(frame):
    zoned = [tuple(millpond_utc(cell) for cell in row) for row in frame.collect()]
    return sorted(shown(row) for row in zoned)


def millpond_utc(cell):
    return cell if not hasattr(cell, "tzinfo") else cell.replace(tzinfo=made_up(0, 5)[0][0].tzinfo)


@pytest.mark.parametrize("case", CASES)
def test_a_batch(spark, tmp_path, case):
    loop, until, oracle = CASES[case]
    rows = made_up(3, 80, disorder=5)
    write_part(tmp_path / "in", 0, table(rows))
    frame = spark.read.parquet(str(tmp_path / "in"))
    found = millpond.windows(frame, key="node", time="at", partitions=3).tumbling("10 s").iterate(loop, until=until)
    names = ["least", "far"] if case == "spread" else ["value"]
    assert found.columns == ["window_begin", "window_end", "node", *names]
    assert results(found) == oracle(rows)


@pytest.mark.parametrize(("case", "budget"), [("spread", 2), ("carried", 3)])
def test_a_stream_goes_on_in_mid_iteration_with_other_partitions(spark, tmp_path, case, budget):
    loop, until, oracle = CASES[case]
    rows = made_up(5, 80)
    cut = len(rows) // 2
    for number, part in enumerate((rows[:cut], rows[cut:])):
        write_part(tmp_path / "in", number, table(part))
        stream = stream_of(spark, tmp_path / "in")
        windows = millpond.windows(
            stream, key="node", time=EventTime("at", disorder=timedelta()), partitions=2 + 2 * number
        )
        job = windows.tumbling("10 s").iterate_job(
            loop, until=until, to=parquet(tmp_path / "out"), checkpoint=tmp_path / "ck", rounds_per_epoch=budget,
            local_root=tmp_path / "local",
        )  # fmt: skip
        job.run(close=number == 1)
        if number == 0:
            held = millpond.read_state(spark, tmp_path / "ck", "lanes").collect()
            assert len(held) == 1
    assert results(spark.read.parquet(str(tmp_path / "out"))) == oracle(rows)


def test_what_does_not_fit_is_refused(spark, tmp_path):
    write_part(tmp_path / "in", 0, table(made_up(3, 10)))
    frame = spark.read.parquet(str(tmp_path / "in"))
    windows = millpond.windows(frame, key="node", time="at")
    with pytest.raises(MillpondError, match="MP640"):
        windows.tumbling("10 s").iterate_job(
            Spread, until=fixpoint(), to=parquet(tmp_path / "out"), checkpoint=tmp_path / "ck"
        )
    late = EventTime("at", lateness=timedelta(minutes=1))
    streamed = millpond.windows(stream_of(spark, tmp_path / "in"), key="node", time=late).tumbling("10 s")
    with pytest.raises(MillpondError, match="MP869"):
        streamed.iterate_job(
            Spread, until=fixpoint(), to=parquet(tmp_path / "out"), checkpoint=tmp_path / "ck", spread=True
        )
    with pytest.raises(MillpondError, match="MP865"):
        windows.over(millpond.windowing.session("10 s")).iterate(Spread, until=fixpoint())
    renamed = millpond.windows(frame.withColumnRenamed("node", "least"), key="least", time="at")
    with pytest.raises(MillpondError, match="MP864"):
        renamed.tumbling("10 s").iterate(Spread, until=fixpoint())
