"""Drivers that are killed before, in and after the commit of their sink: readers see every row once."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys

import psycopg
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from millpond.clock import SystemClock
from millpond.crashpoints import IN_SINKS
from tests.chance import seed_of
from tests.contract.servers import child_environment
from tests.contract.sink_child import catalog_of, wanted
from tests.contract.topics import rows_in, topic_name

EPOCHS = 4
KILLS = 30
AROUND = ("manifest.committed", "publish.given")
INSIDE = {
    "kafka": ("kafka.sent", "kafka.flushed", "kafka.committed"),
    "kafka-apart": ("kafka.sent", "kafka.flushed", "kafka.committed"),
    "kafka-large": ("kafka.sent", "kafka.flushed", "kafka.committed"),
    "jdbc": ("table.staged", "table.committed"),
    "delta": ("table.staged", "table.committed"),
    "delta-upsert": ("table.staged", "table.committed"),
    "iceberg": ("table.staged", "table.committed"),
    "parquet": ("publish.file",),
}
_tables = itertools.count()


def test_every_point_inside_of_sinks_is_visited():
    visited = {point for points in INSIDE.values() for point in points}
    assert visited >= set(IN_SINKS)


class Killed:
    """A sink of one kind, the drivers that are killed over it, and what its readers see."""

    def __init__(self, kind, folder, request):
        self.kind, self.folder = kind, folder
        if kind.startswith("kafka"):
            self.servers, self.topic = request.getfixturevalue("kafka_server").servers, topic_name()
            self.address = f"{self.servers}/{self.topic}"
        elif kind == "jdbc":
            self.url, self.table = request.getfixturevalue("postgres_server").url, f"killed{next(_tables)}"
            self.address = f"{self.url} {self.table}"
        else:
            (folder / "sink").mkdir()
            self.address = str(folder / "sink")

    def start(self, epochs, **more):
        command = [sys.executable, "-m", "tests.contract.sink_child", str(self.folder), self.kind, self.address]
        own = child_environment(**{name: value for name, value in more.items() if value})
        return subprocess.Popen([*command, str(epochs)], env=own, stderr=subprocess.PIPE, text=True)

    def run(self, epochs, **more):
        with self.start(epochs, **more) as process:
            told = process.stderr.read()
            process.wait()
        return process.returncode, told

    def seen(self):
        if self.kind.startswith("kafka"):
            rows = rows_in(self.servers, self.topic)
        elif self.kind == "jdbc":
            with psycopg.connect(self.url) as database:
                rows = [{"n": row[0]} for row in database.execute(f"SELECT n FROM {self.table}")]
        elif self.kind.startswith("delta"):
            rows = DeltaTable(self.address).to_pyarrow_table().to_pylist()
        elif self.kind == "iceberg":
            rows = load_catalog("tests", **catalog_of(self.address)).load_table("shop.replies").scan().to_arrow()
            rows = rows.to_pylist()
        else:
            rows = ds.dataset(self.address, format="parquet", partitioning="hive").to_table().to_pylist()
        return sorted(row["n"] for row in rows)


@pytest.fixture(params=INSIDE)
def killed(request, tmp_path):
    return Killed(request.param, tmp_path, request)


def some(*few):
    """All kinds of sinks in a campaign, a few of them in any run: a driver takes seconds to start."""
    return [kind if kind in few else pytest.param(kind, marks=pytest.mark.campaign) for kind in INSIDE]


@pytest.mark.slow
@pytest.mark.parametrize("kind", some("kafka", "jdbc", "delta", "iceberg"))
def test_kills_around_the_commit_of_a_sink_lose_and_repeat_nothing(tmp_path, request, kind):
    killed, points = Killed(kind, tmp_path, request), (AROUND[0], *INSIDE[kind])
    for number, point in enumerate(points):
        code, told = killed.run(EPOCHS, MILLPOND_CRASH_AT=f"{point}:{1 + number % 2}")
        assert code == -signal.SIGKILL, (point, told)
    code, told = killed.run(len(points) * 2)
    assert code == 0, told
    assert killed.seen() == wanted(len(points) * 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    ["delta", *(pytest.param(kind, marks=pytest.mark.campaign) for kind in ("delta-upsert", "iceberg", "parquet"))],
)
def test_a_disk_that_takes_no_more_loses_nothing(tmp_path, request, kind):
    killed = Killed(kind, tmp_path, request)
    assert killed.run(1)[0] == 0
    code, told = killed.run(2, SINK_FILE_BYTES="500")
    assert code == 1
    assert "MP" in told.rpartition("millpond.errors")[2], told
    assert killed.run(3)[0] == 0
    assert killed.seen() == wanted(3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", some("kafka", "iceberg"))
def test_two_drivers_at_once_lose_and_repeat_nothing(tmp_path, request, kind):
    killed = Killed(kind, tmp_path, request)
    assert killed.run(1)[0] == 0
    with killed.start(6) as one, killed.start(6) as other:
        one.stderr.read()
        other.stderr.read()
    assert killed.run(6)[0] == 0
    assert killed.seen() == wanted(6)


@pytest.mark.campaign
@pytest.mark.timeout(7200)
def test_thirty_kills_of_a_driver_lose_and_repeat_nothing(killed):
    chance, clock = random.Random(f"{seed_of('sinks')} {killed.kind}"), SystemClock()
    points, epochs, kills = (*AROUND, *INSIDE[killed.kind], "publish.started", "publish.finished"), 0, 0
    while kills < KILLS:
        epochs += 3
        if chance.random() < 0.7:
            code, told = killed.run(epochs, MILLPOND_CRASH_AT=f"{chance.choice(points)}:{chance.randrange(1, 4)}")
            assert code in {0, -signal.SIGKILL}, told
        else:
            # Anywhere, also in what is not ours.
            with killed.start(epochs) as process:
                clock.sleep(chance.uniform(0.3, 2.5))
                os.kill(process.pid, signal.SIGKILL)
                process.stderr.read()
            code = process.returncode
        kills += code == -signal.SIGKILL
    assert killed.run(epochs)[0] == 0
    assert killed.seen() == wanted(epochs)
