"""kill -9 of the driver in the fortieth round of a loop over all partitions; it goes on with twice as many."""

from __future__ import annotations

import signal
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import millpond
from tests.programs.looped import START, shown, spread_of
from tests.spark.feeding import write_part
from tests.spark.spread_job import SpreadDriver

CHAIN = 60
"""So many keys in a row: what the first one says takes as many rounds to the last."""

POINTS = ("manifest.committed:46", "epoch.computed:2", "publish.started:2")
"""Where the driver dies, one start after the other; the first time behind the fortieth round."""

KILLED = {"few": POINTS[:1], "all": POINTS}


def rounds_of(folder):
    return {shard: running[0] for shard, running in millpond.open(folder / "ck")["shards"].items()}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "points",
    [pytest.param(points, id=name, marks=pytest.mark.campaign) for name, points in KILLED.items()],
)
def test_a_loop_killed_in_its_fortieth_round_goes_on_with_twice_as_many_partitions(tmp_path, points):
    rows = [(START + timedelta(milliseconds=key), key, key + 1) for key in range(CHAIN)]
    at, key, target = zip(*rows, strict=True)
    columns = {"at": pa.array(at, pa.timestamp("us", tz="UTC")), "node": key, "target": target}
    write_part(tmp_path / "in", 0, pa.table(columns))
    for number, point in enumerate(points):
        assert SpreadDriver(tmp_path, crash_at=point, small_epoch=2 + number).end() == -signal.SIGKILL, point
        reached = rounds_of(tmp_path)
        assert len(reached) == 16, "all shards are under way"
        assert min(reached.values()) >= 40, "it is in mid-iteration"
    assert SpreadDriver(tmp_path, small_epoch=4).end() == 0
    assert results(tmp_path) == spread_of(rows)
    assert rounds_of(tmp_path) == {}


def results(folder):
    tables = [pq.read_table(path).to_pylist() for path in (folder / "out").glob("*.parquet")]
    return sorted(shown(tuple(row.values())) for rows in tables for row in rows)
