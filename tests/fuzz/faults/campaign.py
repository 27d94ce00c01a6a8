"""Many runs with faults, each from a seed of its own."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from millpond.clock import SystemClock
from tests.fuzz.dice import derive
from tests.fuzz.faults.run import Ended, run_seed

PROGRESS_EVERY: Final = 500

Say = Callable[[str], None]


@dataclass(slots=True)
class Report:
    """What a campaign has seen; `failures` are the numbers of runs that ended wrong."""

    seed: int
    runs: int = 0
    deaths: int = 0
    drivers: int = 0
    seconds: float = 0.0
    fired: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    programs: Counter[str] = field(default_factory=Counter)
    storages: Counter[str] = field(default_factory=Counter)
    levels: Counter[str] = field(default_factory=Counter)
    failures: list[int] = field(default_factory=list)

    def take(self, number: int, ended: Ended) -> None:
        """Count one run."""
        self.runs += 1
        self.deaths += ended.deaths
        self.drivers += ended.drivers
        self.fired.update(ended.fired)
        self.codes.update(ended.codes)
        self.programs[ended.program] += 1
        self.storages[ended.storage] += 1
        self.levels[ended.level] += 1
        if ended.wrong:
            self.failures.append(number)

    def as_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "runs": self.runs,
            "failures": self.failures,
            "seed": self.seed,
            "faults": sum(self.fired.values()),
            "sites": len(self.fired),
            "deaths": self.deaths,
            "drivers": self.drivers,
            "codes": dict(sorted(self.codes.items())),
            "programs": dict(sorted(self.programs.items())),
            "storages": dict(sorted(self.storages.items())),
            "levels": dict(sorted(self.levels.items())),
            "seconds": round(self.seconds, 1),
        }


def told(seed: int) -> Ended:
    """Run one seed; an exception that nobody expected is an end like others, and a wrong one."""
    try:
        return run_seed(seed)
    except Exception:  # noqa: BLE001
        return Ended(wrong=traceback.format_exc()[-3000:])


def run(seed: int, count: int, say: Say, start: int = 0) -> Report:
    """Run so many seeds of a campaign, from a number on; what ends wrong is told at once."""
    clock = SystemClock()
    begun = clock.ticks()
    report = Report(seed)
    for number in range(start, start + count):
        ended = told(derive(seed, number))
        report.take(number, ended)
        report.seconds = clock.ticks() - begun
        if ended.wrong:
            say(f"run {number} of seed {seed} ({ended.program}, {ended.storage}, {ended.level}): {ended.wrong}")
        if report.runs % PROGRESS_EVERY == 0:
            say(str(report.as_json()))
    return report
