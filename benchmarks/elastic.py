"""Elastic partitions: a rising load that partitions are added to, and a slow executor that is relieved."""

from __future__ import annotations

import argparse
import statistics
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.charts import Points, line_chart
from benchmarks.data import OUT, work_folder
from benchmarks.options import add_seed, positive
from benchmarks.report import BenchmarkError, Figures, Teller, ratio, rounded
from benchmarks.spark import cluster, session, stream
from millpond import Counter as CounterState
from millpond import Partitioned, Program, entry
from millpond.elastic import Elastic
from millpond.epochs.recovery import read_state
from millpond.runtime.spark.progress import EpochReport
from millpond.state.keycodec import KeyCodec
from millpond.state.storekey import unit_of
from millpond.state.valuecodec import ValueCodec
from millpond.storage.open import open_storage

NEEDS_SPARK = False
"""It starts its own: one with cores, one with executors."""

MOST = 4
EXECUTORS = 2
KEYS = 5_000
STOLEN_S, LEFT_S = 0.3, 0.1
"""How long the workers of the slow executor are held, and how long they run, in turn."""

_EXECUTOR = "CoarseGrainedExecutorBackend"


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
class Options:
    """Sizes of a run."""

    epochs: int = 30
    rows: int = 20_000
    turns: int = 300
    partitions: int = 2
    seed: int = 1
    svg: str | None = None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    defaults = Options()
    for name, what in (
        ("epochs", "epochs of each run"),
        ("rows", "rows of the largest epoch"),
        ("turns", "turns of a loop for each row"),
        ("partitions", "cores of the session under rising load"),
    ):
        default = getattr(defaults, name)
        parser.add_argument(f"--{name}", type=positive, default=default, help=f"{what} (default: %(default)s)")
    parser.add_argument("--svg", help="folder for the charts; none are drawn without it")
    add_seed(parser)


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    return Options(args.epochs, args.rows, args.turns, args.partitions, args.seed, args.svg)


def write_input(folder: Path, sizes: Sequence[int], options: Options) -> tuple[list[Path], Counter[int]]:
    """Write a file per epoch, and count what is in them."""
    rng = np.random.default_rng(options.seed)
    folder.mkdir(parents=True)
    files, counts = [], Counter[int]()
    for epoch, rows in enumerate(sizes):
        keys = rng.integers(0, KEYS, rows)
        counts.update(keys.tolist())
        path = folder / f"part-{epoch:05}.parquet"
        pq.write_table(pa.table({"key": keys, "turns": np.full(rows, options.turns)}), path)
        files.append(path)
    return files, counts


