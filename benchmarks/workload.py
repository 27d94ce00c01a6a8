"""The work of the elastic benchmark: a program whose time is user code, its input, and what it must have counted."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.report import BenchmarkError
from benchmarks.spark import stream
from millpond import Counter as CounterState
from millpond import Partitioned, Program, Tuning, entry
from millpond.checkpoint.recovery import read_state
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.local.storekey import unit_of
from millpond.storage.open import open_storage

KEYS = 5_000


class Work(Program):
    """A count by key, with some work for each row: what is measured is user code, not Spark."""

    counts = Partitioned(CounterState[int])

    @entry
    def add(self, key: int, turns: int) -> None:
        """Count a row."""
        work = 0
        for number in range(turns):
            work += number * key % 7
        self.counts[key] += 1 + 0 * work


@dataclass(frozen=True, slots=True)
class Input:
    """Files of rows, one for each epoch, and how often each key is in them."""

    files: tuple[Path, ...]
    sizes: tuple[int, ...]
    counts: Counter[int]


def write_input(folder: Path, sizes: Sequence[int], turns: int, seed: int) -> Input:
    """Write a file of so many rows for each epoch, each row with so many turns of work."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    files, counts = [], Counter[int]()
    for epoch, rows in enumerate(sizes):
        keys = rng.integers(0, KEYS, rows)
        counts.update(keys.tolist())
        files.append(folder / f"part-{epoch:05}.parquet")
        pq.write_table(pa.table({"key": keys, "turns": np.full(rows, turns)}), files[-1])
    return Input(tuple(files), tuple(sizes), counts)


def warm_up(spark: SparkSession, given: Input, folder: Path, partitions: int) -> float:
    """Run over some files before anything counts, and return how many rows a second one partition can work on."""
    job = Work.on(
        spark, checkpoint=folder / "checkpoint", partitions=partitions, progress=False, tuning=Tuning(small_epoch=0)
    )
    job.feed("add", stream(spark, given.files))
    reports = job.run().epochs
    check_counts(folder / "checkpoint", given.counts)
    return statistics.median(one.rows / sum(sum(load.seconds) for load in one.loads) for one in reports)


def check_counts(checkpoint: Path, counts: Counter[int]) -> None:
    """Refuse a run unless the committed state is what was counted."""
    keys, values = KeyCodec(int), ValueCodec(int)
    state = read_state(open_storage(str(checkpoint)))
    if {keys.decode(unit_of(key)): values.decode(value) for key, value in state.items()} != dict(counts):
        raise BenchmarkError("Millpond's checkpoint does not hold the counts")
