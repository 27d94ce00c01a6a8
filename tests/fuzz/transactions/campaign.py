"""Many transactional programs, each from a seed of its own; failures are made small and told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from millpond.clock import SystemClock
from tests.fuzz.campaign import PROGRESS_EVERY, Report, run_one
from tests.fuzz.compare import Outcome
from tests.fuzz.dice import derive
from tests.fuzz.shrink import Case, shrink
from tests.fuzz.transactions.compare import Told, compare
from tests.fuzz.transactions.grammar import generate
from tests.fuzz.transactions.rows import random_rows
from tests.fuzz.transactions.worlds import WORLDS

WORLD_ROWS: Final = 60

Say = Callable[[str], None]


class TransactionCase(Case):
    """A program, its rows and a seed, compared with the truth of all-or-nothing rows."""

    __slots__ = ()

    def run(self) -> Outcome:
        """Compare."""
        return compare(self.text, self.rows, self.seed)


@dataclass(slots=True)
class TransactionReport(Report):
    """What a campaign has found; `gathered` counts entry points, `aborted` rows."""

    gathered: int = 0
    aborted: int = 0
    programs_gathered: int = 0
    refusals: dict[str, list[int]] = field(default_factory=dict)

    def take(self, number: int, outcome: Outcome) -> None:
        """Count one program."""
        Report.take(self, number, outcome)
        if isinstance(outcome, Told):
            self.gathered += outcome.gathered
            self.programs_gathered += outcome.gathered > 0
            self.aborted += outcome.aborted

    def as_json(self) -> dict[str, Any]:
        """The report as plain data."""
        more = {
            "programs_gathered": self.programs_gathered,
            "entries_gathered": self.gathered,
            "aborted": self.aborted,
        }
        return Report.as_json(self) | more


def case_of(seed: int, number: int) -> TransactionCase:
    """One program of a campaign; it does not depend on the others."""
    program = generate(derive(seed, number, "program"))
    rows = random_rows(program.entries, derive(seed, number, "rows"))
    return TransactionCase(program.text, tuple(rows), derive(seed, number, "run"))


def world_case(name: str, seed: int, rows: int = WORLD_ROWS) -> TransactionCase:
    """A program as users write it, with random rows."""
    world = WORLDS[name]
    text = Path(str(world.__file__)).read_text(encoding="utf-8")
    return TransactionCase(text, tuple(world.make_rows(derive(seed, name), rows)), derive(seed, name, "run"))


def run(seed: int, count: int, say: Say, seconds: float | None = None, start: int = 0) -> TransactionReport:
    """Compare programs of a seed, from a number on; it stops early after `seconds`, if given."""
    clock = SystemClock()
    begun = clock.ticks()
    report = TransactionReport(seed)
    for number in range(start, start + count):
        outcome = run_one(case_of(seed, number))
        report.take(number, outcome)
        report.seconds = clock.ticks() - begun
        if outcome.failed:
            say(told(case_of(seed, number), f"program {number} of seed {seed}"))
        if report.programs % PROGRESS_EVERY == 0:
            say(str(report.as_json()))
        if seconds is not None and report.seconds > seconds:
            break
    return report


def told(whole: Case, name: str) -> str:
    """A failure for people: the small program, its rows, what was expected and what was found."""
    case, outcome = shrink(whole, lambda smaller: run_one(TransactionCase(smaller.text, smaller.rows, smaller.seed)))
    rows = "\n".join(f"  {row!r}" for row in case.rows)
    return (
        f"{name}: {outcome.verdict.value}, {outcome.what} {outcome.code}\n"
        f"--- as generated\n{whole.text}\n--- small\n{case.text}\n--- rows (run seed {case.seed})\n{rows}\n"
        f"--- expected\n{outcome.expected}\n--- found\n{outcome.found}\n"
    )