def rising(options: Options) -> list[int]:
    """How many rows each epoch has: few at first, all at the end."""
    return [max(1, options.rows * (epoch + 1) // options.epochs) for epoch in range(options.epochs)]


def measure(
    spark: SparkSession, files: Sequence[Path], counts: Counter[int], folder: Path, partitions: int, elastic: Elastic
) -> list[EpochReport]:
    """Run over the files, one epoch each, and check what was counted."""
    job = Work.on(
        spark,
        checkpoint=folder / "checkpoint",
        partitions=partitions,
        progress=False,
        small_epoch=0,
        elastic=elastic,
    )
    job.feed("add", stream(spark, files))
    reports = list(job.run().epochs)
    keys, values = KeyCodec(int), ValueCodec(int)
    state = read_state(open_storage(str(folder / "checkpoint")))
    if {keys.decode(unit_of(key)): values.decode(value) for key, value in state.items()} != dict(counts):
        raise BenchmarkError("Millpond's checkpoint does not hold the counts")
    return reports


class Thief(threading.Thread):
    """Takes most of the time away from the Python workers of one executor, whatever else the machine does."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._over = threading.Event()

    def run(self) -> None:
        """Hold the workers and let them run, in turn."""
        while not self._over.is_set():
            # Executors take their time to start.
            workers = _workers_of_the_first()
            if workers:
                _each(workers, psutil.Process.suspend)
                self._over.wait(STOLEN_S)
                _each(workers, psutil.Process.resume)
            self._over.wait(LEFT_S)

    def end(self) -> None:
        """Leave them alone."""
        self._over.set()
        self.join()


def _each(workers: Sequence[psutil.Process], verb: Callable[[psutil.Process], None]) -> None:
    for worker in workers:
        with suppress(psutil.Error):
            verb(worker)


def _workers_of_the_first() -> list[psutil.Process]:
    """The Python workers of the executor that was started first; none if there is none yet."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if any(part.endswith(_EXECUTOR) for part in process.cmdline()):
                found.append(process)
    with suppress(psutil.Error):
        return min(found, key=lambda process: int(process.pid)).children(recursive=True) if found else []
    return []


@contextmanager
def stealing() -> Iterator[None]:
    """Slow one executor down meanwhile."""
    thief = Thief()
    thief.start()
    try:
        yield
    finally:
        thief.end()


def run(options: Options, spark: object, teller: Teller, out: Path = OUT) -> Figures:  # noqa: ARG001 - has its own
    """Measure and check both, each with elastic partitions and without."""
    off = Elastic(mode="off")
    with work_folder("elastic", out) as folder:
        files, counts = write_input(folder / "rising", rising(options), options)
        scaled: dict[str, list[EpochReport]] = {}
        teller.say(f"starting Spark with {options.partitions} cores")
        with session("elastic", options.partitions, out) as local:
            # Epochs follow each other without a pause, and overheads of Spark are no work of partitions.
            acts = Elastic(most=MOST, busy=0.2, reports=2)
            for name, elastic in (("fixed", off), ("elastic", acts)):
                with teller.doing(f"{len(files)} epochs under rising load, {name}"):
                    scaled[name] = measure(local, files, counts, folder / f"rising-{name}", 1, elastic)
        files, counts = write_input(folder / "slow", [options.rows] * options.epochs, options)
        relieved: dict[str, list[EpochReport]] = {}
        teller.say(f"starting Spark with {EXECUTORS} executors")
        with cluster("elastic", EXECUTORS, out) as executors:
            acts = Elastic(least=EXECUTORS, most=EXECUTORS, reports=2)
            for name, elastic in (("fixed", off), ("elastic", acts)):
                with teller.doing(f"{len(files)} epochs with a slow executor, {name}"), stealing():
                    relieved[name] = measure(executors, files, counts, folder / f"slow-{name}", EXECUTORS, elastic)
    figures = _figures(options, scaled, relieved)
    figures["charts"] = draw(options, scaled, relieved)
    return figures


def _figures(options: Options, scaled: dict[str, list[EpochReport]], relieved: dict[str, list[EpochReport]]) -> Figures:
    late = options.epochs // 2
    fast = {name: statistics.median(one.rows_per_second for one in reports[late:]) for name, reports in scaled.items()}
    slow = {name: statistics.median(one.seconds for one in reports[late:]) for name, reports in relieved.items()}
    return {
        "benchmark": "elastic",
        "partitions": [one.partitions for one in scaled["elastic"]],
        "scale_out_ratio": ratio(fast["elastic"], fast["fixed"]),
        "relief_ratio": ratio(slow["elastic"], slow["fixed"]),
        "groups_moved": sum(one.groups_moved for one in relieved["elastic"]),
        "rows_per_second_elastic": rounded([one.rows_per_second for one in scaled["elastic"]]),
        "rows_per_second_fixed": rounded([one.rows_per_second for one in scaled["fixed"]]),
        "slow_seconds_elastic": rounded([one.seconds for one in relieved["elastic"]]),
        "slow_seconds_fixed": rounded([one.seconds for one in relieved["fixed"]]),
        "checked": True,
        "unit": "scale_out_ratio: rows per second with elastic partitions by those with one, relief_ratio: seconds of "
        "an epoch with moved key groups by those without; medians of the second half of the epochs",
        "excluded": "session start-up",
        "settings": asdict(options),
    }


def draw(options: Options, scaled: dict[str, list[EpochReport]], relieved: dict[str, list[EpochReport]]) -> list[str]:
    """Write the charts; their paths."""
    if options.svg is None:
        return []
    folder = Path(options.svg)
    folder.mkdir(parents=True, exist_ok=True)
    rates: dict[str, Points] = {
        name: [(at, one.rows_per_second) for at, one in enumerate(reports, 1)] for name, reports in scaled.items()
    }
    seconds: dict[str, Points] = {
        name: [(at, one.seconds) for at, one in enumerate(reports, 1)] for name, reports in relieved.items()
    }
    charts = {
        "elastic-rising.svg": line_chart("Rising load", "epoch", "rows per second", rates),
        "elastic-slow.svg": line_chart("One slow executor", "epoch", "seconds of an epoch", seconds),
    }
    for name, chart in charts.items():
        (folder / name).write_text(chart, encoding="utf-8")
    return [str(folder / name) for name in charts]
