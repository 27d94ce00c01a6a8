"""Placement: epochs on separate executors, with partitions that stay where their state is, and without."""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.data import OUT, work_folder
from benchmarks.options import add_seed, positive
from benchmarks.report import BenchmarkError, Figures, Teller, ratio, rounded
from benchmarks.spark import cluster, stream
from millpond import Map, Partitioned, Program, Tuning, entry
from millpond.checkpoint.recovery import read_state
from millpond.spark.reporting.reports import EpochReport
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.local.storekey import unit_of
from millpond.storage.open import open_storage

NEEDS_SPARK = False
"""It starts its own: executors in processes of their own."""

WARM_UP_EPOCHS = 4
"""So many of each run do not count: workers start in them, and partitions find their places."""


class Visits(Program):
    """The contestant: a count and a text by key, so that the state grows with the keys and not with the rows."""

    seen = Partitioned(Map[int, tuple[int, str]])

    @entry
    def visit(self, key: int) -> None:
        """Count a visit."""
        count, text = self.seen.get(key, (0, "x" * 200))
        self.seen[key] = (count + 1, text)


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes of a run."""

    executors: int = 3
    partitions: int = 3
    epochs: int = 40
    rows: int = 20_000
    keys: int = 400_000
    seed: int = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    defaults = Options()
    for name, what in (
        ("executors", "separate executors, a core each"),
        ("partitions", "partitions of the job"),
        ("epochs", "epochs of each run"),
        ("rows", "rows of an epoch"),
        ("keys", "different keys"),
    ):
        default = getattr(defaults, name)
        parser.add_argument(f"--{name}", type=positive, default=default, help=f"{what} (default: %(default)s)")
    add_seed(parser)


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    return Options(args.executors, args.partitions, args.epochs, args.rows, args.keys, args.seed)


def write_input(folder: Path, options: Options) -> tuple[list[Path], Counter[int]]:
    """Write a file per epoch, and count what is in them."""
    rng = np.random.default_rng(options.seed)
    folder.mkdir(parents=True)
    files, counts = [], Counter[int]()
    for epoch in range(WARM_UP_EPOCHS + options.epochs):
        keys = rng.integers(0, options.keys, options.rows)
        counts.update(keys.tolist())
        path = folder / f"part-{epoch:05}.parquet"
        pq.write_table(pa.table({"key": keys}), path)
        files.append(path)
    return files, counts


def millpond_run(
    spark: SparkSession, files: Sequence[Path], folder: Path, options: Options, *, keep_in_place: bool
) -> list[EpochReport]:
    """Run the program over the files, one epoch each, with stores on the executors."""
    job = Visits.on(
        spark,
        checkpoint=folder / "checkpoint",
        partitions=options.partitions,
        progress=False,
        tuning=Tuning(keep_in_place=keep_in_place),
    )
    job.feed("visit", stream(spark, files))
    return list(job.run().epochs)


def check_state(checkpoint: Path, want: Counter[int]) -> None:
    """Refuse a run unless the whole committed state is what was counted."""
    keys, values = KeyCodec(int), ValueCodec(tuple[int, str])
    state = read_state(open_storage(str(checkpoint)))
    if {keys.decode(unit_of(key)): values.decode(value)[0] for key, value in state.items()} != dict(want):
        raise BenchmarkError("Millpond's checkpoint does not hold the counts")


def hit_share(reports: Sequence[EpochReport]) -> float:
    """Which share of partitions found their state on their executor."""
    found = sum(report.local_hits for report in reports)
    moved = sum(report.caught_up + report.restored for report in reports)
    return round(found / max(1, found + moved), 4)


def run(options: Options, spark: object, teller: Teller, out: Path = OUT) -> Figures:  # noqa: ARG001 - has its own
    """Measure and check both ways, in one session."""
    told: dict[str, list[EpochReport]] = {}
    with work_folder("placement", out) as folder:
        files, counts = write_input(folder / "in", options)
        teller.say(f"starting Spark with {options.executors} executors")
        with cluster("placement", options.executors, out) as session:
            with teller.doing("warm-up"):
                few, _ = write_input(folder / "few", replace(options, epochs=1))
                millpond_run(session, few, folder / "warm-up", options, keep_in_place=True)
            for name, keep_in_place in (("on", True), ("off", False)):
                with teller.doing(f"{len(files)} epochs, placement {name}"):
                    reports = millpond_run(session, files, folder / name, options, keep_in_place=keep_in_place)
                check_state(folder / name / "checkpoint", counts)
                told[name] = reports[WARM_UP_EPOCHS:]
                teller.say(f"placement {name}: {hit_share(told[name]):.1%} of partitions found their state")
    seconds = {name: [report.seconds for report in reports] for name, reports in told.items()}
    return {
        "benchmark": "placement",
        "local_hits_on": hit_share(told["on"]),
        "local_hits_off": hit_share(told["off"]),
        "epoch_ratio": ratio(statistics.median(seconds["on"]), statistics.median(seconds["off"])),
        "epoch_seconds_on": rounded(seconds["on"]),
        "epoch_seconds_off": rounded(seconds["off"]),
        "restore_seconds_off": rounded([report.restore_seconds for report in told["off"]]),
        "checked": True,
        "unit": "epoch_ratio: median seconds of an epoch with placement by those without",
        "excluded": f"session start-up, a warm-up run and the first {WARM_UP_EPOCHS} epochs of each run",
        "settings": asdict(options),
    }
