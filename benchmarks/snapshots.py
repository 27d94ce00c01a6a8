"""Snapshots: what it costs the epochs that the whole state is written anew, in the background and by themselves."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import Enum
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from benchmarks.committed import committed_entries
from benchmarks.data import OUT, in_order, work_folder
from benchmarks.options import add_seed, positive, seconds
from benchmarks.report import BenchmarkError, Figures, Teller, percentiles, ratio, rounded
from benchmarks.spark import stream
from benchmarks.stage import Stage
from millpond import Map, Partitioned, Program, entry
from millpond.epochs import background, snapshots
from millpond.runtime.spark.job import Job
from millpond.state.keycodec import KeyCodec
from millpond.state.storekey import unit_of
from millpond.state.valuecodec import ValueCodec

GIGABYTES = (0.25, 1.0, 2.0)
VALUE_BYTES = 1_000
NEVER = 10**15
WARM_UP_EPOCHS = 3
"""Epochs at the beginning of every turn whose time does not count: a new query starts its workers."""

FILL_ROWS = 250_000
"""Rows of an epoch that fills the state: some hundred megabytes."""

POOL_BYTES = 1 << 20
"""Values are pieces of so many random bytes: quick to make, and what a value must be is known from two numbers."""


KINDS_OF_FILES = ("manifests", "deltas", "snapshots")


class Store(Program):
    """A store of large values: what is written is what was sent."""

    values = Partitioned(Map[int, bytes])

    @entry
    def put(self, key: int, value: bytes) -> None:
        """Keep a value."""
        self.values[key] = value


class Way(Enum):
    """How the whole state is written anew."""

    NONE = "none"
    BACKGROUND = "background"
    SYNCHRONOUS = "synchronous"


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes of a run."""

    gigabytes: tuple[float, ...] = GIGABYTES
    rows: int = 20_000
    epochs: int = 40
    every: int | None = None
    turns: int = 2
    partitions: int = 2
    seed: int = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    parser.add_argument("--gigabytes", type=_sizes, default=GIGABYTES, help="sizes of the state (default: 0.25,1,2)")
    parser.add_argument("--rows", type=positive, default=20_000, help="rows of an epoch, 1 kB each (default: 20000)")
    parser.add_argument("--epochs", type=positive, default=40, help="epochs of a turn (default: %(default)s)")
    parser.add_argument(
        "--every", type=positive, default=None, help="epochs between snapshots (default: when Millpond takes them)"
    )
    parser.add_argument("--turns", type=positive, default=2, help="turns of each way (default: %(default)s)")
    parser.add_argument("--partitions", type=positive, default=2, help="partitions and cores (default: %(default)s)")
    add_seed(parser)


def _sizes(text: str) -> tuple[float, ...]:
    return tuple(seconds(part) for part in text.split(","))


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    return Options(args.gigabytes, args.rows, args.epochs, args.every, args.turns, args.partitions, args.seed)


@contextmanager
def snapshots_taken(way: Way, every: int | None) -> Iterator[None]:
    """Let a job take snapshots in this way, after so many epochs each, or when it would by itself."""
    due, least = (every, NEVER) if every else (snapshots.DELTA_EPOCHS_MAX, snapshots.DELTA_BYTES_MIN)
    if way is Way.NONE:
        due = least = NEVER
    at_once = NEVER if way is Way.SYNCHRONOUS else 0
    with (
        patch.object(snapshots, "DELTA_EPOCHS_MAX", due),
        patch.object(snapshots, "DELTA_BYTES_MIN", least),
        patch.object(background, "AT_ONCE_BYTES", at_once),
    ):
        yield


@dataclass(slots=True)
class Contestant:
    """One way: its checkpoint, which version of each key was written last, and how long epochs took."""

    way: Way
    folder: Path
    versions: NDArray[np.int64]
    seconds: list[float] = field(default_factory=list)
    written_bytes: int = 0
    changed_bytes: int = 0

    @property
    def checkpoint(self) -> Path:
        """Where the state is."""
        return self.folder / "checkpoint"


def stored_bytes(checkpoint: Path) -> int:
    """How large the files of a checkpoint are; those of so few epochs are all kept."""
    return sum(path.stat().st_size for kind in KINDS_OF_FILES for path in (checkpoint / kind).glob("*"))


