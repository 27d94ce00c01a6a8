"""The campaign's command line: `python -m tests.fuzz.programs --count N --seed S` prints JSON last."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from tests.fuzz.campaign import Campaign, Report, case_of, run, run_one, told


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign; 1 if a graph was wrong or the compiler failed, else 0."""
    options = _parser().parse_args(arguments)
    campaign = Campaign(options.seed, options.count, options.seconds, options.workers)
    report = _only(campaign, options.only) if options.only is not None else run(campaign, _say)
    _say(json.dumps(report.as_json()))
    return int(report.failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.programs",
        description="Random programs as plain Python and as compiled graphs: the same replies, the same state.",
    )
    parser.add_argument("--count", type=int, default=200, help="how many programs")
    parser.add_argument("--seed", type=int, default=1, help="of the whole campaign")
    parser.add_argument("--workers", type=int, default=1, help="how many processes")
    parser.add_argument("--seconds", type=float, default=None, help="stop after this time")
    parser.add_argument("--only", type=int, default=None, metavar="NUMBER", help="run one program, and show it")
    return parser


def _only(campaign: Campaign, number: int) -> Report:
    case = case_of(campaign.seed, number, campaign.knobs)
    outcome = run_one(case)
    report = Report(campaign.seed)
    report.take(number, outcome)
    _say(told(campaign, number) if outcome.failed else f"{case.text}\n{outcome.verdict.value} {outcome.found}")
    return report


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
