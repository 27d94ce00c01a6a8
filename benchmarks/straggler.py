"""The slow executor of the elastic benchmark: something beside it takes its core, and key groups leave it.

Each executor is pinned to a core of its own, and the thieves to the core of the first: so exactly one is slow, also on
a machine with two cores.
"""

from __future__ import annotations

import statistics
import threading
from dataclasses import dataclass
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from benchmarks.committed import commits_in
from benchmarks.pinning import cores, executors_below, pin, thieves
from benchmarks.report import BenchmarkError
from benchmarks.spark import stream
from benchmarks.workload import Input, Work, check_counts
from millpond import Tuning
from millpond.engine.elastic import Elastic
from millpond.spark.reporting.reports import EpochReport

EXECUTORS = 2
THIEVES = 3
"""An executor that shares its core with so many has a quarter of it."""

WARM_UP_EPOCHS = 2
"""So many epochs of a run are not looked at: partitions find their places in them."""

POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Robbed:
    """The epochs of a run, and after how many of them the thieves came."""

    reports: tuple[EpochReport, ...]
    quiet: int

    @property
    def before_s(self) -> float:
        """Seconds of an epoch before the thieves came; the median, as of the others."""
        return statistics.median(one.seconds for one in self.reports[WARM_UP_EPOCHS : self.quiet])

    @property
    def late_s(self) -> float:
        """Seconds of an epoch in the last third: with the thieves, and with what was done about them by then."""
        return statistics.median(one.seconds for one in self.reports[-(len(self.reports) // 3) :])

    @property
    def stolen_s(self) -> float | None:
        """Seconds of an epoch with the thieves, before anything moved; None if something did at once."""
        # Epochs are short beside the look at them: the first one may have begun before the thieves.
        found = [one.seconds for one in self.reports[self.quiet + 1 : self.relieved_at]]
        return statistics.median(found) if found else None

    @property
    def relieved_at(self) -> int | None:
        """How many epochs there were before key groups moved because of the thieves; None if none moved."""
        moved = (at for at, one in enumerate(self.reports) if at > self.quiet and one.groups_moved)
        return next(moved, None)


def pin_executors() -> int:
    """Give each executor below this process a core of its own, and return that of the first."""
    found, own = executors_below(psutil.Process()), cores()
    if len(found) != EXECUTORS or len(own) < EXECUTORS:
        raise BenchmarkError(f"{EXECUTORS} executors need as many cores: found {len(found)} on {len(own)} cores")
    for executor, core in zip(found, own, strict=False):
        pin(executor, core)
    return own[0]


def robbed(spark: SparkSession, given: Input, folder: Path, elastic: Elastic, core: int) -> Robbed:
    """Run over the files, with thieves on a core from the second third on, and check what was counted."""
    job = Work.on(
        spark,
        checkpoint=folder / "checkpoint",
        partitions=EXECUTORS,
        progress=False,
        tuning=Tuning(small_epoch=0, elastic=elastic),
    )
    job.feed("add", stream(spark, given.files))
    quiet = len(given.files) // 3
    ended = threading.Event()

    def steal() -> None:
        while commits_in(folder / "checkpoint") < quiet:
            if ended.wait(POLL_SECONDS):
                return
        with thieves(core, THIEVES):
            ended.wait()

    stealing = threading.Thread(target=steal, name="stealing")
    stealing.start()
    try:
        reports = job.run().epochs
    finally:
        ended.set()
        stealing.join()
    check_counts(folder / "checkpoint", given.counts)
    return Robbed(reports, quiet)