class Data:
    """Rows whose values follow from key and version."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._pool = self._rng.bytes(POOL_BYTES + VALUE_BYTES)

    def value(self, key: int, version: int) -> bytes:
        """What a key holds after so many writes."""
        start = (key * 7_919 + version * 104_729) % POOL_BYTES
        return self._pool[start : start + VALUE_BYTES]

    def drawn(self, rows: int, keys: int) -> NDArray[np.int64]:
        """Keys to write, each once."""
        return self._rng.choice(keys, size=min(rows, keys), replace=False).astype(np.int64)

    def write(self, path: Path, keys: NDArray[np.int64], versions: NDArray[np.int64]) -> Path:
        """Write rows as a file."""
        values = [self.value(key, version) for key, version in zip(keys.tolist(), versions.tolist(), strict=True)]
        path.parent.mkdir(parents=True, exist_ok=True)
        table = pa.table({"key": keys, "value": pa.array(values, pa.binary())})
        pq.write_table(table, path, row_group_size=max(1, len(keys) // 4), compression="none", use_dictionary=False)
        return path


def run(options: Options, spark: SparkSession, teller: Teller, out: Path = OUT) -> Figures:
    """Measure and check all ways at all sizes."""
    figures: Figures = {"benchmark": "snapshots"}
    with work_folder("snapshots", out) as folder:
        stage = Stage(spark, teller, folder, out, options.partitions)
        for gigabytes in options.gigabytes:
            figures |= _at_size(stage, options, gigabytes)
            shutil.rmtree(folder / f"{gigabytes}")
    return figures | {
        "checked": True,
        "unit": "kept: rows/s beside those without snapshots; p99_ratio: of the time of an epoch, likewise",
        "settings": asdict(options),
    }


def _at_size(stage: Stage, options: Options, gigabytes: float) -> Figures:
    keys = max(1, round(gigabytes * 1e9 / VALUE_BYTES))
    folder, data = stage.folder / f"{gigabytes}", Data(options.seed)
    contestants = [Contestant(way, folder / way.value, np.zeros(keys, np.int64)) for way in Way]
    for one in contestants:
        with stage.teller.doing(f"{gigabytes} GB, {one.way.value}: filling"):
            _fill(stage, data, one, keys)
    made = 0
    for turn in range(options.turns):
        files, writes = _files(folder, data, options, contestants[0].versions, turn)
        # One after the other in each turn, so that a slow minute of the machine meets all of them.
        for one in contestants:
            with stage.teller.doing(f"{gigabytes} GB, {one.way.value}, turn {turn + 1}"):
                taken = _turn(stage, options, one, files)
            spent = one.seconds[-options.epochs :]
            what = f"{gigabytes} GB, {one.way.value}, turn {turn + 1}"
            stage.teller.done(what, len(spent) * options.rows, "rows", sum(spent))
            made += taken if one.way is Way.BACKGROUND else 0
            one.versions += np.bincount(writes, minlength=keys)
    if not made:
        raise BenchmarkError(f"no snapshot was finished in the background at {gigabytes} GB: run more epochs")
    with stage.teller.doing(f"{gigabytes} GB: checking"):
        for one in contestants:
            check_state(one.checkpoint, data, one.versions)
    return _figures(contestants, gigabytes, made)


def _figures(contestants: list[Contestant], gigabytes: float, made: int) -> Figures:
    none, *others = contestants
    suffix = f"{gigabytes:g}gb"
    slow = percentiles([1000 * each for each in none.seconds])
    figures: Figures = {f"snapshots_{suffix}": made, f"epoch_ms_none_{suffix}": slow}
    figures[f"bytes_written_per_changed_byte_{suffix}"] = {
        one.way.value: ratio(one.written_bytes, one.changed_bytes) for one in contestants
    }
    for one in others:
        name = "" if one.way is Way.BACKGROUND else f"_{one.way.value}"
        times = percentiles([1000 * each for each in one.seconds])
        figures |= {
            f"kept{name}_{suffix}": ratio(sum(none.seconds), sum(one.seconds)),
            f"p99_ratio{name}_{suffix}": ratio(times["p99"], slow["p99"]),
            f"epoch_ms_{one.way.value}_{suffix}": times,
            f"epoch_seconds_{one.way.value}_{suffix}": rounded(one.seconds),
        }
    return figures


def _fill(stage: Stage, data: Data, one: Contestant, keys: int) -> None:
    with snapshots_taken(Way.NONE, None):
        for first in range(0, keys, FILL_ROWS):
            every = np.arange(first, min(keys, first + FILL_ROWS), dtype=np.int64)
            file = data.write(one.folder / "fill.parquet", every, np.zeros(len(every), np.int64))
            job = _job(stage, one)
            job.feed("put", stage.spark.read.parquet(str(file)))
            job.run(f"fill {first}")
            file.unlink()


def _files(
    folder: Path, data: Data, options: Options, before: NDArray[np.int64], turn: int
) -> tuple[list[Path], NDArray[np.int64]]:
    """The epochs of a turn, the same for all, and which keys they write."""
    versions = before.copy()
    files, writes = [], []
    for epoch in range(WARM_UP_EPOCHS + options.epochs):
        drawn = data.drawn(options.rows, len(before))
        versions[drawn] += 1
        files.append(data.write(folder / "epochs" / f"{turn:03}-{epoch:05}.parquet", drawn, versions[drawn]))
        in_order(files[-1], turn * (WARM_UP_EPOCHS + options.epochs) + epoch)
        writes.append(drawn)
    return files, np.concatenate(writes)


def _turn(stage: Stage, options: Options, one: Contestant, files: list[Path]) -> int:
    """Run the epochs of a turn; return how many snapshots they named."""
    before_bytes = stored_bytes(one.checkpoint)
    with snapshots_taken(one.way, options.every):
        job = _job(stage, one)
        job.feed("put", stream(stage.spark, files))
        epochs = job.run().epochs
    one.written_bytes += stored_bytes(one.checkpoint) - before_bytes
    one.changed_bytes += sum(epoch.rows for epoch in epochs) * VALUE_BYTES
    if len(epochs) != len(files):
        raise BenchmarkError(f"{len(files)} files were {len(epochs)} epochs")
    one.seconds += [epoch.seconds for epoch in epochs[WARM_UP_EPOCHS:]]
    return sum(before.snapshot_epoch < after.snapshot_epoch for before, after in pairwise(epochs))


def _job(stage: Stage, one: Contestant) -> Job:
    return Store.on(
        stage.spark,
        checkpoint=one.checkpoint,
        partitions=stage.partitions,
        local_root=one.folder / "local",
        progress=False,
    )


def check_state(checkpoint: Path, data: Data, versions: NDArray[np.int64]) -> None:
    """Refuse a run unless every key holds what was written to it last."""
    keys, values, found = KeyCodec(int), ValueCodec(bytes), 0
    for unit, value in committed_entries(checkpoint):
        key = keys.decode(unit_of(unit))
        if values.decode(value) != data.value(key, int(versions[key])):
            raise BenchmarkError(f"key {key} does not hold what was written last")
        found += 1
    if found != len(versions):
        raise BenchmarkError(f"{found} of {len(versions)} keys are there")
