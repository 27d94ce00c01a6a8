"""The policy that jobs have unless they are given another: partitions by load, key groups by weight and speed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from millpond.elastic.balance import balanced, cost_spread
from millpond.elastic.detect import Consecutive, Smoothed
from millpond.elastic.observed import Decision, Floats, Observed, Reason
from millpond.elastic.options import Elastic

FORGET = 0.5
"""What the last epoch counts in the weight of key groups, and in the speed of executors."""

FEWER_AFTER = 3
"""Partitions are taken away after so many times the reports that more of them take: a lull is soon over."""

FEWER_BELOW = 0.6
"""Partitions are taken away if the rest would be at work for less than so much of what is busy: no flapping."""

SAME_SPEED = 1.3
"""Executors that differ by less than this are taken for equally fast."""

WORTH = 0.9
"""Key groups move if the highest cost becomes this much of what it was, or less."""

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
        rows = seen.rows
        if not rows.any():
            return
        known = self._rows
        self._rows = rows if known is None else known + FORGET * (rows - known)
        by_place: dict[str, tuple[float, float]] = {}
        held = np.bincount(seen.owners, weights=rows, minlength=seen.partitions)
        for number, place in enumerate(seen.places):
            spent, worked = by_place.get(place, (0.0, 0.0))
            by_place[place] = spent + seen.seconds[number], worked + float(held[number])
        for place, (spent, worked) in by_place.items():
            if worked:
                self._speeds.setdefault(place, Smoothed(FORGET)).add(spent / worked)
        for gone in self._speeds.keys() - set(seen.places):
            del self._speeds[gone]

    @property
    def weights(self) -> list[float]:
        """What each key group weighs: its rows, of late."""
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
        spread = cost_spread(seen.owners, seen.partitions, self.weights, costs)
        owners = balanced(seen.owners, seen.partitions, self.weights, seen.atoms, costs)
        better = cost_spread(owners, seen.partitions, self.weights, costs)
        worth = owners != seen.owners and better <= WORTH * spread
        # An executor that stays slow has what it can bear by then.
        slow = self._slow.met(max(costs) if worth else 1.0)
        uneven = self._uneven.met(spread if worth else 1.0)
        if not (slow or uneven):
            return None
        moved = sum(now != then for now, then in zip(owners, seen.owners, strict=True))
        gain = f"{moved} key groups move, the busiest partition has {better:.2f} of its share instead of {spread:.2f}"
        if max(costs) > self.options.slow:
            place = seen.places[costs.index(max(costs))]
            told = f"executor {place} takes {max(costs):.1f} times as long for a row as others: {gain}"
            return Decision(Reason.SLOW, owners, seen.partitions, told)
        return Decision(Reason.UNEVEN, owners, seen.partitions, f"{Reason.UNEVEN.value}: {gain}")

    def _resized(self, seen: Observed) -> Decision | None:
        """Twice as many partitions, or half as many."""
        if self._rows is None:
            return None
        used = seen.utilisation
        most = min(self.most, len(seen.atoms))
        more, fewer = min(2 * seen.partitions, most), max(-(-seen.partitions // 2), self.options.least)
        worth = max(seen.seconds, default=0.0) >= self.options.ignored_s
        busy = self._busy.met(used if worth and more > seen.partitions else 0.0)
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
        return Decision(reason, owners, count, told)
