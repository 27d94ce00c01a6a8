"""A query on Spark tells whoever watches it, and Spark's own records have its name."""

from __future__ import annotations

import logging
import re
import urllib.request

import pyarrow as pa
import pytest

from millpond import Counter, Partitioned, Program, entry
from tests.spark.feeding import stream_of, write_part

WORDS = [["mill", "pond"], ["mill"]]


class Watched(Program):
    counts = Partitioned(Counter[str])

    @entry
    def add(self, word: str) -> None:
        self.counts[word] += 1


@pytest.mark.connect
def test_a_query_tells_of_its_epochs_while_it_runs(spark, tmp_path, caplog):
    for part, words in enumerate(WORDS):
        write_part(tmp_path / "words", part, pa.table({"word": words}))
    job = Watched.on(spark, checkpoint=tmp_path / "checkpoint", progress=False)
    job.feed("add", stream_of(spark, tmp_path / "words"))
    pages, told = [], []

    def watch(report):
        told.append(report)
        with urllib.request.urlopen(job.metrics_url) as answer:
            pages.append(answer.read().decode())

    with caplog.at_level(logging.INFO, logger="millpond"):
        query = job.start("available now", on_epoch=watch, metrics=":0")
        query.awaitTermination()
    assert [(one.epoch, one.rows, one.batch) for one in told] == [(1, 2, 0), (2, 1, 1)]
    assert job.reports == tuple(told)
    assert job.last_report is told[-1]
    assert told[-1].ways == {"keyed": 1, "gathered": 0, "in sequence": 0}
    assert told[-1].checkpoint_bytes > 0
    assert 'millpond_rows_total{program="Watched",way="keyed"} 3.0' in pages[-1]
    assert len([line for line in caplog.records if hasattr(line, "millpond_report")]) == 2
    assert query.lastProgress is None or query.lastProgress.batchId <= 1


@pytest.mark.classic("it is about the Spark in this process")
def test_jobs_of_a_run_are_in_a_group_of_their_own(spark, tmp_path):
    frame = spark.createDataFrame([("mill",)], "word string")
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup("millpond Watched"))
    job = Watched.on(spark, checkpoint=tmp_path / "checkpoint", progress=False).feed("add", frame)
    told = []
    job.run(on_epoch=told.append)
    assert len(told) == 1
    assert set(tracker.getJobIdsForGroup("millpond Watched")) > before
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None
    assert re.fullmatch(r"<table>.*</table>", told[0]._repr_html_())
