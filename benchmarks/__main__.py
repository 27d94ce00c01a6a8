"""`python -m benchmarks NAME [options]`: run one benchmark, check it, and print its figures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from types import ModuleType

from benchmarks import (
    any_method,
    backends,
    compile_time,
    elastic,
    graphs,
    keyed_state,
    large_state,
    latency,
    placement,
    raising_rows,
    recovery,
    restore,
    shared_windows,
    sinks,
    sliding,
    snapshots,
    transfers,
    value_copies,
    word_count,
)
from benchmarks.report import BenchmarkError, Teller, json_line
from benchmarks.spark import session

BENCHMARKS: dict[str, ModuleType] = {
    "keyed_state": keyed_state,
    "word_count": word_count,
    "latency": latency,
    "compile_time": compile_time,
    "value_copies": value_copies,
    "backends": backends,
    "transfers": transfers,
    "any_method": any_method,
    "snapshots": snapshots,
    "large_state": large_state,
    "restore": restore,
    "shared_windows": shared_windows,
    "sliding": sliding,
    "placement": placement,
    "recovery": recovery,
    "raising_rows": raising_rows,
    "elastic": elastic,
    "sinks": sinks,
    "graphs": graphs,
}


def make_parser() -> argparse.ArgumentParser:
    """Declare the benchmarks and their options."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Millpond beside a plain Python loop and Spark's transformWithState, on the same input, checked; "
        "and its compiler beside Python's parser. "
        "The last line of standard output is one JSON object; there is none, and the exit code is 1, if a check fails.",
    )
    names = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for name, module in BENCHMARKS.items():
        described = str(module.__doc__).partition("\n")[0]
        module.add_options(names.add_parser(name, help=described, description=described))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a benchmark; 0 if its figures are printed."""
    args = make_parser().parse_args(argv)
    module = BENCHMARKS[args.name]
    teller = Teller()
    try:
        options = module.read_options(args)
        needs_spark = getattr(module, "NEEDS_SPARK", True)
        if needs_spark:
            teller.say("starting Spark")
        with session(args.name, args.partitions) if needs_spark else nullcontext() as spark:
            figures = module.run(options, spark, teller)
        line = json_line(figures)
    except BenchmarkError as error:
        teller.failed(error)
        return 1
    teller.table(args.name, figures)
    for chart in figures.get("charts", ()):
        teller.say(f"chart: {chart}")
    print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
