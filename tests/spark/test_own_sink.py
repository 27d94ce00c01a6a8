"""Sinks of a user's own kind: exactly once by token, under kill -9 and when they fail."""

from __future__ import annotations

import json
import signal

import pyarrow as pa
import pytest

from examples.sqlite_sink import SqliteSink
from millpond.errors import RowError
from millpond.sinks import Sink, SinkDescription
from tests.programs.keyed import Totals, committed_state, oracle
from tests.spark.drivers import Driver
from tests.spark.feeding import stream_of, write_part
from tests.spark.sqlite_job import TABLE

PARTS = 6
POINTS = ("manifest.committed:2", "publish.given:1", "publish.given:2")
"""Before the sink has got an epoch, after it got one at a start, and after it got one in a run."""

FEW_POINTS = ("manifest.committed:2", "publish.given:1")


class SqliteDriver(Driver):
    """A driver whose replies go to SQLite."""

    JOB = "tests.spark.sqlite_job"


def rows_of(part):
    return [(key, float(part)) for key in (part, 100, 200)]


def write_rows(folder, parts=PARTS):
    for part in range(parts):
        keys, amounts = zip(*rows_of(part), strict=True)
        write_part(folder, part, pa.table({"key": keys, "amount": amounts}))


def wanted(parts=PARTS):
    return oracle(Totals, [("add", row) for part in range(parts) for row in rows_of(part)])


def wanted_rows(parts=PARTS):
    keys = [key for part in range(parts) for key, _ in rows_of(part)]
    return sorted((key, *wanted(parts).replies[number].values()) for number, key in enumerate(keys))


def told(sink):
    return sorted((row["key"], *json.loads(row["reply"]).values()) for row in sink.rows())


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "points",
    [pytest.param(FEW_POINTS, id="few"), pytest.param(POINTS, id="all", marks=pytest.mark.campaign)],
)
def test_a_table_has_every_reply_once_although_its_driver_is_killed_again_and_again(tmp_path, points):
    write_rows(tmp_path / "in")
    for number, point in enumerate(points):
        driver = SqliteDriver(tmp_path, crash_at=point, small_epoch=number % 2 * 10)
        assert driver.end() == -signal.SIGKILL, point
    assert SqliteDriver(tmp_path).end() == 0
    assert told(SqliteSink(tmp_path / "replies.db", TABLE)) == wanted_rows()
    assert committed_state(tmp_path / "ck") == wanted().state


class Flaky(Sink):
    """A sink that takes rows as a DataFrame, and is away at its second epoch."""

    def __init__(self):
        self.taken, self.recovered, self.away = {}, [], True

    def describe(self):
        return SinkDescription("the warehouse")

    def publish(self, token, staged):
        if token.epoch == 2 and self.away:
            raise ConnectionError("nobody answers")
        assert sum(file.rows for file in staged.files) == 3
        self.taken.setdefault(token, sorted(row.key for row in staged.frame().collect()))

    def recover(self, token, files):
        self.recovered.append((token.epoch, len(files)))
        return ()


def test_a_sink_that_fails_gets_its_epoch_at_the_next_start(spark, tmp_path):
    write_rows(tmp_path / "in", 3)
    sink = Flaky()

    def run():
        job = Totals.on(spark, checkpoint=tmp_path / "ck", partitions=1, local_root=tmp_path / "local")
        return job.feed("add", stream_of(spark, tmp_path / "in"), to=sink, keep=["key"]).run()

    with pytest.raises(RowError, match="the warehouse raised ConnectionError on epoch 2") as caught:
        run()
    assert caught.value.code == "MP605"
    assert "nobody answers" in str(caught.value)
    sink.away = False
    assert run().epoch == 3
    assert {token.epoch: keys for token, keys in sink.taken.items()} == {n + 1: [n, 100, 200] for n in range(3)}
    assert sink.recovered == [(0, 0), (2, 1)]
    assert {token.sink for token in sink.taken} == {"add.replies"}
