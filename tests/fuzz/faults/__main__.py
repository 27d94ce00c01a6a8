"""The command line of runs with faults: `python -m tests.fuzz.faults --count N --seed S` prints JSON last."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from tests.fuzz.dice import derive
from tests.fuzz.faults.campaign import run, told


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign; 1 if any run ended wrong, else 0."""
    options = _parser().parse_args(arguments)
    if options.only is not None:
        return _only(derive(options.seed, options.only))
    report = run(options.seed, options.count, _say, options.start)
    _say(json.dumps(report.as_json()))
    return int(bool(report.failures))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.faults",
        description="Runs in which disks, tasks, sinks and drivers fail: they end as if nothing had happened.",
    )
    parser.add_argument("--count", type=int, default=200, help="how many runs")
    parser.add_argument("--start", type=int, default=0, help="the number of the first one")
    parser.add_argument("--seed", type=int, default=1, help="of the whole campaign")
    parser.add_argument("--only", type=int, default=None, metavar="NUMBER", help="one run, and all that happened in it")
    return parser


def _only(seed: int) -> int:
    ended = told(seed)
    _say(json.dumps({"wrong": ended.wrong, "fired": ended.fired, "codes": ended.codes, "deaths": ended.deaths}))
    return int(bool(ended.wrong))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
