"""Rows that wait in a source that tells its latest offsets, on a query that takes some of them at a time."""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from millpond import Counter, Partitioned, Program, entry
from tests.spark.test_elastic import job_of, wait_for

limits = pytest.importorskip("pyspark.sql.streaming.datasource", reason="sources in Python tell no latest offsets")

ROWS, LIMIT = 50, 20


class Visits(Program):
    totals = Partitioned(Counter[int])

    @entry
    def visit(self, key: int) -> None:
        self.totals[key] += 1


def topic(rows, limit):
    """A source with rows of one partition, whose offsets look like Kafka's."""

    class Reader(DataSourceStreamReader):
        def initialOffset(self):  # noqa: N802
            return {"visits": {"0": 0}}

        def getDefaultReadLimit(self):  # noqa: N802
            return limits.ReadMaxRows(limit)

        def latestOffset(self, start, read):  # noqa: N802
            return {"visits": {"0": min(rows, start["visits"]["0"] + read.max_rows)}}

        def reportLatestOffset(self):  # noqa: N802
            return {"visits": {"0": rows}}

        def partitions(self, start, end):
            return [InputPartition((start["visits"]["0"], end["visits"]["0"]))]

        def read(self, partition):
            return ((number, number % 7) for number in range(*partition.value))

    class Topic(DataSource):
        @classmethod
        def name(cls):
            return "millpond-topic"

        def schema(self):
            return "at bigint, key bigint"

        def streamReader(self, schema):  # noqa: N802
            return Reader()

    return Topic


def test_an_epoch_tells_how_many_rows_the_batch_before_it_left_in_the_source(spark, tmp_path):
    spark.dataSource.register(topic(ROWS, LIMIT))
    job = job_of(spark, Visits, tmp_path)
    job.feed("visit", spark.readStream.format("millpond-topic").load(), order_by="at")
    told = []
    job._engine.progress.epoch = lambda report: told.append((report.rows, report.queued_rows))
    query = job.start()
    wait_for(lambda: len(told) == 3 or job.error or not query.isActive, "three epochs")
    query.stop()
    assert told == [(20, None), (20, 30), (10, 10)]
    assert "  waiting in the sources: 10 rows\n" in job.explain()
