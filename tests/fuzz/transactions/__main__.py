"""The campaign's command line: `python -m tests.fuzz.transactions --count N --seed S` prints JSON last."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from tests.fuzz.transactions.campaign import case_of, run, told


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign; 1 if a run differed from plain Python or the compiler failed, else 0."""
    options = _parser().parse_args(arguments)
    if options.only is not None:
        return _only(options.seed, options.only)
    report = run(options.seed, options.count, _say, options.seconds, options.start)
    _say(json.dumps(report.as_json()))
    return int(report.failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.transactions",
        description="Random transactional programs as plain Python and on many partitions: the same replies and state.",
    )
    parser.add_argument("--count", type=int, default=200, help="how many programs")
    parser.add_argument("--start", type=int, default=0, help="the number of the first one")
    parser.add_argument("--seed", type=int, default=1, help="of the whole campaign")
    parser.add_argument("--seconds", type=float, default=None, help="stop after this time")
    parser.add_argument("--only", type=int, default=None, metavar="NUMBER", help="run one program, and show it")
    return parser


def _only(seed: int, number: int) -> int:
    case = case_of(seed, number)
    outcome = case.run()
    name = f"program {number} of seed {seed}"
    _say(told(case, name) if outcome.failed else f"{case.text}\n{outcome.verdict.value} {outcome.found}")
    return int(outcome.failed)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
