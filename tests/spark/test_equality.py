"""Plain Python = Spark batch = Spark streaming: replies and bytes of state, on any number of partitions."""

from __future__ import annotations

import pytest

from millpond import Tuning
from tests.programs.keyed import (
    PROGRAMS,
    Fraud,
    Recommender,
    Store,
    Totals,
    Words,
    committed_state,
    fresh_seed,
    oracle,
    random_rows,
)
from tests.spark.feeding import feed_all, replies_in, streams, tables, write_parts

PARTS = 4
STREAMED = [
    *((Totals, 7, 1), (Store, 3, 2), (Words, 2, 1), (Fraud, 1, 2), (Recommender, 7, 2)),
    pytest.param(Recommender, 3, 3, marks=pytest.mark.connect),
]


@pytest.fixture
def seed():
    return fresh_seed()


@pytest.mark.parametrize(("program", "partitions"), [*zip(PROGRAMS, (1, 2, 3, 7, 2), strict=True)])
def test_a_batch_equals_plain_python(spark, tmp_path, seed, program, partitions):
    rows = random_rows(program, seed, 80)
    wanted = oracle(program, rows)
    write_parts(tmp_path / "in", program, rows, PARTS)
    job = program.on(spark, checkpoint=tmp_path / "ck", partitions=partitions, local_root=tmp_path / "local")
    report = feed_all(job, program, tables(spark, program, tmp_path / "in"), tmp_path / "out").run()
    assert report.rows == len(rows)
    assert replies_in(tmp_path / "out") == wanted.replies
    assert committed_state(tmp_path / "ck") == wanted.state


@pytest.mark.parametrize(("program", "partitions", "files"), STREAMED)
def test_a_stream_equals_plain_python(spark, tmp_path, seed, program, partitions, files):
    rows = random_rows(program, seed, 80)
    wanted = oracle(program, rows)
    write_parts(tmp_path / "in", program, rows, PARTS)
    small_epoch = 1000 * (partitions % 2)
    job = program.on(
        spark,
        checkpoint=tmp_path / "ck",
        partitions=partitions,
        local_root=tmp_path / "local",
        tuning=Tuning(small_epoch=small_epoch),
    )
    report = feed_all(job, program, streams(spark, program, tmp_path / "in", files), tmp_path / "out").run()
    assert len(report.epochs) == -(-PARTS // files)
    assert replies_in(tmp_path / "out") == wanted.replies
    assert committed_state(tmp_path / "ck") == wanted.state


def test_a_checkpoint_goes_on_with_another_number_of_partitions(spark, tmp_path, seed):
    rows = random_rows(Recommender, seed, 60)
    wanted = oracle(Recommender, rows)
    write_parts(tmp_path / "all", Recommender, rows, 3)
    for part, partitions in enumerate((2, 1, 3)):
        for name in ("rate", "recommend"):
            (tmp_path / "in" / name).mkdir(parents=True, exist_ok=True)
            file = f"part-{part:04}.parquet"
            (tmp_path / "all" / name / file).rename(tmp_path / "in" / name / file)
        job = Recommender.on(spark, checkpoint=tmp_path / "ck", partitions=partitions, local_root=tmp_path / "local")
        feed_all(job, Recommender, streams(spark, Recommender, tmp_path / "in"), tmp_path / "out").run()
    assert replies_in(tmp_path / "out") == wanted.replies
    assert committed_state(tmp_path / "ck") == wanted.state


def test_a_run_under_a_name_that_is_committed_does_nothing(spark, tmp_path):
    rows = random_rows(Totals, 1, 20)
    write_parts(tmp_path / "in", Totals, rows, 1)
    for name, epochs in (("monday", 1), ("monday", 0), ("tuesday", 1)):
        job = Totals.on(spark, checkpoint=tmp_path / "ck", local_root=tmp_path / "local")
        job.feed("add", spark.read.parquet(str(tmp_path / "in" / "add")))
        assert len(job.run(name).epochs) == epochs
    assert committed_state(tmp_path / "ck") == oracle(Totals, rows + rows).state


@pytest.mark.connect
def test_an_empty_batch_is_an_epoch_without_changes(spark, tmp_path):
    job = Totals.on(spark, checkpoint=tmp_path / "ck", local_root=tmp_path / "local")
    job.feed("add", spark.createDataFrame([], "key long, amount double, at long"), order_by="at")
    report = job.run()
    assert (report.epoch, report.rows) == (1, 0)
    assert committed_state(tmp_path / "ck") == {}
