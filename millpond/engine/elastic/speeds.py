"""How fast executors are: what a row costs each of them, apart from what a task costs whatever its rows.

A task takes `cost * (rows + fixed)` seconds. `cost` is the executor's, and changes with it. `fixed` is what a task
costs without rows, as a number of rows. It is the same everywhere, since an executor that is slow is so at both. It
shows when an executor has more or fewer rows than shortly before: the seconds change less than the rows do.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from millpond.engine.elastic.observed import Floats, Observed, TaskLoad

SAME_SPEED = 1.3
"""Executors that differ by less than this are taken for equally fast."""

CHANGED = 1.25
"""Two epochs tell something of the fixed cost if their rows differ by this factor: below it, noise is louder."""

PAIRS_MAX = 256
"""So many pairs of epochs are remembered."""

CANDIDATES = np.array([0.0, *(2 ** (step / 2) for step in range(-12, 13))])
"""Fixed costs that are tried, by the rows of a task: none, and from a 64th of the rows to 64 times as many."""

UNKNOWN = (0.0, 1e15)
"""As long as rows have not changed, the fixed cost may be nothing, or all there is."""


class Spent(NamedTuple):
    """What a task of one executor had to do and took in an epoch, on average."""

    rows: float
    seconds: float


@dataclass(slots=True)
class Speeds:
    """Learns from epochs, and compares each with so many `reports` before it: in so short a time, speeds stay."""

    reports: int
    _now: dict[str, Spent] = field(default_factory=dict)
    _recent: dict[str, deque[Spent]] = field(default_factory=dict)
    _pairs: deque[tuple[Spent, Spent]] = field(default_factory=lambda: deque(maxlen=PAIRS_MAX))
    _fixed: tuple[float, ...] = UNKNOWN

    def learn(self, seen: Observed) -> None:
        """Take an epoch; forget executors that are gone."""
        self._now = _spent(seen)
        for gone in self._recent.keys() - set(seen.places):
            del self._recent[gone]
        for place, now in self._now.items():
            recent = self._recent.setdefault(place, deque(maxlen=self.reports))
            self._pairs.extend((then, now) for then in recent if _changed(then.rows, now.rows))
            recent.append(now)
        if self._pairs:
            self._fixed = (fixed_rows(self._pairs),)

    def now(self, places: Sequence[str]) -> list[float]:
        """Get what a row costs each partition by the last epoch alone, by the executor it is on; 1 is as with most."""
        return self._costs(places, {place: [spent] for place, spent in self._now.items()})

    def of_late(self, places: Sequence[str]) -> list[float]:
        """Return the same by the median of the last reports, which one that is out of line does not change."""
        return self._costs(places, self._recent)

    def _costs(self, places: Sequence[str], known: Mapping[str, Iterable[Spent]]) -> list[float]:
        if len(known) < 2:
            return [1.0] * len(places)
        # Nobody is slow who would not be so whatever the fixed cost is.
        ratios = [min(every) for every in zip(*(_ratios(places, known, fixed) for fixed in self._fixed), strict=True)]
        return [ratio if ratio > SAME_SPEED else 1.0 for ratio in ratios]


def _changed(one: float, other: float) -> bool:
    return max(one, other) > CHANGED * min(one, other)


def _ratios(places: Sequence[str], known: Mapping[str, Iterable[Spent]], fixed: float) -> list[float]:
    costs = {
        place: _middle(spent.seconds / (spent.rows + fixed) for spent in recent) for place, recent in known.items()
    }
    usual = _middle(costs.values())
    return [costs.get(place, usual) / usual for place in places]


def _middle(figures: Iterable[float]) -> float:
    """Return the median, and the lower one of two: else an executor could never be twice as slow as the only other."""
    ordered = sorted(figures)
    return ordered[(len(ordered) - 1) // 2]


def fixed_rows(pairs: Iterable[tuple[Spent, Spent]]) -> float:
    """Return the fixed cost by which seconds changed as they did, from epoch to epoch of one executor.

    The least sum of errors wins, not of their squares: if an executor became slow together with its rows, that is one
    voice among many.
    """
    logs = np.log(np.array(list(pairs)))
    usual = math.exp(float(logs[:, :, 0].mean()))
    expected = np.diff(np.log(np.exp(logs[:, :, :1]) + usual * CANDIDATES), axis=1)[:, 0]
    errors = np.abs(np.diff(logs[:, :, 1:], axis=1)[:, 0] - expected).sum(0)
    return usual * float(CANDIDATES[errors.argmin()])


def _spent(seen: Observed) -> dict[str, Spent]:
    """Return what a task of each executor took, where there was something to do."""
    by_place: dict[str, list[int]] = {}
    for number, place in enumerate(seen.places):
        by_place.setdefault(place, []).append(number)
    usual, seconds = usual_rows(seen), np.array(seen.seconds)
    spent = {place: Spent(float(usual[at].mean()), float(seconds[at].mean())) for place, at in by_place.items()}
    return {place: one for place, one in spent.items() if one.rows > 0 and one.seconds > 0}


def row_s(tasks: Iterable[TaskLoad]) -> float:
    """Return what a row of some tasks took, on average; 0 if that is not known."""
    every = list(tasks)
    rows = sum(task.total_rows for task in every)
    return sum(sum(task.seconds) for task in every) / rows if rows else 0.0


def usual_rows(seen: Observed) -> Floats:
    """Say how many rows each partition was at work on, in rows of the usual length.

    Partitions differ in what they run.
    """
    usual, mean = np.zeros(seen.partitions), row_s(seen.tasks)
    for task in seen.tasks:
        usual += task.worked_by(seen.owners, seen.partitions) * (row_s([task]) / mean if mean else 1.0)
    return usual
