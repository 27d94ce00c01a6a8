"""Many programs about shared objects, each from a seed of its own, over several processes."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from millpond.testing.campaign import run_one
from millpond.testing.compare import Outcome
from millpond.testing.shrink import Case, shrink
from tests.values.compare import compare
from tests.values.grammar import generate
from tests.values.pieces import FEATURES

PROGRESS_EVERY = 500
SHRUNK_MAX = 10
"""Failures that are made small; a fault that shows in a thousand programs needs no thousand small ones."""


class Values(Case):
    """A case that is judged by the oracle of values."""

    def run(self) -> Outcome:
        """Compare."""
        return compare(self.text, self.rows, self.seed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign; 1 if a program ended otherwise than the oracle says, else 0."""
    options = _parser().parse_args(arguments)
    features = tuple(options.features.split(",")) if options.features else FEATURES
    numbers = [options.only] if options.only is not None else range(options.count)
    verdicts: Counter[str] = Counter()
    shown: Counter[str] = Counter()
    failed: list[int] = []
    for many, (number, used, outcome) in enumerate(_outcomes(options, numbers, features), 1):
        verdicts[f"{outcome.verdict.value} {outcome.code}".strip()] += 1
        shown.update(used)
        if outcome.failed:
            failed.append(number)
            if len(failed) <= SHRUNK_MAX:
                _say(_told(options.seed, number, features))
        if many % PROGRESS_EVERY == 0:
            _say(f"{many} programs: {dict(verdicts)}")
    _say(json.dumps({"seed": options.seed, "verdicts": verdicts, "failures": failed, "features": shown}))
    return int(bool(failed))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.values", description="Random programs about shared objects.")
    parser.add_argument("--count", type=int, default=200, help="how many programs")
    parser.add_argument("--seed", type=int, default=1, help="of the whole campaign")
    parser.add_argument("--workers", type=int, default=1, help="how many processes")
    parser.add_argument("--only", type=int, default=None, metavar="NUMBER", help="one program, by its number")
    parser.add_argument("--features", default="", help="with commas; without it, all")
    return parser


def case_of(seed: int, number: int, features: Sequence[str]) -> tuple[Values, frozenset[str]]:
    """The program of a number, and the features that it shows."""
    made = generate(seed, number, features)
    return Values(made.text, made.rows, made.seed), made.features


def _outcomes(
    options: argparse.Namespace, numbers: Iterable[int], features: Sequence[str]
) -> Iterator[tuple[int, frozenset[str], Outcome]]:
    jobs = ((options.seed, number, features) for number in numbers)
    if options.workers <= 1:
        yield from map(_job, jobs)
        return
    # Spawned, because threads of Arrow do not survive a fork.
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        yield from pool.imap_unordered(_job, jobs, chunksize=8)


def _job(job: tuple[int, int, Sequence[str]]) -> tuple[int, frozenset[str], Outcome]:
    seed, number, features = job
    case, used = case_of(seed, number, features)
    return number, used, run_one(case)


def _told(seed: int, number: int, features: Sequence[str]) -> str:
    whole, _ = case_of(seed, number, features)
    case, outcome = shrink(whole, lambda one: run_one(Values(one.text, one.rows, one.seed)), tries=400)
    rows = "\n".join(f"  {row!r}" for row in case.rows)
    words = "" if tuple(features) == FEATURES else f" --features '{','.join(features)}'"
    return (
        f"program {number} of seed {seed}: {outcome.verdict.value}, {outcome.what} {outcome.code}\n"
        f"repeat with: python -m tests.values --seed {seed} --only {number}{words}\n"
        f"--- small\n{case.text}\n--- rows (run seed {case.seed})\n{rows}\n"
        f"--- expected\n{outcome.expected}\n--- found\n{outcome.found}\n"
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
