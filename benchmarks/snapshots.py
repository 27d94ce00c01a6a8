"""Snapshots: what it costs the epochs that the whole state is written anew, in the background and by themselves."""

from __future__ import annotations

import argparse
import os
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
from millpond import Durability, Keep, Map, Partitioned, Program, entry
from millpond.checkpoint.snapshots import background, snapshots
from millpond.spark.reporting.reports import EpochReport
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.local.storekey import unit_of

GIGABYTES = (0.25, 1.0, 2.0)
VALUE_BYTES = 1_000
NEVER = 10**15
WARM_UP_EPOCHS = 3
"""Epochs at the beginning of every turn whose time does not count: a new query starts its workers."""

FILL_ROWS = 250_000
"""Rows of an epoch that fills the state: some hundred megabytes."""

EPOCHS_MIN = 40
"""Epochs of a turn if the state is so small that several snapshots are taken in it."""

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
    epochs: int | None = None
    every: int | None = None
    turns: int = 2
    partitions: int = 2
    seed: int = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    parser.add_argument("--gigabytes", type=_sizes, default=GIGABYTES, help="sizes of the state (default: 0.25,1,2)")
    parser.add_argument("--rows", type=positive, default=20_000, help="rows of an epoch, 1 kB each (default: 20000)")
    parser.add_argument(
        "--epochs", type=positive, default=None, help="epochs of a turn (default: as many as lie between two snapshots)"
    )
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
    per_epoch = NEVER if every else snapshots.EPOCH_BYTES
    if way is Way.NONE:
        due = least = NEVER
    at_once = NEVER if way is Way.SYNCHRONOUS else 0
    with (
        patch.object(snapshots, "DELTA_EPOCHS_MAX", due),
        patch.object(snapshots, "DELTA_BYTES_MIN", least),
        patch.object(snapshots, "EPOCH_BYTES", per_epoch),
        patch.object(background, "AT_ONCE_BYTES", at_once),
    ):
        yield


@dataclass(slots=True)
class Told:
    """What the epochs of one way took and wrote, in all turns."""

    seconds: list[float] = field(default_factory=list)
    written_bytes: int = 0
    changed_bytes: int = 0
    snapshots: int = 0


@dataclass(slots=True)
class Contest:
    """One checkpoint, on which the ways take turns: which version of each key was written last, and what they told.

    Three checkpoints would compete for the system's cache, and whoever comes after the others would find it cold.
    """

    folder: Path
    data: Data
    versions: NDArray[np.int64]
    epochs: int = 0
    told: dict[Way, Told] = field(default_factory=lambda: {way: Told() for way in Way})

    @property
    def checkpoint(self) -> Path:
        """Where the state is."""
        return self.folder / "checkpoint"

    def write(self, keys: NDArray[np.int64]) -> Path:
        """The next epoch: these keys, each once, with new values."""
        self.versions[keys] += 1
        path = self.folder / "epochs" / f"{self.epochs:05}.parquet"
        self.data.write(path, keys, self.versions[keys])
        in_order(path, self.epochs)
        self.epochs += 1
        return path


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
    folder = stage.folder / f"{gigabytes}"
    contest = Contest(folder, Data(options.seed), np.full(keys, -1, np.int64))
    with stage.teller.doing(f"{gigabytes} GB: filling"):
        for first in range(0, keys, FILL_ROWS):
            every = np.arange(first, min(keys, first + FILL_ROWS), dtype=np.int64)
            _run(stage, contest, [every], Way.NONE, None)
    # When Millpond takes them by itself, deltas grow so many times as large as the state between two of them.
    epochs = options.epochs or max(EPOCHS_MIN, -(-snapshots.GROWTH * keys // options.rows))
    for turn in range(1, options.turns + 1):
        with stage.teller.doing(f"{gigabytes} GB, turn {turn}: a snapshot to begin with"):
            _run(stage, contest, [contest.data.drawn(1, keys)], Way.SYNCHRONOUS, 1)
        for way, told in contest.told.items():
            what = f"{gigabytes} GB, {way.value}, turn {turn}"
            with stage.teller.doing(what):
                _turn(stage, options, contest, way, epochs)
            spent = told.seconds[-epochs:]
            stage.teller.done(what, len(spent) * options.rows, "rows", sum(spent))
    if not contest.told[Way.BACKGROUND].snapshots:
        raise BenchmarkError(f"no snapshot was finished in the background at {gigabytes} GB: run more epochs")
    with stage.teller.doing(f"{gigabytes} GB: checking"):
        check_state(contest.checkpoint, contest.data, contest.versions)
    return _figures(contest.told, gigabytes)


def _figures(told: dict[Way, Told], gigabytes: float) -> Figures:
    suffix = f"{gigabytes:g}gb"
    times = {way: percentiles([1000 * each for each in one.seconds]) for way, one in told.items()}
    figures: Figures = {
        f"snapshots_{suffix}": {way.value: one.snapshots for way, one in told.items()},
        f"bytes_written_per_changed_byte_{suffix}": {
            way.value: ratio(one.written_bytes, one.changed_bytes) for way, one in told.items()
        },
        f"epoch_ms_{suffix}": {way.value: each for way, each in times.items()},
        f"epoch_seconds_{suffix}": {way.value: rounded(one.seconds) for way, one in told.items()},
    }
    for way in (Way.BACKGROUND, Way.SYNCHRONOUS):
        name = "" if way is Way.BACKGROUND else f"_{way.value}"
        figures |= {
            f"kept{name}_{suffix}": ratio(sum(told[Way.NONE].seconds), sum(told[way].seconds)),
            f"p99_ratio{name}_{suffix}": ratio(times[way]["p99"], times[Way.NONE]["p99"]),
        }
    return figures


def _turn(stage: Stage, options: Options, contest: Contest, way: Way, epochs: int) -> None:
    """Run the epochs of a way's turn, and note what they took, wrote and named."""
    drawn = [contest.data.drawn(options.rows, len(contest.versions)) for _ in range(WARM_UP_EPOCHS + epochs)]
    _read_through(contest.folder / "local")
    # What the turn before left to be written must not be written in this one.
    os.sync()
    before_bytes = stored_bytes(contest.checkpoint)
    reports = _run(stage, contest, drawn, way, options.every)
    told = contest.told[way]
    told.written_bytes += stored_bytes(contest.checkpoint) - before_bytes
    told.changed_bytes += sum(report.rows for report in reports) * VALUE_BYTES
    told.seconds += [report.seconds for report in reports[WARM_UP_EPOCHS:]]
    told.snapshots += sum(before.snapshot_epoch < after.snapshot_epoch for before, after in pairwise(reports))


def _read_through(folder: Path) -> None:
    """Bring files back into the system's cache, which may have dropped what was not used for a while."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                while file.read(1 << 24):
                    pass


def _run(
    stage: Stage, contest: Contest, drawn: list[NDArray[np.int64]], way: Way, every: int | None
) -> list[EpochReport]:
    """Write keys anew, an epoch for each list of them."""
    files = [contest.write(keys) for keys in drawn]
    with snapshots_taken(way, every):
        job = Store.on(
            stage.spark,
            checkpoint=contest.checkpoint,
            partitions=stage.partitions,
            local_root=contest.folder / "local",
            # Nothing is deleted, so that what was written can be seen.
            durability=Durability(keep=Keep.all()),
            progress=False,
        )
        job.feed("put", stream(stage.spark, files))
        reports = list(job.run().epochs)
    if len(reports) != len(files):
        raise BenchmarkError(f"{len(files)} files were {len(reports)} epochs")
    for file in files:
        file.unlink()
    return reports


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
