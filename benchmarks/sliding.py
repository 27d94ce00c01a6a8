"""Sliding sums per key over a DataFrame: Millpond's one-liner beside Spark's own `window()`, speed and memory."""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.charts import add_charts, line_chart, write_charts
from benchmarks.data import OUT, timed_events, work_folder
from benchmarks.options import add_seed, positive, positives
from benchmarks.report import EXCLUDED, BenchmarkError, Figures, Teller, rate, ratio, rounded
from benchmarks.sliding_child import MILLPOND, SPARK, Found, Task

NEEDS_SPARK = False
"""Each contestant has a session in a process of its own."""

WARM_UP_EVENTS = 20_000
OVERLAP_KEYS = 20
OVERLAP_SECONDS = 50_000
"""So long that the windows that only begin or end outside of it are few, also at the largest overlap."""

CHART = "sliding_overlap.svg"


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes; the slide is a second, so a range in seconds is the overlap."""

    events: int = 1_000_000
    keys: int = 1000
    seconds: int = 1000
    range_s: int = 100
    overlaps: tuple[int, ...] = (10, 100, 1000, 10_000)
    partitions: int = 2
    repeat: int = 2
    heap_mb: int = 4096
    seed: int = 1
    svg: str | None = None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    known = Options()
    parser.add_argument("--events", type=positive, default=known.events, help="how many events (default: %(default)s)")
    parser.add_argument("--keys", type=positive, default=known.keys, help="distinct keys (default: %(default)s)")
    parser.add_argument("--time-span", type=positive, default=known.seconds, help="seconds of events (default: 1000)")
    parser.add_argument("--range", type=positive, default=known.range_s, help="seconds of a window (default: 100)")
    parser.add_argument("--overlaps", type=positives, default=known.overlaps, help="overlaps, e.g. 10,100,1000,10000")
    parser.add_argument("--partitions", type=positive, default=2, help="cores (default: %(default)s)")
    parser.add_argument("--repeat", type=positive, default=known.repeat, help="turns of each (default: %(default)s)")
    parser.add_argument("--heap", type=positive, default=known.heap_mb, help="MB of Java heap that each may use")
    add_charts(parser)
    add_seed(parser)


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    return Options(
        args.events, args.keys, args.time_span, args.range, args.overlaps, args.partitions, args.repeat, args.heap,
        args.seed, args.svg,
    )  # fmt: skip


def run(options: Options, _spark: SparkSession | None, teller: Teller, out: Path = OUT) -> Figures:
    """Measure both contestants, check that they found the same, and measure overlaps."""
    with teller.doing("writing events"):
        events, warm_up, spread = _inputs(options, out)
    with work_folder("sliding", out) as folder:

        def contest(who: str, file: Path, ranges_s: tuple[int, ...], repeat: int, result: str) -> Found:
            task = Task(
                who, str(file), str(warm_up), ranges_s, repeat, options.partitions, options.heap_mb,
                str(folder / result), str(out.absolute()),
            )  # fmt: skip
            with teller.doing(f"{who}, ranges {', '.join(map(str, ranges_s))} s"):
                found = in_child(task)
            for range_s, seconds in found.seconds.items():
                teller.done(f"{who}, range {range_s} s", options.events, "events", min(seconds))
            return found

        ours = contest(MILLPOND, events, (options.range_s,), options.repeat, "ours")
        theirs = contest(SPARK, events, (options.range_s,), options.repeat, "theirs")
        with teller.doing("comparing the windows of both, row by row"):
            windows = check(folder / "ours", folder / "theirs")
        overlaps = contest(MILLPOND, spread, options.overlaps, options.repeat, "overlaps")
    mine, other = ours.seconds[str(options.range_s)], theirs.seconds[str(options.range_s)]
    rates = {overlap: rate(options.events, seconds) for overlap, seconds in overlaps.seconds.items()}
    return {
        "benchmark": "sliding",
        "millpond": rate(options.events, mine),
        "spark_window": rate(options.events, other),
        "vs_spark_window": ratio(rate(options.events, mine), rate(options.events, other)),
        "memory_vs_spark_window": ratio(ours.peak_mb, theirs.peak_mb),
        "added_memory_vs_spark_window": ratio(ours.peak_mb - ours.idle_mb, max(theirs.peak_mb - theirs.idle_mb, 0.1)),
        "overlap_ratio": ratio(max(rates.values()), min(rates.values())),
        "windows": windows,
        "checked": True,
        "unit": "events/s, fastest turn of each, results to nowhere",
        "excluded": EXCLUDED,
        "memory": "MB of driver, JVM and Python workers together, shared pages once; idle is after the warm-up",
        "millpond_mb": {"idle": ours.idle_mb, "peak": ours.peak_mb},
        "spark_window_mb": {"idle": theirs.idle_mb, "peak": theirs.peak_mb},
        "millpond_seconds": rounded(mine),
        "spark_window_seconds": rounded(other),
        "rates_by_overlap": rates,
        "charts": _draw(options, rates),
        "settings": asdict(options),
    }


def in_child(task: Task) -> Found:
    """Let a process of its own perform a task."""
    done = subprocess.run([sys.executable, *task.arguments()], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"{task.who} ended with {done.returncode}; see {task.out}/sliding-{task.who}.spark.log")
    return Found(**json.loads(done.stdout.strip().splitlines()[-1]))


def check(ours: Path, theirs: Path) -> int:
    """Refuse the run unless both results have the same rows; how many there are."""
    by = [(name, "ascending") for name in ("key", "window_begin")]
    mine, other = (pq.read_table(folder).sort_by(by) for folder in (ours, theirs))
    other = other.cast(mine.schema)
    if not len(mine) or not mine.equals(other):
        raise BenchmarkError(f"Millpond has {len(mine):,} windows, Spark {len(other):,}, and they are not the same")
    return len(mine)


def _inputs(options: Options, out: Path) -> tuple[Path, Path, Path]:
    (events,) = timed_events(options.events, options.keys, options.seconds, options.seed, out)
    few = min(WARM_UP_EVENTS, options.events)
    (warm_up,) = timed_events(few, options.keys, max(1, options.seconds // 10), options.seed, out)
    (spread,) = timed_events(options.events, OVERLAP_KEYS, OVERLAP_SECONDS, options.seed, out)
    return events, warm_up, spread


def _draw(options: Options, rates: dict[str, float]) -> list[str]:
    if not options.svg:
        return []
    points = [(math.log10(int(overlap)), each) for overlap, each in rates.items()]
    title = "Sliding sums: events a second by overlap"
    named = {math.log10(int(overlap)): f"{int(overlap):,}" for overlap in rates}
    chart = line_chart(title, "windows that an event is in", "events/s", {"Millpond": points}, even=True, named=named)
    return write_charts(options.svg, {CHART: chart})
