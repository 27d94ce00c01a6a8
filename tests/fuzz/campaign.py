"""Many random programs, each from a seed of its own, over several processes."""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from millpond.clock import SystemClock
from tests.fuzz.compare import Outcome, Verdict
from tests.fuzz.dice import derive
from tests.fuzz.grammar import USUAL, Knobs, generate
from tests.fuzz.rows import random_rows
from tests.fuzz.shrink import Case, shrink

PROGRAM_SECONDS_MAX = 60
"""A comparison that works longer is reported: something does not end. Waiting for the processor does not count."""

WAITED_TIMES_MAX = 20
"""It is reported as well if it takes so many times longer by the clock: something waits for ever."""

PROGRESS_EVERY = 100

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Campaign:
    """Which programs: how many, from which seed, and of which kind; it stops early after `seconds`, if given."""

    seed: int
    count: int
    seconds: float | None = None
    workers: int = 1
    knobs: Knobs = USUAL


@dataclass(slots=True)
class Report:
    """What a campaign has found."""

    seed: int
    programs: int = 0
    refused: int = 0
    mismatches: int = 0
    crashes: int = 0
    raised: int = 0
    rows: int = 0
    seconds: float = 0.0
    refused_by_code: Counter[str] = field(default_factory=Counter)
    failures: list[int] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether a graph was wrong, or the compiler failed instead of refusing."""
        return bool(self.failures)

    def take(self, number: int, outcome: Outcome) -> None:
        """Count one program."""
        self.programs += 1
        self.rows += outcome.rows
        self.raised += outcome.raised
        if outcome.verdict is Verdict.REFUSED:
            self.refused += 1
            self.refused_by_code[outcome.code] += 1
        self.mismatches += outcome.verdict is Verdict.MISMATCH
        self.crashes += outcome.verdict is Verdict.CRASH
        if outcome.failed:
            self.failures.append(number)

    def as_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "programs": self.programs,
            "refused": self.refused,
            "mismatches": self.mismatches,
            "seed": self.seed,
            "crashes": self.crashes,
            "refused_by_code": dict(sorted(self.refused_by_code.items())),
            "refusal_rate": round(self.refused / max(1, self.programs), 4),
            "raised": self.raised,
            "rows": self.rows,
            "failures": self.failures,
            "seconds": round(self.seconds, 1),
        }


def case_of(seed: int, number: int, knobs: Knobs = USUAL) -> Case:
    """One program of a campaign; it does not depend on the others."""
    program = generate(derive(seed, number, "program"), knobs)
    rows = random_rows(program.entries, derive(seed, number, "rows"))
    return Case(program.text, tuple(rows), derive(seed, number, "run"))


def run_one(case: Case, seconds: int = PROGRAM_SECONDS_MAX) -> Outcome:
    """Compare; a run that does not end, and a fault of the comparison itself, count as crashes."""
    try:
        with _limit(seconds):
            return case.run()
    except TimeoutError:
        return Outcome(Verdict.CRASH, "timeout", "the run does not end", f"at most {seconds} s")
    except Exception as error:  # noqa: BLE001
        return Outcome(Verdict.CRASH, type(error).__name__, "the comparison failed", found=repr(error))


def run(campaign: Campaign, say: Say) -> Report:
    """Run a campaign; failures are told as they are found, shrunk."""
    clock = SystemClock()
    start = clock.ticks()
    report = Report(campaign.seed)
    for number, outcome in _outcomes(campaign):
        report.take(number, outcome)
        report.seconds = clock.ticks() - start
        if outcome.failed:
            say(f"program {number}: {outcome.verdict.value}, {outcome.what} {outcome.code}; looking for a small one")
            say(told(campaign, number))
        if report.programs % PROGRESS_EVERY == 0:
            say(_progress(report))
        if campaign.seconds is not None and report.seconds > campaign.seconds:
            break
    return report


def told(campaign: Campaign, number: int) -> str:
    """A failure for people: how to repeat it, the small program, its rows, what was expected and what was found.

    One that did not fail again, as what hangs on time may, is told as what it was when it was repeated.
    """
    whole = case_of(campaign.seed, number, campaign.knobs)
    case, outcome = shrink(whole, run_one)
    rows = "\n".join(f"  {row!r}" for row in case.rows)
    return (
        f"program {number} of seed {campaign.seed}: {outcome.verdict.value}, {outcome.what} {outcome.code}\n"
        f"repeat with: python -m tests.fuzz.programs --seed {campaign.seed} --only {number}\n"
        f"--- as generated\n{whole.text}\n--- small\n{case.text}\n--- rows (run seed {case.seed})\n{rows}\n"
        f"--- expected\n{outcome.expected}\n--- found\n{outcome.found}\n"
    )


def _progress(report: Report) -> str:
    rate = report.programs / max(report.seconds, 0.001)
    return (
        f"{report.programs} programs, {report.refused} refused, {report.mismatches} mismatches, "
        f"{report.crashes} crashes, {rate:.1f} per second"
    )


def _outcomes(campaign: Campaign) -> Iterator[tuple[int, Outcome]]:
    jobs = ((campaign.seed, number, campaign.knobs) for number in range(campaign.count))
    if campaign.workers <= 1:
        yield from map(_job, jobs)
        return
    # Spawned, because threads of Arrow do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with context.Pool(campaign.workers) as pool:
        yield from pool.imap_unordered(_job, jobs, chunksize=4)


def _job(job: tuple[int, int, Knobs]) -> tuple[int, Outcome]:
    seed, number, knobs = job
    return number, run_one(case_of(seed, number, knobs))


@contextmanager
def _limit(seconds: int) -> Iterator[None]:
    """Raise TimeoutError when the time is over; only the main thread of a process can be stopped so."""

    def stop(*_: object) -> None:
        raise TimeoutError

    timers = ((signal.SIGPROF, signal.ITIMER_PROF, 1), (signal.SIGALRM, signal.ITIMER_REAL, WAITED_TIMES_MAX))
    before = [signal.signal(number, stop) for number, _, _ in timers]
    for _, timer, times in timers:
        signal.setitimer(timer, seconds * times)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)
