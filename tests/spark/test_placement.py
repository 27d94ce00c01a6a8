"""The anchor: rows come to the partition that they name, and Spark need not divide the cached table anew for it."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from millpond.spark.placement import placement
from millpond.spark.placement.placement import Anchors

PARTITIONS = 5


@pytest.fixture
def anchors(spark, monkeypatch):
    """Anchors as with several executors, on a session that has one."""
    monkeypatch.setattr(Anchors, "_executors", lambda self: {"one", "other"})
    monkeypatch.setattr(placement, "BUILDS_MAX", 1)
    made = Anchors(spark, "nowhere", holding=True)
    yield made
    made.close()


def tell(partition, batches):
    """Tell what came to a partition."""
    values = [value for batch in batches for value in batch.column("value").to_pylist()]
    told = [pa.array([int(partition)], pa.int32()), pa.array([values], pa.list_(pa.int64()))]
    yield pa.RecordBatch.from_arrays(told, names=["partition", "values"])


def run(anchors, frame):
    anchor = anchors.prepare(PARTITIONS)
    return anchor.run(frame, tell, "partition int, values array<bigint>")


@pytest.mark.parametrize("count", [0, 1, 300])
def test_every_partition_runs_once_with_exactly_its_rows(spark, anchors, count):
    rng = random.Random(count)
    rows = [(rng.randrange(PARTITIONS), number) for number in range(count)]
    frame = spark.createDataFrame(rows, "part int, value bigint")
    found = {row.partition: sorted(row["values"]) for row in run(anchors, frame).collect()}
    assert found == {p: [value for part, value in rows if part == p] for p in range(PARTITIONS)}


def test_partitions_that_were_dealt_to_other_rows_of_the_anchor_still_get_their_own(spark, anchors, monkeypatch):
    order = [3, 0, 4, 1, 2]
    monkeypatch.setattr(placement, "keep_places", lambda wanted, offered, rows: order)
    frame = spark.range(50).selectExpr("int(id % 5) part", "id value")
    found = {row.partition: row["values"] for row in run(anchors, frame).collect()}
    assert {p: {value % PARTITIONS for value in values} for p, values in found.items()} == {
        p: {p} for p in range(PARTITIONS)
    }


def test_the_cached_table_is_read_where_it_lies(spark, anchors, capsys):
    told = run(anchors, spark.range(50).selectExpr("int(id % 5) part", "id value"))
    told.explain()
    plan = capsys.readouterr().out
    assert "InMemoryTableScan" in plan
    assert "ENSURE_REQUIREMENTS" not in plan, "an exchange between the anchor and the task takes it elsewhere"


def test_an_anchor_is_let_go_of_when_another_one_is_built(spark, anchors):
    first = anchors.prepare(PARTITIONS).frame
    assert first.is_cached
    second = anchors.prepare(PARTITIONS + 1).frame
    assert second.is_cached
    assert not first.is_cached
