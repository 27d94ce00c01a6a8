"""Large state: memory of the workers and rate of events as the number of keys grows, and as an epoch does."""

from __future__ import annotations

import argparse
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from benchmarks.committed import committed_entries
from benchmarks.data import OUT, ROW_GROUP_ROWS, work_folder
from benchmarks.memory import WorkerMemory
from benchmarks.options import add_seed, positive, positives
from benchmarks.report import BenchmarkError, Figures, Teller, ratio, timed
from benchmarks.stage import Stage
from millpond import Map, Partitioned, Program, Tuning, entry
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.local.storekey import unit_of

KEYS = (1_000_000, 5_000_000, 20_000_000)


class Visits(Program):
    """How often each key was seen."""

    seen = Partitioned(Map[int, int])

    @entry
    def visit(self, key: int) -> None:
        """Count a visit."""
        self.seen[key] = self.seen.get(key, 0) + 1


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes of a run."""

    keys: tuple[int, ...] = KEYS
    rows: int = 250_000
    epochs: int = 8
    partitions: int = 2
    large_rows: int = 4_000_000
    memory_mb: int = 256
    seed: int = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    parser.add_argument("--keys", type=positives, default=KEYS, help="sizes of the state (default: 1M, 5M and 20M)")
    parser.add_argument("--rows", type=positive, default=250_000, help="rows of every epoch (default: %(default)s)")
    parser.add_argument("--epochs", type=positive, default=8, help="epochs measured at each size (default: 8)")
    parser.add_argument("--partitions", type=positive, default=2, help="partitions and cores (default: %(default)s)")
    parser.add_argument("--large-rows", type=positive, default=4_000_000, help="rows of a large epoch (default: 4M)")
    parser.add_argument("--memory", type=positive, default=256, help="what its tasks may hold in MB (default: 256)")
    add_seed(parser)


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    return Options(
        tuple(sorted(args.keys)), args.rows, args.epochs, args.partitions, args.large_rows, args.memory, args.seed
    )


class Grown:
    """One checkpoint that grows from size to size, and how often each key was visited."""

    def __init__(self, stage: Stage, options: Options) -> None:
        self._stage = stage
        self._options = options
        self._rng = np.random.default_rng(options.seed)
        self._runs = 0
        self.checkpoint = stage.folder / "checkpoint"
        self.visits = np.zeros(0, np.int64)

    def grow(self, keys: int) -> None:
        """Visit new keys until there are so many, in epochs of the usual size."""
        rows = self._options.rows
        for first in range(len(self.visits), keys, rows):
            self._epoch(np.arange(first, min(keys, first + rows), dtype=np.int64))

    def visit(self) -> float:
        """Visit keys anywhere in the state, an epoch's worth; return how long it took."""
        return self._epoch(self._rng.integers(0, len(self.visits), self._options.rows))

    def visit_many(self, memory_mb: int | None) -> float:
        """Visit as many keys as a large epoch has rows, anywhere in the state; return how long it took."""
        return self._epoch(self._rng.integers(0, len(self.visits), self._options.large_rows), memory_mb)

    def _epoch(self, keys: NDArray[np.int64], memory_mb: int | None = None) -> float:
        stage = self._stage
        file = stage.folder / "epoch.parquet"
        pq.write_table(pa.table({"key": keys}), file, row_group_size=ROW_GROUP_ROWS)
        job = Visits.on(
            stage.spark,
            checkpoint=self.checkpoint,
            partitions=stage.partitions,
            local_root=stage.folder / "local",
            progress=False,
            tuning=Tuning(memory_mb=memory_mb),
        )
        job.feed("visit", stage.spark.read.parquet(str(file)))
        self._runs += 1
        seconds, _ = timed(lambda: job.run(f"epoch {self._runs}"))
        self.visits = _added(self.visits, keys)
        return seconds


def _added(visits: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.int64]:
    counted = np.bincount(keys, minlength=len(visits))
    counted[: len(visits)] += visits
    return counted


def run(options: Options, spark: SparkSession, teller: Teller, out: Path = OUT) -> Figures:
    """Measure each size and check the state at the end."""
    memory: dict[str, float] = {}
    rates: dict[str, float] = {}
    stored: dict[str, float] = {}
    with work_folder("large-state", out) as folder:
        grown = Grown(Stage(spark, teller, folder, out, options.partitions), options)
        for keys in options.keys:
            with teller.doing(f"growing to {keys:,} keys"):
                grown.grow(keys)
            watch = WorkerMemory(private=True)
            with teller.doing(f"epochs over {keys:,} keys"), watch.watching():
                seconds = [grown.visit() for _ in range(options.epochs)]
            teller.done(f"{keys:,} keys", options.rows * options.epochs, "events", sum(seconds))
            memory[str(keys)] = watch.peak_each_mb
            rates[str(keys)] = round(options.rows / min(seconds), 1)
            local = folder / "local"
            stored[str(keys)] = round(sum(path.stat().st_blocks * 512 for path in local.rglob("*")) / 1e6, 1)
        large = _large_epochs(grown, options, teller)
        with teller.doing("checking"):
            check_state(grown.checkpoint, grown.visits)
        shutil.rmtree(folder / "local", ignore_errors=True)
    smallest, largest = str(options.keys[0]), str(options.keys[-1])
    return {
        "benchmark": "large_state",
        "worker_mb": memory,
        "worker_mb_ratio": ratio(memory[largest], memory[smallest]),
        "rates": rates,
        "rate_ratio": ratio(rates[smallest], rates[largest]),
        "store_mb": stored,
        **large,
        "checked": True,
        "unit": "peak of the largest worker's own memory in MB, pages of the local store left out; events/s",
        "settings": asdict(options),
    }


def _large_epochs(grown: Grown, options: Options, teller: Teller) -> Figures:
    """One large epoch at once, and one in portions; the first of each is a warm-up."""
    memory: dict[str, float] = {}
    rates: dict[str, float] = {}
    for name, memory_mb in (("in_portions", options.memory_mb), ("at_once", None)):
        grown.visit_many(memory_mb)
        watch = WorkerMemory(private=True)
        with teller.doing(f"a large epoch, {name}"), watch.watching():
            seconds = grown.visit_many(memory_mb)
        teller.done(f"a large epoch, {name}", options.large_rows, "events", seconds)
        memory[name] = watch.peak_each_mb
        rates[name] = round(options.large_rows / seconds, 1)
    return {
        "large_epoch_mb": memory,
        "large_epoch_mb_ratio": ratio(memory["in_portions"], memory["at_once"]),
        "large_epoch_rates": rates,
        "large_epoch_rate_ratio": ratio(rates["in_portions"], rates["at_once"]),
    }


def check_state(checkpoint: Path, visits: NDArray[np.int64]) -> None:
    """Refuse a run unless the whole committed state is the visits that were made."""
    keys, values, found = KeyCodec(int), ValueCodec(int), 0
    for unit, value in committed_entries(checkpoint):
        key = keys.decode(unit_of(unit))
        if values.decode(value) != visits[key]:
            raise BenchmarkError(f"key {key} was not visited {visits[key]} times")
        found += 1
    if found != len(visits):
        raise BenchmarkError(f"{found} of {len(visits)} keys are there")
