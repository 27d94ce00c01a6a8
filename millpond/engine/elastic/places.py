"""Which executor a partition is on: the one that has its state, unless that is gone or has far more to do than others.

Rows say what a partition has to do wherever it is; the seconds that it takes also depend on the executor. So partitions
change places by their rows, and only if seconds say the same of the executor: one that is slow has few rows on purpose,
or has as many as others and would keep them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from millpond.engine.elastic.observed import Floats, Observed
from millpond.engine.elastic.speeds import usual_rows

REPORTS = 3
"""The median of so many epochs is what partitions have to do: one that is out of line does not change it."""

IGNORED_S = 0.05
"""Epochs whose longest task is shorter than this are not looked at."""

UNEVEN = 1.4
"""Partitions change places if an executor has so many times as much to do as others, on average."""

WORTH = 0.9
"""And if the highest load of an executor becomes this much of what it was, or less."""

STEP = 0.05
"""A change of places takes this much of the mean load from the executor: for less, no state moves."""


class Loads(NamedTuple):
    """What partitions have to do, of late: rows, and seconds where they are."""

    rows: Sequence[float]
    seconds: Sequence[float]


@dataclass(slots=True)
class PartitionLoads:
    """Learns from epochs what partitions have to do, as long as their key groups stay the same."""

    _recent: deque[tuple[Floats, Floats]] = field(default_factory=lambda: deque(maxlen=REPORTS))

    def learn(self, seen: Observed) -> None:
        """Take an epoch."""
        if max(seen.seconds, default=0.0) >= IGNORED_S:
            self._recent.append((usual_rows(seen), np.array(seen.seconds)))

    def of_late(self, partitions: int) -> Loads | None:
        """Return what so many partitions have to do; None if too few epochs have shown it."""
        if len(self._recent) < REPORTS or any(len(rows) != partitions for rows, _ in self._recent):
            return None
        rows, seconds = np.median(np.array(self._recent), axis=0).tolist()
        return Loads(rows, seconds)


def keep_places(wanted: Sequence[str], offered: Sequence[str], rows: Sequence[float]) -> list[int]:
    """For each partition one of the places that are offered, on the executor that it wants wherever there is one left.

    The others are dealt out, those with the most rows first, each to the executor that has the fewest then.
    """
    assert len(wanted) == len(offered), (len(wanted), len(offered))
    free: dict[str, list[int]] = {}
    for at, place in enumerate(offered):
        free.setdefault(place, []).append(at)
    chosen: dict[int, int] = {}
    held: dict[str, float] = defaultdict(float)
    for number, place in enumerate(wanted):
        if free.get(place):
            chosen[number] = free[place].pop(0)
            held[place] += rows[number]
    for number in sorted(set(range(len(wanted))) - set(chosen), key=lambda number: (-rows[number], number)):
        place = min((place for place, left in free.items() if left), key=lambda place: (held[place], place))
        chosen[number] = free[place].pop(0)
        held[place] += rows[number]
    return [chosen[number] for number in range(len(wanted))]


def relieved(places: Sequence[str], loads: Loads) -> list[int]:
    """For each partition the one whose place it takes: its own, unless an executor has far too much to do.

    Two partitions change places at a time, so every executor has as many as before.
    """
    stay = list(range(len(places)))
    before = _held(places, loads.rows)
    fullest = max(before, key=lambda place: (before[place], place))
    if min(_share(before, fullest), _share(_held(places, loads.seconds), fullest)) <= UNEVEN:
        return stay
    now, order = list(places), list(stay)
    while (swap := _swap(now, loads.rows)) is not None:
        one, other = swap
        now[one], now[other] = now[other], now[one]
        order[one], order[other] = order[other], order[one]
    return order if max(_held(now, loads.rows).values()) <= WORTH * before[fullest] else stay


def _held(places: Sequence[str], loads: Sequence[float]) -> Mapping[str, float]:
    held: dict[str, float] = defaultdict(float)
    for place, load in zip(places, loads, strict=True):
        held[place] += load
    return held


def _share(held: Mapping[str, float], place: str) -> float:
    total = sum(held.values())
    return held[place] * len(held) / total if total else 1.0


def _swap(places: Sequence[str], rows: Sequence[float]) -> tuple[int, int] | None:
    """Find a partition of the fullest executor and one of another whose exchange makes these two the most even."""
    held = _held(places, rows)
    donor = max(held, key=lambda place: (held[place], place))
    step = STEP * sum(held.values()) / len(held)
    for receiver in sorted(held, key=lambda place: (held[place], place)):
        gap = held[donor] - held[receiver]
        pairs = [
            (abs(gap - 2 * (rows[one] - rows[other])), one, other)
            for one in range(len(places))
            for other in range(len(places))
            if places[one] == donor and places[other] == receiver and step < rows[one] - rows[other] < gap - step
        ]
        if pairs:
            return min(pairs)[1:]
    return None
