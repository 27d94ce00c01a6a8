"""Campaigns of whole programs that have oracles of their own: relaxed entry points, and windows that feed windows."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from millpond.errors import ProgramError
from tests.campaigns import SHRINK_TRIES, Made, Make, Program, Tried, parser_of, run
from tests.fuzz.campaign import run_one
from tests.fuzz.compare import Outcome, Verdict
from tests.fuzz.dice import derive
from tests.property.chained import Spec, text_of
from tests.property.relaxed_programs import Maker
from tests.property.test_relaxed import compare as compare_relaxed
from tests.property.test_windows_chained import check_case, made_of


class Relaxed(Program):
    """A relaxed program, judged by an interpreter of its source."""

    def run(self) -> Outcome:
        """Compare."""
        return compare_relaxed(self.text, self.rows, self.seed)


@dataclass(frozen=True)
class Chained:
    """Windows and timers that feed each other, judged by the definition of windows."""

    spec: Spec
    rows: tuple[tuple[int, str, int], ...]
    seed: int

    def run(self) -> Outcome:
        """Compare."""
        try:
            check_case(self.spec, list(self.rows), random.Random(self.seed))
        except ProgramError as refused:
            return Outcome(Verdict.REFUSED, refused.code, found=str(refused))
        except AssertionError as error:
            return Outcome(Verdict.MISMATCH, what="what handlers are told", found=str(error))
        return Outcome(Verdict.SAME, rows=len(self.rows))

    def small(self) -> tuple[Tried, Outcome]:
        """Leave out rows and nodes as long as it fails alike."""
        case, outcome, left = self, run_one(self), SHRINK_TRIES
        while outcome.failed and left > 0:
            for smaller in case._smaller():
                left -= 1
                found = run_one(smaller)
                if (found.verdict, found.code) == (outcome.verdict, outcome.code):
                    case, outcome = smaller, found
                    break
                if left <= 0:
                    break
            else:
                break
        return case, outcome

    def told(self) -> str:
        """Its text and its rows."""
        rows = "\n".join(f"  {row!r}" for row in self.rows)
        return f"--- small\n{text_of(self.spec)}\n{self.spec}\n--- rows (cuts by seed {self.seed})\n{rows}"

    def _smaller(self) -> Iterator[Chained]:
        size = len(self.rows) // 2
        while size:
            for at in range(0, len(self.rows), size):
                rest = self.rows[:at] + self.rows[at + size :]
                if rest:
                    yield replace(self, rows=rest)
            size //= 2
        for gone in self.spec.nodes:
            nodes = [
                replace(one, feeds=tuple(name for name in one.feeds if name != gone.name)) for one in self.spec.nodes
            ]
            kept = tuple(one for one in nodes if one.name != gone.name)
            if any(one.by_rows for one in kept):
                yield replace(self, spec=replace(self.spec, nodes=kept))


def relaxed_of(seed: int, number: int) -> Made:
    """A relaxed program out of a number."""
    own = derive(seed, number, "relaxed")
    text, rows = Maker(own).made()
    return Made(Relaxed(text, tuple(rows), own))


def chained_of(seed: int, number: int) -> Made:
    """Windows that feed windows out of a number."""
    own = derive(seed, number, "chained")
    spec, rows = made_of(own)
    return Made(Chained(spec, tuple(rows), own), frozenset(node.shape[0] for node in spec.nodes))


KINDS: dict[str, Make] = {"relaxed": relaxed_of, "chained": chained_of}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign of one kind."""
    parser = parser_of("tests.property", "Random programs with oracles of their own.")
    parser.add_argument("kind", choices=KINDS)
    options = parser.parse_args(arguments)
    return run(options, KINDS[options.kind], f"python -m tests.property {options.kind}")
