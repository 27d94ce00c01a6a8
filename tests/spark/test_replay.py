"""Durability by replay on Spark: lost changes are computed again from the rows that a commit kept."""

from __future__ import annotations

import shutil

import pytest

from millpond import Durability, Tuning
from millpond.spark.reporting import progress
from millpond.storage.backends.files import FileStorage
from tests.programs.keyed import Recommender, committed_state, oracle, random_rows
from tests.spark.feeding import feed_all, replies_in, stream_of, write_parts

PARTS = 4

pytestmark = pytest.mark.classic("this durability needs the driver on the host of its workers")


def run_on(spark, folder, level="replay", *, small_epoch=20_000, **options):
    """Stream the parts that are there, and have not been read before."""
    options = {"progress": False, **options}
    job = Recommender.on(
        spark,
        checkpoint=folder / "ck",
        local_root=folder / "local",
        durability=Durability(level),
        tuning=Tuning(small_epoch=small_epoch),
        **options,
    )
    frames = {name: stream_of(spark, folder / "in" / name) for name in ("rate", "recommend")}
    return feed_all(job, Recommender, frames, folder / "out").run()


@pytest.mark.parametrize("small_epoch", [0, 10_000])
def test_a_machine_that_is_lost_costs_computing_and_nothing_else(spark, tmp_path, small_epoch, monkeypatch, capsys):
    monkeypatch.setattr(progress, "REPLAY_BYTES_MIN", 0)
    monkeypatch.setattr(progress, "REPLAY_FACTOR", 0)
    rows = random_rows(Recommender, 4, 80)
    write_parts(tmp_path / "all", Recommender, rows, PARTS)
    for part in range(PARTS):
        for name in ("rate", "recommend"):
            (tmp_path / "in" / name).mkdir(parents=True, exist_ok=True)
            shutil.copy2(tmp_path / "all" / name / f"part-{part:04}.parquet", tmp_path / "in" / name)
        run_on(spark, tmp_path, small_epoch=small_epoch, partitions=2 + part % 2, progress=part == 0)
        assert FileStorage(tmp_path / "ck").list("deltas") == []
        shutil.rmtree(tmp_path / "local")
    assert capsys.readouterr().err.count('Durability("exactly_once") would write less') == 1
    wanted = oracle(Recommender, rows)
    assert replies_in(tmp_path / "out") == wanted.replies
    # The last machine is lost too: a start that keeps what it computes gives the whole state.
    run_on(spark, tmp_path, "exactly_once", partitions=2)
    assert committed_state(tmp_path / "ck") == wanted.state
