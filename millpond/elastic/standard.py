"""The policy that jobs have unless they are given another: partitions by load, key groups by weight and speed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from millpond.elastic.balance import balanced, cost_spread
from millpond.elastic.detect import Consecutive, Smoothed
from millpond.elastic.observed import Decision, Floats, Observed, Reason, TaskLoad
from millpond.elastic.options import Elastic
from millpond.elastic.spread import dealt_out

FORGET = 0.5
"""What the last epoch counts in the weight of key groups, and in the speed of executors."""

FEWER_AFTER = 3
"""Partitions are taken away after so many times the reports that more of them take: a lull is soon over."""

FEWER_BELOW = 0.6
"""Partitions are taken away if the rest would be at work for less than so much of what is busy: no flapping."""

NEVER_WAITS = 0.75
"""If epochs take more than this of the time, they follow each other as fast as they can: the rest is Spark's."""

FULL = 0.7
"""Then so much of what is busy is enough to add partitions. It is above `FEWER_BELOW`, so they stay."""

SAME_SPEED = 1.3
"""Executors that differ by less than this are taken for equally fast."""

WORTH = 0.9
"""Key groups move if the highest cost becomes this much of what it was, or less."""

ENOUGH = 0.8
"""State stays where it is if rows that may run anywhere bring the highest cost below so much of what is uneven."""

IDLE_WEIGHT = 0.05
"""What a key group without rows weighs, by the mean of all: its state wants a share of the disk, too."""


