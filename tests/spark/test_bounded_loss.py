"""Bounded loss on Spark: restarts on the same host lose nothing, a lost host no more than is said, replies once."""

from __future__ import annotations

import random
import shutil
import signal
from datetime import timedelta

import msgspec
import pytest

from millpond import BoundedLoss, Durability
from millpond.checkpoint.read.verify import verify
from millpond.checkpoint.records.manifest import decode_manifest
from millpond.checkpoint.recovery import read_state
from millpond.state.local.storekey import element_of
from millpond.storage.backends.files import FileStorage
from millpond.storage.composed.unsynced import UnsyncedStorage
from tests.programs.keyed import Recommender, committed_state, fresh_seed, oracle, random_rows, say
from tests.spark.bounded_loss_job import Visits
from tests.spark.drivers import Driver
from tests.spark.feeding import feed_all, replies_in, stream_of, write_parts

PART_ROWS = 40


class BoundedLossDriver(Driver):
    """A driver with state with bounded loss."""

    JOB = "tests.spark.bounded_loss_job"


def counts(state, element):
    return {key[1:]: msgspec.msgpack.decode(value) for key, value in state.items() if element_of(key) == element}


def losses(folder):
    kept = FileStorage(folder / "ck")
    own = [decode_manifest(kept.get(name), name).deltas[-1] for name in kept.list("manifests")]
    return [delta.loss for delta in own if delta.loss is not None]


@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_a_killed_driver_and_its_lost_host_take_no_more_than_is_told(tmp_path):
    rng = random.Random(fresh_seed())
    parts = 8
    rows = [("visit", (f"page {rng.randrange(15)}",)) for _ in range(parts * PART_ROWS)]
    write_parts(tmp_path / "in", Visits, rows, parts)
    assert BoundedLossDriver(tmp_path, crash_at="manifest.committed:3").end() == -signal.SIGKILL
    shutil.rmtree(tmp_path / "local")
    second = BoundedLossDriver(tmp_path, crash_at="segment.written:3", small_epoch=PART_ROWS)
    assert second.end() == -signal.SIGKILL
    assert "were lost with their host" in second.log()
    assert BoundedLossDriver(tmp_path).end() == 0
    wanted = oracle(Visits, rows)
    assert replies_in(tmp_path / "out") == wanted.replies
    near = next((tmp_path / "local").glob("near-*"))
    state = read_state(UnsyncedStorage(FileStorage(tmp_path / "ck"), near))
    assert counts(state, 0) == counts(wanted.state, 0)
    found, true = counts(state, 1), counts(wanted.state, 1)
    gone = sum(true.values()) - sum(found.values())
    told = losses(tmp_path)
    say("gone", gone, told)
    assert all(found.get(page, 0) <= visits for page, visits in true.items())
    assert 0 <= gone <= sum(loss.updates for loss in told)
    assert len(told) == 1
    assert verify(FileStorage(tmp_path / "ck"), everything=True).problems == []


def run_on(spark, folder, level, **options):
    """Stream the parts that are there, and have not been read before."""
    job = Recommender.on(
        spark,
        checkpoint=folder / "ck",
        local_root=folder / "local",
        durability=Durability(level),
        progress=False,
        **options,
    )
    frames = {name: stream_of(spark, folder / "in" / name) for name in ("rate", "recommend")}
    return feed_all(job, Recommender, frames, folder / "out").run()


@pytest.mark.classic("state with bounded loss needs the driver on the host of its workers")
def test_restarts_with_other_levels_and_partitions_change_nothing_while_the_host_lives(spark, tmp_path):
    levels = (BoundedLoss(events=2, within=timedelta(seconds=60)), "replay", "bounded_loss", "exactly_once")
    rows = random_rows(Recommender, 4, 80)
    write_parts(tmp_path / "all", Recommender, rows, len(levels))
    for part, level in enumerate(levels):
        for name in ("rate", "recommend"):
            (tmp_path / "in" / name).mkdir(parents=True, exist_ok=True)
            shutil.copy2(tmp_path / "all" / name / f"part-{part:04}.parquet", tmp_path / "in" / name)
        report = run_on(spark, tmp_path, level, partitions=2 + part % 2)
        assert report.loss is None
        if part == 0:
            assert FileStorage(tmp_path / "ck").list("deltas") == []
            assert FileStorage(tmp_path / "ck").list("saves")
    wanted = oracle(Recommender, rows)
    assert replies_in(tmp_path / "out") == wanted.replies
    assert committed_state(tmp_path / "ck") == wanted.state
