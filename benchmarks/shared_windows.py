"""Shared windows: calls of combine for 1 to 100 queries beside pairs+ and a tree of records; sessions; columns."""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from benchmarks.baselines import pairs_plus, reactive
from benchmarks.baselines.plaintree import PlainFlatFat
from benchmarks.charts import Points, add_charts, line_chart, write_charts
from benchmarks.options import add_seed, positive, positives
from benchmarks.report import BenchmarkError, Figures, Teller, rate, timed
from millpond.windowing import (
    Aggregate,
    Result,
    SharedWindows,
    Window,
    aggregate,
    count_sliding,
    punctuation,
    sliding,
    sum_of,
)
from millpond.windowing.columns.vectorised import ColumnWindows

NEEDS_SPARK = False

RANGE = (20_000, 80_000)
SLIDE = (1_000, 20_000)
GRAIN = 10
"""Ranges and slides are multiples of it, as in the document."""
SENSORS = 20
SECOND = 1_000_000
DISTRIBUTION = "windows_sensors.svg"

Record = tuple[int, int, int]
Technique = Callable[[Aggregate, Mapping[str, Window]], SharedWindows]

TECHNIQUES: dict[str, Technique] = {
    "cutty": partial(SharedWindows, store="eager"),
    "cutty, published tree": partial(SharedWindows, store=PlainFlatFat),
    "cutty on demand": partial(SharedWindows, store="on_demand"),
    "pairs+": pairs_plus,
    "tree of records": reactive,
}


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes; ranges and slides are divided by `scale`, so that few records hold many windows."""

    records: int = 200_000
    queries: tuple[int, ...] = (1, 10, 20, 50, 100)
    scale: int = 1
    events: int = 1_000_000
    seed: int = 1
    svg: str | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """What one technique took for one number of queries."""

    update_calls: int
    merge_calls: int
    partials: int
    slices_max: int
    windows: int
    records_per_second: float

    @property
    def reduce_calls(self) -> int:
        """Calls of combine with slices; records are combined into slices once each by all techniques but the tree."""
        return self.update_calls + self.merge_calls

    @property
    def slices_kept(self) -> int:
        """The most slices at a time, with the running one."""
        return self.slices_max + 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    known = Options()
    parser.add_argument("--records", type=positive, default=known.records, help="records (default: %(default)s)")
    parser.add_argument("--queries", type=positives, default=known.queries, help="numbers of queries, e.g. 1,10,100")
    parser.add_argument("--scale", type=positive, default=1, help="divide ranges and slides by this (default: 1)")
    parser.add_argument(
        "--events", type=positive, default=known.events, help="rows over columns (default: %(default)s)"
    )
    add_charts(parser)
    add_seed(parser)


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    return Options(args.records, args.queries, args.scale, args.events, args.seed, args.svg)


def rolling_means() -> Aggregate:
    """The means of three measures, as in the document."""
    return aggregate(
        lift=lambda record: (1, *record),
        combine=lambda a, b: (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]),
        lower=lambda total: (total[1] / total[0], total[2] / total[0], total[3] / total[0]),
        identity=(0, 0, 0, 0),
        name="means",
    )


def make_records(options: Options) -> list[Record]:
    """Three measures of energy per record."""
    numbers = np.random.default_rng(options.seed).integers(0, 10_000, (options.records, 3))
    return [(int(a), int(b), int(c)) for a, b, c in numbers]


def periodic_queries(count: int, options: Options) -> dict[str, Window]:
    """So many count windows with ranges and slides drawn as in the document."""
    dice = random.Random(options.seed * 1000 + count)

    def draw(bounds: tuple[int, int]) -> int:
        return max(1, dice.randrange(bounds[0], bounds[1] + 1, GRAIN) // options.scale)

    return {f"q{number}": count_sliding(draw(RANGE), draw(SLIDE)) for number in range(count)}


def sensor_queries(count: int, options: Options) -> dict[str, Window]:
    """A window per state of a sensor: sensors change every 50 to 20,000 records, most of them seldom."""
    return {f"s{number}": punctuation(_changes(sensor_changes(number, options))) for number in range(count)}


def sensor_changes(number: int, options: Options) -> list[bool]:
    """Whether a sensor changes its state at each record."""
    mean = 50 * 400 ** ((number % SENSORS) / (SENSORS - 1)) / options.scale
    rng = np.random.default_rng((options.seed, number))
    changes: list[bool] = (rng.random(options.records) < 1 / max(mean, 2)).tolist()
    return changes


def _changes(changes: Sequence[bool]) -> Callable[[Any], bool]:
    """A test of records by their number; it is asked about each record but the first, in order."""
    turn = iter(changes[1:])
    return lambda _record: next(turn)


def measure(make: SharedWindows, records: Sequence[Record], sums: Any) -> Cost:
    """Run all records through windows and check every result."""

    def work() -> list[Result]:
        add = make.add
        results: list[Result] = []
        for record in records:
            results += add(record)
        return results

    seconds, results = timed(work)
    for result in results:
        begin, end = result.bounds
        want = tuple(float(total / (end - begin)) for total in (sums[end] - sums[begin]).tolist())
        if result.value != want:
            raise BenchmarkError(f"{result.query} {result.bounds}: {result.value}, not {want}")
    told = make.counters
    if not results or told.windows != len(results):
        raise BenchmarkError(f"{len(results)} windows ended: give more --records, or a larger --scale")
    speed = rate(len(records), [seconds])
    return Cost(told.update_calls, told.merge_calls, told.partials, told.live_slices_max, told.windows, speed)


def compare(
    options: Options,
    teller: Teller,
    counts: Sequence[int],
    techniques: Sequence[str],
    queries: Callable[[int, Options], dict[str, Window]],
) -> dict[str, dict[int, Cost]]:
    """Measure techniques for numbers of queries; all must end the same windows."""
    records = make_records(options)
    sums = np.concatenate((np.zeros((1, 3), np.int64), np.cumsum(np.array(records), axis=0)))
    costs: dict[str, dict[int, Cost]] = {name: {} for name in techniques}
    for count in counts:
        for name in techniques:
            with teller.doing(f"{count} queries, {name}"):
                cost = measure(TECHNIQUES[name](rolling_means(), queries(count, options)), records, sums)
            costs[name][count] = cost
            teller.say(
                f"{count} queries, {name}: {cost.reduce_calls:,} calls, {cost.records_per_second:,.0f} records/s"
            )
        if len({costs[name][count].windows for name in techniques}) != 1:
            raise BenchmarkError(f"{count} queries: techniques ended different numbers of windows")
    return costs


def columns_rate(options: Options, range_s: int, keys: int, seconds: int) -> float:
    """Rows a second of sliding sums over columns, slide 1 s, checked by sums of prefixes."""
    rng = np.random.default_rng(options.seed)
    times = np.sort(rng.integers(0, seconds * SECOND, options.events))
    codes, values = rng.integers(0, keys, options.events), rng.integers(0, 1000, options.events)

    def work() -> Any:
        windows = ColumnWindows(sliding(f"{range_s} s", "1 s"), {"total": sum_of("v")})
        windows.add(codes, times, {"v": values})
        return windows.close(2**60)

    runs = [timed(work) for _ in range(3)]
    closed = runs[0][1]
    for key in range(min(keys, 20)):
        mine, theirs = codes == key, closed.keys == key
        sums = np.concatenate(([0], np.cumsum(values[mine])))
        low, high = (np.searchsorted(times[mine], edges[theirs]) for edges in (closed.begins, closed.ends))
        if not np.array_equal(sums[high] - sums[low], closed.values["total"][theirs]):
            raise BenchmarkError(f"windows of key {key} have other sums")
    return rate(options.events, [seconds for seconds, _ in runs])


def draw(options: Options, periodic: dict[str, dict[int, Cost]], sessions: dict[str, dict[int, Cost]]) -> list[str]:
    """Write the charts; their paths."""
    if not options.svg:
        return []
    charts: dict[str, tuple[str, str, dict[str, Points]]] = {
        "windows_reduce_calls.svg": ("Calls of combine, periodic queries", "calls", _series(periodic, "reduce_calls")),
        "windows_sessions.svg": ("Calls of combine, by sensors", "calls", _series(sessions, "reduce_calls")),
        "windows_sessions_slices.svg": ("Most slices kept, by sensors", "slices", _series(sessions, "slices_kept")),
        "windows_sessions_rate.svg": ("Throughput, by sensors", "records/s", _series(sessions, "records_per_second")),
    }
    drawn = {name: line_chart(title, "queries", up, series) for name, (title, up, series) in charts.items()}
    changes = [(number + 1, max(1, sum(sensor_changes(number, options)))) for number in range(SENSORS)]
    drawn[DISTRIBUTION] = line_chart("How often sensors change", "sensor", "changes", {"sensors": changes})
    return write_charts(options.svg, drawn)


def _series(costs: dict[str, dict[int, Cost]], what: str) -> dict[str, Points]:
    """A line per technique; the heights are logarithms, which have no zero, so 1 stands for it."""
    return {
        kind: [(count, max(1, getattr(cost, what))) for count, cost in each.items()] for kind, each in costs.items()
    }


def run(options: Options, _spark: SparkSession | None, teller: Teller) -> Figures:
    """Measure and check everything."""
    periodic = compare(options, teller, options.queries, list(TECHNIQUES), periodic_queries)
    counts = sorted({min(count, SENSORS) for count in options.queries})
    sessions = compare(options, teller, counts, ["cutty", "tree of records"], sensor_queries)
    with teller.doing("whole columns"):
        speed = columns_rate(options, 100, 1000, 1000)
        narrow, wide = (columns_rate(options, overlap, 20, 50_000) for overlap in (10, 10_000))

    def against(other: str, costs: dict[str, dict[int, Cost]], ours: str = "cutty") -> dict[str, float]:
        mine = costs[ours]
        return {
            str(count): round(cost.reduce_calls / costs[other][count].reduce_calls, 4) for count, cost in mine.items()
        }

    def beside_tree(what: str) -> dict[str, float]:
        ours, tree = sessions["cutty"], sessions["tree of records"]
        return {str(count): round(getattr(cost, what) / getattr(tree[count], what), 5) for count, cost in ours.items()}

    beside_pairs = against("pairs+", periodic)
    return {
        "benchmark": "shared_windows",
        "cutty_vs_pairs_plus": max(beside_pairs.values()),
        "cutty_vs_tree": max(against("tree of records", periodic).values()),
        "sessions_cutty_vs_tree": max(against("tree of records", sessions).values()),
        "sessions_slices_vs_tree": beside_tree("slices_kept"),
        "sessions_rate_vs_tree": beside_tree("records_per_second"),
        "columns_events_per_second": speed,
        "overlap_10_to_10000_slowdown": round(narrow / wide, 3),
        "checked": True,
        "calls_vs_pairs_plus": beside_pairs,
        "calls_vs_pairs_plus_same_tree": against("pairs+", periodic, "cutty, published tree"),
        "periodic": {name: {str(n): asdict(cost) for n, cost in each.items()} for name, each in periodic.items()},
        "sessions": {name: {str(n): asdict(cost) for n, cost in each.items()} for name, each in sessions.items()},
        "charts": draw(options, periodic, sessions),
        "unit": "calls of combine; records or rows a second in one process",
        "settings": asdict(options),
    }
