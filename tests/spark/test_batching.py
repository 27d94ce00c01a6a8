"""Spark's limit of bytes per batch: lifted where it can't matter, and back when the job is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from millpond import Map, Partitioned, Program, entry
from millpond.spark.exchange.compute import row_width, unmeasured

BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
LIFTED = str(2**31 - 1)


class Sums(Program):
    sums = Partitioned(Map[int, float])

    @entry
    def add(self, key: int, amount: float) -> float:
        self.sums[key] = self.sums.get(key, 0.0) + amount
        return self.sums[key]


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """The shared session, whose settings are afterwards what they were."""
    before = {name: spark.conf.get(name) for name in (BYTES, ROWS)}
    yield spark
    for name, value in before.items():
        assert value is not None
        spark.conf.set(name, value)


def test_rows_of_fixed_width_are_not_measured_while_the_job_runs(session: SparkSession) -> None:
    before = session.conf.get(BYTES)
    rows = session.range(3).selectExpr("id", "double(id) amount", "'part-0' src")
    with unmeasured(rows):
        assert session.conf.get(BYTES) == LIFTED
        with unmeasured(rows):
            assert session.conf.get(BYTES) == LIFTED
        assert session.conf.get(BYTES) == LIFTED, "the outer job still runs"
    assert session.conf.get(BYTES) == before


def test_the_limit_is_back_after_a_failed_job(session: SparkSession) -> None:
    before = session.conf.get(BYTES)
    with pytest.raises(RuntimeError, match="failed"), unmeasured(session.range(3)):
        raise RuntimeError("failed")
    assert session.conf.get(BYTES) == before


@pytest.mark.parametrize("column", ["string(id)", "binary(string(id))", "array(id)", "struct(id)", "map(id, id)"])
def test_rows_of_any_width_are_measured(session: SparkSession, column: str) -> None:
    before = session.conf.get(BYTES)
    with unmeasured(session.range(3).selectExpr("id", f"{column} other")):
        assert session.conf.get(BYTES) == before


@pytest.mark.parametrize(("name", "value"), [(BYTES, "1000b"), (ROWS, "0"), (ROWS, "1000000000")])
def test_a_limit_that_batches_can_reach_stays(session: SparkSession, name: str, value: str) -> None:
    session.conf.set(name, value)
    before = session.conf.get(BYTES)
    with unmeasured(session.range(3)):
        assert session.conf.get(BYTES) == before


def test_every_type_of_fixed_width_is_known() -> None:
    kinds: list[tuple[T.DataType, int]] = [
        (T.BooleanType(), 1),
        (T.LongType(), 8),
        (T.DoubleType(), 8),
        (T.TimestampType(), 8),
        (T.DecimalType(38, 2), 16),
        (T.DateType(), 4),
    ]
    schema = T.StructType([T.StructField(f"c{at}", kind) for at, (kind, _) in enumerate(kinds)])
    assert row_width(schema) == sum(width + 1 for _, width in kinds)


def test_a_run_leaves_the_settings_of_its_session_alone(session: SparkSession, tmp_path: Path) -> None:
    before = session.conf.get(BYTES)
    session.range(100_000).selectExpr("id % 100 key", "double(id) amount").write.parquet(str(tmp_path / "in"))
    job = Sums.on(session, checkpoint=tmp_path / "checkpoint", partitions=2, progress=False)
    job.feed("add", session.read.parquet(str(tmp_path / "in")))
    job.run()
    assert session.conf.get(BYTES) == before
