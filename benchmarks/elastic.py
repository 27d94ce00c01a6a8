"""Elastic partitions: a rising load that partitions are added to, and a slow executor that is relieved."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.charts import Points, add_charts, line_chart, write_charts
from benchmarks.data import OUT, work_folder
from benchmarks.options import add_seed, positive, seconds
from benchmarks.report import BenchmarkError, Figures, Teller, ratio, rounded
from benchmarks.rising import Followed, follow, rising
from benchmarks.spark import cluster, session
from benchmarks.straggler import EXECUTORS, THIEVES, Robbed, pin_executors, robbed
from benchmarks.workload import warm_up, write_input
from millpond.engine.elastic import Elastic

NEEDS_SPARK = False
"""It starts its own: one with cores, one with executors."""

MOST = 4
WARM_UP_EPOCHS, WARM_UP_ROWS = 6, 2_000

OVERLOAD = 1.4
"""The largest files have so many times the rows that one partition can work on until the next file comes."""

EPOCHS_MIN = 9

FIXED, ELASTIC = "fixed", "elastic"


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes of a run."""

    epochs: int = 24
    pace: float = 3.0
    rows: int = 8_000
    turns: int = 3_000
    partitions: int = 2
    repeat: int = 3
    seed: int = 1
    svg: str | None = None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen on the command line."""
    defaults = Options()
    for name, what in (
        ("epochs", "epochs of each run"),
        ("rows", "rows of an epoch with the slow executor"),
        ("turns", "turns of a loop for each row"),
        ("partitions", "cores of the session under rising load"),
        ("repeat", "turns of each way"),
    ):
        default = getattr(defaults, name)
        parser.add_argument(f"--{name}", type=positive, default=default, help=f"{what} (default: %(default)s)")
    parser.add_argument(
        "--pace", type=seconds, default=defaults.pace, help="seconds between files under rising load (default: 3)"
    )
    add_charts(parser)
    add_seed(parser)


def read_options(args: argparse.Namespace) -> Options:
    """Make options of what was chosen."""
    if args.epochs < EPOCHS_MIN:
        raise BenchmarkError(f"{args.epochs} epochs are too few to compare thirds of them: take {EPOCHS_MIN} or more")
    return Options(args.epochs, args.pace, args.rows, args.turns, args.partitions, args.repeat, args.seed, args.svg)


def run(options: Options, spark: object, teller: Teller, out: Path = OUT) -> Figures:  # noqa: ARG001 - has its own
    """Measure and check both, each with elastic partitions and without, turn by turn."""
    with work_folder("elastic", out) as folder:
        scaled = _scaled(options, teller, folder / "rising", out)
        relieved = _relieved(options, teller, folder / "slow", out)
    figures = make_figures(options, scaled, relieved)
    figures["charts"] = draw(options, scaled, relieved)
    return figures


def _scaled(options: Options, teller: Teller, folder: Path, out: Path) -> dict[str, list[Followed]]:
    turns: dict[str, list[Followed]] = {FIXED: [], ELASTIC: []}
    teller.say(f"starting Spark with {options.partitions} cores")
    with session("elastic", options.partitions, out) as spark:
        with teller.doing("warm-up"):
            few = write_input(folder / "few", [WARM_UP_ROWS] * WARM_UP_EPOCHS, options.turns, options.seed)
            warm_up(spark, few, folder / "warm-up-most", MOST)
            able = warm_up(spark, few, folder / "warm-up-one", 1)
        teller.say(f"one partition can work on {able:,.0f} rows a second")
        sizes = rising(options.epochs, round(OVERLOAD * able * options.pace))
        given = write_input(folder / "in", sizes, options.turns, options.seed)
        for turn in range(options.repeat):
            for name, elastic in ((FIXED, Elastic(mode="off")), (ELASTIC, Elastic(most=MOST))):
                with teller.doing(f"{options.epochs} files under rising load, {name}, turn {turn + 1}"):
                    told = follow(spark, given, folder / f"{name}-{turn}", 1, elastic, options.pace)
                partitions = " ".join(str(one.partitions) for one in told.commits)
                teller.say(f"{name}: {told.rate:,.0f} rows/s at the end, {told.lag_s:.1f} s behind; {partitions}")
                turns[name].append(told)
    return turns


def _relieved(options: Options, teller: Teller, folder: Path, out: Path) -> dict[str, list[Robbed]]:
    turns: dict[str, list[Robbed]] = {FIXED: [], ELASTIC: []}
    teller.say(f"starting Spark with {EXECUTORS} executors")
    with cluster("elastic", EXECUTORS, out) as spark:
        with teller.doing("warm-up"):
            few = write_input(folder / "few", [WARM_UP_ROWS] * WARM_UP_EPOCHS, options.turns, options.seed)
            warm_up(spark, few, folder / "warm-up", EXECUTORS)
        core = pin_executors()
        given = write_input(folder / "in", [options.rows] * options.epochs, options.turns, options.seed)
        acts = Elastic(least=EXECUTORS, most=EXECUTORS)
        for turn in range(options.repeat):
            for name, elastic in ((FIXED, Elastic(mode="off")), (ELASTIC, acts)):
                with teller.doing(f"{options.epochs} epochs with a slow executor, {name}, turn {turn + 1}"):
                    told = robbed(spark, given, folder / f"{name}-{turn}", elastic, core)
                teller.say(f"{name}: {told.before_s:.2f} s an epoch before the thieves, {told.late_s:.2f} s at the end")
                turns[name].append(told)
    return turns


def make_figures(
    options: Options, scaled: Mapping[str, Sequence[Followed]], relieved: Mapping[str, Sequence[Robbed]]
) -> Figures:
    """Ratios of the medians over all turns, and what they are made of."""
    rates = {name: [one.rate for one in turns] for name, turns in scaled.items()}
    lags = {name: [one.lag_s for one in turns] for name, turns in scaled.items()}
    late = {name: [one.late_s for one in turns] for name, turns in relieved.items()}
    before = {name: [one.before_s for one in turns] for name, turns in relieved.items()}
    stolen = [one.stolen_s for one in relieved[ELASTIC] if one.stolen_s is not None]
    return {
        "benchmark": "elastic",
        "scale_out_ratio": _of_medians(rates[ELASTIC], rates[FIXED]),
        "relief_ratio": _of_medians(late[ELASTIC], late[FIXED]),
        "relieved_by_before": _of_medians(late[ELASTIC], before[ELASTIC]),
        "unrelieved_by_before": _of_medians(late[FIXED], before[FIXED]),
        "lag_seconds_elastic": rounded(lags[ELASTIC]),
        "lag_seconds_fixed": rounded(lags[FIXED]),
        "partitions": [[commit.partitions for commit in one.commits] for one in scaled[ELASTIC]],
        "rows_per_second_elastic": rounded(rates[ELASTIC]),
        "rows_per_second_fixed": rounded(rates[FIXED]),
        "before_seconds": rounded(before[ELASTIC]),
        "stolen_seconds": rounded(stolen),
        "relieved_seconds": rounded(late[ELASTIC]),
        "unrelieved_seconds": rounded(late[FIXED]),
        "relieved_after_epochs": [_after(one) for one in relieved[ELASTIC]],
        "groups_moved": [sum(report.groups_moved for report in one.reports) for one in relieved[ELASTIC]],
        "thieves": THIEVES,
        "checked": True,
        "unit": "scale_out_ratio: rows per second with elastic partitions by those with one, relief_ratio: seconds of "
        "an epoch with moved key groups by those without, both in the last third of the epochs; medians over all turns",
        "excluded": "session start-up and a warm-up run",
        "settings": asdict(options),
    }


def _of_medians(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    return ratio(statistics.median(ours), statistics.median(theirs))


def _after(told: Robbed) -> int | None:
    return None if told.relieved_at is None else told.relieved_at - told.quiet


def draw(
    options: Options, scaled: Mapping[str, Sequence[Followed]], relieved: Mapping[str, Sequence[Robbed]]
) -> list[str]:
    """Write the charts of the last turn; their paths."""
    if not options.svg:
        return []
    rates: dict[str, Points] = {f"{name} partitions": turns[-1].rates() for name, turns in scaled.items()}
    sizes = [commit.rows for commit in scaled[FIXED][-1].commits]
    rates["files come"] = [(at * options.pace, rows / options.pace) for at, rows in enumerate(sizes)]
    epochs: dict[str, Points] = {
        f"{name} owners": [(at, one.seconds) for at, one in enumerate(turns[-1].reports, 1)]
        for name, turns in relieved.items()
    }
    charts = {
        "elastic-rising.svg": line_chart("Rising load", "seconds", "rows per second", rates, even=True),
        "elastic-slow.svg": line_chart("One slow executor", "epoch", "seconds of an epoch", epochs, even=True),
    }
    return write_charts(options.svg, charts)
