"""What a benchmark says: progress to standard error, and one JSON object as the last line of standard output."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.table import Table

from millpond.clock import SystemClock

EXCLUDED = "session start-up and a small warm-up run of each contestant"
"""What no contestant's time contains; every report says so."""

Figures = dict[str, object]
"""A report's keys and values; values are plain JSON."""

T = TypeVar("T")

_CLOCK = SystemClock()


class BenchmarkError(Exception):
    """A benchmark that must not print numbers: a wrong result, or something that is missing."""


class Teller:
    """Tells a person what is going on, on standard error."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Show what runs now, for as long as it runs."""
        with self._console.status(what):
            yield

    def done(self, what: str, count: int, unit: str, seconds: float) -> None:
        """Say how fast something went."""
        self._console.print(f"{what}: {count:,} {unit} in {seconds:.2f} s, {count / seconds:,.0f} {unit}/s")

    def say(self, text: str) -> None:
        """Say one line."""
        self._console.print(text)

    def failed(self, error: BenchmarkError) -> None:
        """Say why there are no numbers."""
        self._console.print(f"[bold red]no numbers:[/] {error}", highlight=False)

    def table(self, title: str, figures: Figures) -> None:
        """Show the figures of a report that are numbers."""
        table = Table(title=title, show_header=False)
        for name, value in figures.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                table.add_row(name, f"{value:,}")
        self._console.print(table)


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Run something and tell its seconds; garbage of what ran before is collected first."""
    gc.collect()
    begun = _CLOCK.ticks()
    result = work()
    return _CLOCK.ticks() - begun, result


def rate(count: int, seconds: Sequence[float]) -> float:
    """Return the rate of the fastest run: what else a machine does can only make a run slower."""
    return round(count / min(seconds), 1)


def rounded(seconds: Sequence[float]) -> list[float]:
    """Return times to the millisecond."""
    return [round(each, 3) for each in seconds]


def ratio(ours: float, theirs: float | None) -> float | None:
    """Return ours per theirs; None if they did not run."""
    return None if theirs is None else round(ours / theirs, 4)


def percentiles(values: Sequence[float], of: Sequence[int] = (50, 95, 99)) -> dict[str, float]:
    """Return nearest-rank percentiles as `p50`, ...: each is a value that was measured."""
    ordered = sorted(values)
    return {f"p{part}": round(ordered[max(0, math.ceil(len(ordered) * part / 100) - 1)], 1) for part in of}


def json_line(figures: Mapping[str, object]) -> str:
    """Render a report as one line; refuses one that was not checked."""
    if figures.get("checked") is not True:
        raise BenchmarkError("the results were not checked against the loop's")
    return json.dumps(figures, allow_nan=False)