@dataclass(slots=True)
class Standard:
    """Watches the epochs of one job."""

    options: Elastic
    most: int
    _busy: Consecutive = field(init=False)
    _idle: Consecutive = field(init=False)
    _uneven: Consecutive = field(init=False)
    _slow: Consecutive = field(init=False)
    _rows: Floats | None = None
    _free: Floats | None = None
    _speeds: dict[str, Smoothed] = field(default_factory=dict)
    _rests: int = 0

    def __post_init__(self) -> None:
        options = self.options
        self._busy = Consecutive(options.busy, options.reports)
        self._idle = Consecutive(FEWER_BELOW * options.busy, FEWER_AFTER * options.reports, below=True)
        self._uneven = Consecutive(options.uneven, options.reports)
        self._slow = Consecutive(options.slow, options.reports)

    def decide(self, seen: Observed) -> Decision | None:
        """The owners from the next epoch on, if something has been wrong for long enough."""
        self._learn(seen)
        if self._rests > 0:
            # What moved is restored in these epochs, so they tell nothing about those to come.
            self._rests -= 1
            return None
        decision = self._moved(seen) or self._resized(seen)
        if decision is not None:
            self._rests = self.options.reports
            for detector in (self._busy, self._idle, self._uneven, self._slow):
                detector.reset()
        return decision

    def _learn(self, seen: Observed) -> None:
        if not seen.rows.any():
            return
        self._rows = _smoothed(self._rows, _rows_of(seen, free=False))
        self._free = _smoothed(self._free, _rows_of(seen, free=True) * _free_row_cost(seen))
        by_place: dict[str, tuple[float, float]] = {}
        usual = _usual_rows(seen)
        for number, place in enumerate(seen.places):
            spent, worked = by_place.get(place, (0.0, 0.0))
            by_place[place] = spent + seen.seconds[number], worked + float(usual[number])
        for place, (spent, worked) in by_place.items():
            if worked:
                self._speeds.setdefault(place, Smoothed(FORGET)).add(spent / worked)
        for gone in self._speeds.keys() - set(seen.places):
            del self._speeds[gone]

    @property
    def weights(self) -> list[float]:
        """What each key group weighs: its rows, of late, without those that may run anywhere."""
        assert self._rows is not None
        weights: list[float] = (self._rows + IDLE_WEIGHT * max(float(self._rows.mean()), 1e-9)).tolist()
        return weights

    def unit_costs(self, seen: Observed) -> list[float]:
        """What a row costs each partition, by the executor it is on; 1 for all that are about as fast as most."""
        known = {place: speed.value for place, speed in self._speeds.items() if speed.value}
        if len(known) < 2:
            return [1.0] * seen.partitions
        # The lower one of two: else an executor could never be twice as slow as the other.
        usual = sorted(known.values())[(len(known) - 1) // 2]
        ratios = [known.get(place, usual) / usual for place in seen.places]
        return [ratio if ratio > SAME_SPEED else 1.0 for ratio in ratios]

    def _moved(self, seen: Observed) -> Decision | None:
        if self._rows is None or max(seen.seconds, default=0.0) < self.options.ignored_s:
            return None
        costs = self.unit_costs(seen)
        carriers = seen.carriers or seen.owners
        spread = self._cost_spread(seen.owners, carriers, costs)
        owners, dealt = seen.owners, self._dealt_out(seen.owners, costs)
        better = self._cost_spread(owners, dealt or carriers, costs)
        if dealt is None or better > ENOUGH * self.options.uneven:
            # Rows that may run anywhere are not enough to make up for it: state must move.
            owners = balanced(seen.owners, seen.partitions, self.weights, seen.atoms, costs)
            dealt = self._dealt_out(owners, costs)
            better = self._cost_spread(owners, dealt or owners, costs)
        worth = (owners, dealt or owners) != (seen.owners, carriers) and better <= WORTH * spread
        # An executor that stays slow has what it can bear by then.
        slow = self._slow.met(max(costs) if worth else 1.0)
        uneven = self._uneven.met(spread if worth else 1.0)
        if not (slow or uneven):
            return None
        moved = sum(now != then for now, then in zip(owners, seen.owners, strict=True))
        what = f"{moved} key groups move" if moved else "rows of tasks without state run elsewhere"
        gain = f"{what}, the busiest partition has {better:.2f} of its share instead of {spread:.2f}"
        if max(costs) > self.options.slow:
            place = seen.places[costs.index(max(costs))]
            told = f"executor {place} takes {max(costs):.1f} times as long for a row as others: {gain}"
            return Decision(Reason.SLOW, owners, seen.partitions, told, dealt)
        return Decision(Reason.UNEVEN, owners, seen.partitions, f"{Reason.UNEVEN.value}: {gain}", dealt)

    def _dealt_out(self, owners: Sequence[int], costs: Sequence[float]) -> tuple[int, ...] | None:
        """Where rows that may run anywhere are best off beside these owners; None if there are none."""
        if self._free is None or not self._free.any():
            return None
        held = np.bincount(owners, weights=self.weights, minlength=len(costs))
        return dealt_out(held.tolist(), self._free.tolist(), costs)

    def _cost_spread(self, owners: Sequence[int], carriers: Sequence[int], costs: Sequence[float]) -> float:
        free = [0.0] * len(owners) if self._free is None else self._free.tolist()
        return cost_spread((*owners, *carriers), len(costs), (*self.weights, *free), costs)

    def _resized(self, seen: Observed) -> Decision | None:
        """Twice as many partitions, or half as many."""
        if self._rows is None:
            return None
        used = seen.utilisation
        most = min(self.most, len(seen.atoms))
        more, fewer = min(2 * seen.partitions, most), max(-(-seen.partitions // 2), self.options.least)
        worth = max(seen.seconds, default=0.0) >= self.options.ignored_s
        # What an epoch costs whatever its rows is time, too: who never waits is busy though no partition is.
        felt = used / FULL if seen.epoch_s > NEVER_WAITS * seen.interval_s else used
        busy = self._busy.met(felt if worth and more > seen.partitions else 0.0)
        projected = used * seen.partitions / fewer
        idle = self._idle.met(projected if fewer < seen.partitions else 1.0)
        if not (busy or idle):
            return None
        count = more if busy else fewer
        return self.resized(seen, count, Reason.BUSY if busy else Reason.IDLE, f"{used:.0%} of the time")

    def resized(self, seen: Observed, count: int, reason: Reason, why: str) -> Decision:
        """The owners on another number of partitions."""
        costs = self.unit_costs(seen)[:count]
        costs += [1.0] * (count - len(costs))
        owners = balanced(seen.owners, count, self.weights, seen.atoms, costs)
        told = f"{reason.value} ({why}): {count} instead of {seen.partitions}"
        return Decision(reason, owners, count, told, self._dealt_out(owners, costs))


def _rows_of(seen: Observed, *, free: bool) -> Floats:
    """The rows of tasks that are free to run anywhere by key group, or those of all others."""
    chosen = (np.array(task.rows, dtype=np.float64) for task in seen.tasks if task.free is free)
    return sum(chosen, np.zeros(len(seen.owners)))


def _smoothed(known: Floats | None, now: Floats) -> Floats:
    return now if known is None else known + FORGET * (now - known)


def _row_s(tasks: Iterable[TaskLoad]) -> float:
    """What a row of some tasks took, on average; 0 if that is not known."""
    every = list(tasks)
    rows = sum(task.total_rows for task in every)
    return sum(sum(task.seconds) for task in every) / rows if rows else 0.0


def _free_row_cost(seen: Observed) -> float:
    """What a free row takes by what others take; 1 if that is not known."""
    free = _row_s(task for task in seen.tasks if task.free)
    bound = _row_s(task for task in seen.tasks if not task.free)
    return free / bound if free and bound else 1.0


def _usual_rows(seen: Observed) -> Floats:
    """How many rows each partition was at work on, in rows of the usual length: partitions differ in what they run."""
    usual, mean = np.zeros(seen.partitions), _row_s(seen.tasks)
    for task in seen.tasks:
        usual += task.worked_by(seen.owners, seen.partitions) * (_row_s([task]) / mean if mean else 1.0)
    return usual
