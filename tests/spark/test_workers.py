"""Tasks that die: retried by Spark, then the job by us, and then told."""

from __future__ import annotations

import pytest

from millpond import Tuning
from millpond.errors import EpochError
from tests.programs.keyed import committed_state, oracle
from tests.spark import gated
from tests.spark.drivers import wait_for
from tests.spark.feeding import feed_all, replies_in, streams, tables, write_parts
from tests.spark.gated import Gated

ROWS = [("visit", (number % 5, f"page {number % 3}")) for number in range(30)] + [("views", ("page 1",))]


@pytest.fixture
def gates(tmp_path, monkeypatch):
    folder = tmp_path / "gates"
    folder.mkdir()
    monkeypatch.setattr(gated, "FOLDER", str(folder))
    return folder


def run(spark, folder, **tuning):
    write_parts(folder / "in", Gated, ROWS, 1)
    job = Gated.on(spark, checkpoint=folder / "ck", partitions=2, local_root=folder / "local", tuning=Tuning(**tuning))
    return feed_all(job, Gated, tables(spark, Gated, folder / "in"), folder / "out").run()


def check(folder):
    wanted = oracle(Gated, ROWS)
    assert replies_in(folder / "out") == wanted.replies
    assert committed_state(folder / "ck") == wanted.state


@pytest.mark.parametrize("place", ["first", "second"])
def test_a_worker_that_dies_is_replaced_by_spark(spark, tmp_path, gates, place):
    (gates / place).write_text("kill 1")
    run(spark, tmp_path, retries=0)
    assert (gates / f"{place}.0").exists()
    check(tmp_path)


def test_a_job_that_spark_gives_up_is_tried_again_from_the_same_parent(spark, tmp_path, gates):
    (gates / "second").write_text("kill 5")
    run(spark, tmp_path, retries=1)
    assert (gates / "second.4").exists()
    check(tmp_path)


def test_a_job_given_up_too_often_tells_the_cause_and_commits_nothing(spark, tmp_path, gates):
    (gates / "first").write_text("kill 100")
    with pytest.raises(EpochError) as caught:
        run(spark, tmp_path, retries=0)
    assert caught.value.code == "MP409"
    text = str(caught.value)
    assert "worker" in text
    assert "crashed" in text
    assert "\tat org.apache" not in text
    assert committed_state(tmp_path / "ck") == {}
    assert replies_in(tmp_path / "out") == {}
    (gates / "first").unlink()
    run(spark, tmp_path)
    check(tmp_path)


def test_a_query_stopped_in_the_middle_of_an_epoch_goes_on_at_the_next_start(spark, tmp_path, gates):
    write_parts(tmp_path / "in", Gated, ROWS, 4)

    def job():
        made = Gated.on(spark, checkpoint=tmp_path / "ck", partitions=2, local_root=tmp_path / "local")
        return feed_all(made, Gated, streams(spark, Gated, tmp_path / "in"), tmp_path / "out")

    (gates / "second").write_text("wait")
    query = job().start("100 milliseconds", name="stopped")
    assert query.name == "stopped"
    wait_for((gates / "second.waiting").exists, "the second step")
    query.stop()
    assert not query.isActive
    # Its tasks may still be at the gate: late attempts of an epoch that another query runs now.
    (gates / "go").touch()
    job().run()
    check(tmp_path)


def test_an_interval_picks_up_what_comes_later(spark, tmp_path):
    write_parts(tmp_path / "all", Gated, ROWS, 3)
    job = Gated.on(spark, checkpoint=tmp_path / "ck", partitions=2, local_root=tmp_path / "local")

    def arrive(part):
        for name in ("visit", "views"):
            (tmp_path / "in" / name).mkdir(parents=True, exist_ok=True)
            file = f"part-{part:04}.parquet"
            (tmp_path / "all" / name / file).rename(tmp_path / "in" / name / file)

    arrive(0)
    query = feed_all(job, Gated, streams(spark, Gated, tmp_path / "in"), tmp_path / "out").start("50 milliseconds")
    try:
        for part in (1, 2):
            arrive(part)
            query.processAllAvailable()
    finally:
        query.stop()
    assert job.error is None
    assert committed_state(tmp_path / "ck") == oracle(Gated, ROWS).state
