"""Recovery: an executor is killed while epochs run; from there to the next commit, by the size of the state."""

from __future__ import annotations

import argparse
import shutil
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks import placement
from benchmarks.committed import commits_in
from benchmarks.data import OUT, work_folder
from benchmarks.options import add_seed, positive, positives
from benchmarks.placement import check_state, millpond_run
from benchmarks.report import BenchmarkError, Figures, Teller, percentiles
from benchmarks.spark import cluster
from millpond.clock import SystemClock

NEEDS_SPARK = False
"""It starts its own: executors in processes of their own."""

EXECUTOR = "CoarseGrainedExecutorBackend"
POLL_SECONDS = 0.02
QUIET_EPOCHS = 5
"""Epochs before a kill, and between two: the new executor has to be in use again."""

_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes of a run."""

    executors: int = 3
    partitions: int = 3
    keys: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    rows: int = 2_000
    kills: int = 3
    seed: int = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    defaults = Options()
    parser.add_argument("--keys", type=positives, default=defaults.keys, help="sizes of the state, separated by commas")
    for name, what in (
        ("executors", "separate executors, a core each"),
        ("partitions", "partitions of the job"),
        ("rows", "rows of an epoch"),
        ("kills", "executors killed at each size"),
    ):
        default = getattr(defaults, name)
        parser.add_argument(f"--{name}", type=positive, default=default, help=f"{what} (default: %(default)s)")
    add_seed(parser)


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    return Options(args.executors, args.partitions, args.keys, args.rows, args.kills, args.seed)


def write_input(folder: Path, keys: int, options: Options) -> tuple[list[Path], Counter[int]]:
    """Write a first file with all keys and then one per epoch, and count what is in them."""
    rng = np.random.default_rng(options.seed)
    folder.mkdir(parents=True)
    files, counts = [], Counter[int]()
    for epoch in range(1 + QUIET_EPOCHS * (options.kills + 1)):
        chosen = rng.integers(0, keys, options.rows) if epoch else np.arange(keys)
        counts.update(chosen.tolist())
        files.append(folder / f"part-{epoch:05}.parquet")
        pq.write_table(pa.table({"key": chosen}), files[-1])
    return files, counts


@dataclass(slots=True)
class Killer:
    """Kills an executor after every few commits, and notes when the next commit came."""

    checkpoint: Path
    kills: int
    recovered: list[float] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        """Kill until there were enough, or the job has ended."""
        for kill in range(self.kills):
            # The first one is the load.
            if not self._reached(1 + QUIET_EPOCHS * (kill + 1)):
                return
            before, begun = commits_in(self.checkpoint), _CLOCK.ticks()
            kill_executor()
            if not self._reached(before + 1):
                return
            self.recovered.append(_CLOCK.ticks() - begun)

    def end(self) -> None:
        """Watch no more."""
        self._ended.set()

    def _reached(self, commits: int) -> bool:
        while commits_in(self.checkpoint) < commits:
            if self._ended.wait(POLL_SECONDS):
                return False
        return True


def kill_executor() -> None:
    """Kill one of the executors below this process."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if any(word.endswith(EXECUTOR) for word in process.cmdline()):
                process.kill()
                return
    raise BenchmarkError("there is no executor to kill")


def measure(spark: SparkSession, keys: int, folder: Path, options: Options) -> tuple[list[float], float]:
    """Seconds from each kill to the next commit, and the longest time that a partition was restored in."""
    files, counts = write_input(folder / "in", keys, options)
    killer = Killer(folder / "checkpoint", options.kills)
    thread = threading.Thread(target=killer.watch, name="killer")
    thread.start()
    try:
        sizes = placement.Options(executors=options.executors, partitions=options.partitions)
        reports = millpond_run(spark, files, folder, sizes, keep_in_place=True)
    finally:
        killer.end()
        thread.join()
    check_state(folder / "checkpoint", counts)
    if len(killer.recovered) < options.kills:
        raise BenchmarkError(f"the job ended before {options.kills} executors were killed")
    return killer.recovered, max(report.restore_seconds for report in reports)


def run(options: Options, spark: object, teller: Teller, out: Path = OUT) -> Figures:  # noqa: ARG001 - has its own
    """Measure and check every size, in one session."""
    recovery: dict[str, list[float]] = {}
    restore: dict[str, float] = {}
    with work_folder("recovery", out) as folder:
        teller.say(f"starting Spark with {options.executors} executors")
        with cluster("recovery", options.executors, out) as session:
            for keys in options.keys:
                with teller.doing(f"{options.kills} kills with {keys:,} keys"):
                    seconds, longest = measure(session, keys, folder / str(keys), options)
                recovery[str(keys)] = [round(each, 2) for each in seconds]
                restore[str(keys)] = round(longest, 3)
                teller.say(f"{keys:,} keys: next commit after {recovery[str(keys)]} s")
                shutil.rmtree(folder / str(keys))
    return {
        "benchmark": "recovery",
        "recovery_seconds": recovery,
        "recovery_percentiles": {keys: percentiles(seconds) for keys, seconds in recovery.items()},
        "restore_seconds": restore,
        "checked": True,
        "unit": "seconds from the kill of an executor to the next commit; longest restore of one partition",
        "excluded": "session start-up",
        "settings": asdict(options),
    }
