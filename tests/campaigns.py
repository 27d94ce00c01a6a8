"""Many generated cases, each from a number of its own, over several processes: what the command lines of campaigns do.

A failure is told with the command that repeats it and the smallest case that was found; the last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple, Protocol

from tests.fuzz.campaign import run_one
from tests.fuzz.compare import Outcome
from tests.fuzz.shrink import Case, shrink

PROGRESS_EVERY = 500
SHRUNK_MAX = 10
"""Failures that are made small; a fault that shows in a thousand cases needs no thousand small ones."""
SHRINK_TRIES = 400


class Tried(Protocol):
    """A case that can be run, and that is able to look for a smaller one which fails alike."""

    def run(self) -> Outcome:
        """Compare."""

    def small(self) -> tuple[Tried, Outcome]:
        """The smallest case that was found."""

    def told(self) -> str:
        """The case for people."""


class Made(NamedTuple):
    """A case, and the features that it shows."""

    case: Tried
    features: frozenset[str] = frozenset()


Make = Callable[[int, int], Made]
"""A case out of the seed of a campaign and a number; workers import it by its name."""


class Program(Case):
    """A program with rows, made smaller by leaving out parts of both."""

    def small(self) -> tuple[Tried, Outcome]:
        """Shrink."""
        kind = type(self)
        case, outcome = shrink(self, lambda one: run_one(kind(one.text, one.rows, one.seed)), tries=SHRINK_TRIES)
        return kind(case.text, case.rows, case.seed), outcome

    def told(self) -> str:
        """Its text and its rows."""
        rows = "\n".join(f"  {row!r}" for row in self.rows)
        return f"--- small\n{self.text}\n--- rows (run seed {self.seed})\n{rows}"


def parser_of(command: str, about: str) -> argparse.ArgumentParser:
    """The options that every campaign has."""
    parser = argparse.ArgumentParser(prog=f"python -m {command}", description=about)
    parser.add_argument("--count", type=int, default=200, help="how many cases")
    parser.add_argument("--seed", type=int, default=1, help="of the whole campaign")
    parser.add_argument("--workers", type=int, default=1, help="how many processes")
    parser.add_argument("--only", type=int, default=None, metavar="NUMBER", help="one case, by its number")
    return parser


def run(options: argparse.Namespace, make: Make, again: str) -> int:
    """Run a campaign; 1 if a case ended otherwise than its oracle says, else 0. `again` is what repeats one of them."""
    numbers = [options.only] if options.only is not None else range(options.count)
    verdicts: Counter[str] = Counter()
    shown: Counter[str] = Counter()
    failed: list[int] = []
    for many, (number, features, outcome) in enumerate(_outcomes(options, numbers, make), 1):
        verdicts[f"{outcome.verdict.value} {outcome.code}".strip()] += 1
        shown.update(features)
        if outcome.failed:
            failed.append(number)
            if len(failed) <= SHRUNK_MAX:
                _say(_told(options.seed, number, make, again))
        if many % PROGRESS_EVERY == 0:
            _say(f"{many} cases: {dict(verdicts)}")
    _say(json.dumps({"seed": options.seed, "verdicts": verdicts, "failures": failed, "features": shown}))
    return int(bool(failed))


def _outcomes(
    options: argparse.Namespace, numbers: Iterable[int], make: Make
) -> Iterator[tuple[int, frozenset[str], Outcome]]:
    job = partial(_job, make, options.seed)
    if options.workers <= 1:
        yield from map(job, numbers)
        return
    # Spawned, because threads of Arrow do not survive a fork.
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        yield from pool.imap_unordered(job, numbers, chunksize=8)


def _job(make: Make, seed: int, number: int) -> tuple[int, frozenset[str], Outcome]:
    case, features = make(seed, number)
    return number, features, run_one(case)


def _told(seed: int, number: int, make: Make, again: str) -> str:
    case, outcome = make(seed, number).case.small()
    return (
        f"case {number} of seed {seed}: {outcome.verdict.value}, {outcome.what} {outcome.code}\n"
        f"repeat with: {again} --seed {seed} --only {number}\n"
        f"{case.told()}\n--- expected\n{outcome.expected}\n--- found\n{outcome.found}\n"
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
