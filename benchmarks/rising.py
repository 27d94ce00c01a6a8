"""The rising load of the elastic benchmark: files come at a steady pace, with more and more rows, and a query follows.

One partition can't keep up with the last of them, two can. What is measured is what was committed when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from benchmarks.charts import Points
from benchmarks.committed import commits_in
from benchmarks.report import BenchmarkError
from benchmarks.spark import stream
from benchmarks.workload import Input, Work, check_counts
from millpond import Tuning
from millpond.checkpoint.read.history import History
from millpond.clock import SystemClock
from millpond.engine.elastic import Elastic
from millpond.storage.open import open_storage

LATE_SECONDS_MAX = 600.0
"""How long a query that fell behind may take after the last file came."""

POLL_SECONDS = 0.02

_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class Commit:
    """A committed epoch: its partitions and rows, and the seconds since the first file came."""

    seconds: float
    rows: int
    partitions: int


@dataclass(frozen=True, slots=True)
class Followed:
    """What a query made of the files; they came at a pace of so many seconds."""

    commits: tuple[Commit, ...]
    pace_s: float

    @property
    def lag_s(self) -> float:
        """How long after the last file its rows were committed."""
        return self.commits[-1].seconds - self.pace_s * (len(self.commits) - 1)

    @property
    def rate(self) -> float:
        """Rows per second over the last third of the epochs, when the load has risen and partitions were added."""
        last = len(self.commits) // 3
        rows = sum(one.rows for one in self.commits[-last:])
        return rows / (self.commits[-1].seconds - self.commits[-last - 1].seconds)

    def rates(self) -> Points:
        """Rows per second over time, from commit to commit."""
        return [
            (round(one.seconds, 1), one.rows / (one.seconds - before.seconds)) for before, one in pairwise(self.commits)
        ]


def rising(epochs: int, largest: int) -> list[int]:
    """How many rows each file has: more and more in the first half, all of them in the second."""
    ramp = (epochs + 1) // 2
    return [max(1, largest * min(number, ramp) // ramp) for number in range(1, epochs + 1)]


def follow(
    spark: SparkSession, given: Input, folder: Path, partitions: int, elastic: Elastic, pace_s: float
) -> Followed:
    """Run a query over files that come one by one, check what it counted, and tell when it committed what."""
    came = folder / "in"
    came.mkdir(parents=True)
    job = Work.on(
        spark,
        checkpoint=folder / "checkpoint",
        local_root=folder / "local",
        partitions=partitions,
        progress=False,
        tuning=Tuning(small_epoch=0, elastic=elastic),
    )
    job.feed("add", stream(spark, given.files, came))
    query = job.start()
    try:
        times = _feed(given.files, came, folder / "checkpoint", pace_s, query)
    finally:
        query.stop()
    check_counts(folder / "checkpoint", given.counts)
    history = History(open_storage(str(folder / "checkpoint")))
    partitions_of = [history.manifest(epoch)[0].partitions for epoch in history.epochs]
    return Followed(tuple(map(Commit, times, given.sizes, partitions_of)), pace_s)


def _feed(files: Sequence[Path], came: Path, checkpoint: Path, pace_s: float, query: StreamingQuery) -> list[float]:
    """Let files come, each at its time, and note when each was committed, until all are."""
    begun = _CLOCK.ticks()
    given, times = 0, list[float]()
    while len(times) < len(files):
        now = _CLOCK.ticks() - begun
        if given < len(files) and now >= given * pace_s:
            (came / files[given].name).hardlink_to(files[given])
            given += 1
        times += [now] * (commits_in(checkpoint) - len(times))
        if not query.isActive:
            raise BenchmarkError(f"the query ended early: {query.exception()}")
        if now > len(files) * pace_s + LATE_SECONDS_MAX:
            raise BenchmarkError("the query fell too far behind")
        _CLOCK.sleep(POLL_SECONDS)
    return times
