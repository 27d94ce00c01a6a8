"""The policy that jobs have unless they are given another: partitions by load, key groups by weight and speed.

What an epoch shows by itself is a report. So many reports in a row are a reason to act; what is done then follows from
averages of late. An average alone would not do: one epoch that is far out of line is in it for several.

Whether to act is weighed by what a load would gain from other owners, and from rows that run elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from millpond.engine.elastic.balance import Cheapest, balanced, cost_shares
from millpond.engine.elastic.detect import Consecutive
from millpond.engine.elastic.observed import Decision, Floats, Observed, Reason
from millpond.engine.elastic.options import Elastic
from millpond.engine.elastic.speeds import Speeds, row_s

FORGET = 0.5
"""What the last epoch counts in the weight of key groups."""

FEWER_AFTER = 3
"""Partitions are taken away after so many times the reports that more of them take: a lull is soon over."""

FEWER_BELOW = 0.6
"""Partitions are taken away if the rest would be at work for less than so much of what is busy: no flapping."""

NEVER_WAITS = 0.75
"""If epochs take more than this of the time, they follow each other as fast as they can: the rest is Spark's."""

FULL = 0.7
"""Then so much of what is busy is enough to add partitions. It is above `FEWER_BELOW`, so they stay."""

GROWING = 0.65
"""So much of what is busy is enough while rows come faster than they are worked on, whether or not epochs wait. It is
above `FEWER_BELOW`, so partitions stay. Below it more of them would not help: it is the source that gives too few rows
to an epoch, or Spark that takes the time."""

ENOUGH = 0.8
"""State stays where it is if rows that may run anywhere bring the highest cost below so much of what is uneven."""


GROWS = 0.05
"""A queue grows if it became longer by more than this part of an epoch's rows: less than that is when one looks."""

LONG_EPOCHS = 3
"""A queue is long if it takes more epochs than this, as large as the last one, and no other row comes."""


@dataclass(slots=True)
class Queue:
    """Follows the queue of the sources: rows that wait for an epoch.

    Where nobody tells of one, it neither grows nor is it long.
    """

    rows: int | None = None
    grows: bool = False
    long: bool = False

    def learn(self, seen: Observed) -> None:
        """Take what an epoch tells."""
        if not seen.fed_rows:
            # Timers that fire, and messages that were left: no source was asked.
            return
        before, self.rows = self.rows, seen.queued_rows
        now = self.rows or 0
        self.grows = before is not None and now - before > GROWS * seen.fed_rows
        self.long = now > LONG_EPOCHS * seen.fed_rows


@dataclass(slots=True)
class Standard:
    """Watches the epochs of one job."""

    options: Elastic
    most: int
    _busy: Consecutive = field(init=False)
    _idle: Consecutive = field(init=False)
    _moves: dict[Reason, Consecutive] = field(init=False)
    _speeds: Speeds = field(init=False)
    _queue: Queue = field(default_factory=Queue)
    _rows: Floats | None = None
    _free: Floats | None = None
    _spared: frozenset[int] = frozenset()
    _rests: int = 0

    def __post_init__(self) -> None:
        options = self.options
        self._busy = Consecutive(options.busy, options.reports)
        self._idle = Consecutive(FEWER_BELOW * options.busy, FEWER_AFTER * options.reports, below=True)
        self._moves = {
            Reason.SLOW: Consecutive(options.slow, options.reports),
            Reason.FASTER: Consecutive(options.uneven, options.reports),
            Reason.UNEVEN: Consecutive(options.uneven, options.reports),
        }
        self._speeds = Speeds(options.reports)

    def decide(self, seen: Observed) -> Decision | None:
        """Return the owners from the next epoch on, if something has been wrong for long enough."""
        self._learn(seen)
        if self._rests > 0:
            # What moved is restored in these epochs, so they tell nothing about those to come.
            self._rests -= 1
            return None
        decision = self._limited(seen) or self._moved(seen) or self._resized(seen)
        if decision is not None:
            self._rests = self.options.reports
            self._spared = frozenset(at for at, cost in enumerate(self._speeds.of_late(_places(seen))) if cost > 1)
            for detector in (self._busy, self._idle, *self._moves.values()):
                detector.reset()
        return decision

    def _learn(self, seen: Observed) -> None:
        self._queue.learn(seen)
        if not seen.rows.any():
            return
        self._rows = _smoothed(self._rows, _rows_of(seen, free=False))
        self._free = _smoothed(self._free, _free_rows(seen))
        if self._counts(seen):
            self._speeds.learn(seen)

    def _counts(self, seen: Observed) -> bool:
        """Say whether an epoch is long enough to tell something."""
        return max(seen.seconds, default=0.0) >= self.options.ignored_s

    def _of_late(self, seen: Observed, partitions: int) -> Weighed:
        """Return the load of late, on so many partitions; all key groups are alike as long as none had rows."""
        costs = self._speeds.of_late(_places(seen))[:partitions]
        costs += [1.0] * (partitions - len(costs))
        none = np.zeros(len(seen.owners))
        return Weighed(none if self._rows is None else self._rows, none if self._free is None else self._free, costs)

    def _limited(self, seen: Observed) -> Decision | None:
        """As many partitions as there may be, if there are fewer or more."""
        least, most = min(self.options.least, len(seen.atoms)), self.options.most
        if seen.partitions < least:
            return self._with(seen, least, Reason.LIMITS, f"least={self.options.least}")
        # A number that nobody named does not overrule one that somebody asked for.
        if most is not None and seen.partitions > most:
            return self._with(seen, most, Reason.LIMITS, f"most={most}")
        return None

    def _moved(self, seen: Observed) -> Decision | None:
        """Other owners, if key groups weigh unevenly, or an executor is slow, or one that was is so no more."""
        if not self._counts(seen) or not seen.rows.any():
            # Reports are in a row no more.
            for detector in self._moves.values():
                detector.reset()
            return None
        now = Weighed(_rows_of(seen, free=False), _free_rows(seen), self._speeds.now(_places(seen)))
        _, figures = self._gains(seen, now)
        met = [detector.met(figures[reason]) for reason, detector in self._moves.items()]
        if not any(met):
            return None
        late = self._of_late(seen, seen.partitions)
        move, figures = self._gains(seen, late)
        for reason, detector in self._moves.items():
            if figures[reason] > detector.threshold:
                told = f"{self._why(seen, reason, late, move)}: {_gain(seen, move)}"
                return Decision(reason, move.owners, seen.partitions, told, move.spread)
        return None

    def _gains(self, seen: Observed, load: Weighed) -> tuple[Move, dict[Reason, float]]:
        """Return the best move by a load, and what there is to gain from it, for each reason to move."""
        move = load.best_move(seen, ENOUGH * self.options.uneven)
        # An executor that stays slow has what it can bear by the time that no move relieves it.
        slowest = max(load.costs) if move.relieves > 1 else 1.0
        faster = move.fills(self._spared_partitions(seen))
        return move, {Reason.SLOW: slowest, Reason.FASTER: faster, Reason.UNEVEN: move.relieves}

    def _spared_partitions(self, seen: Observed) -> list[int]:
        """Partitions that have less since the last decision, because their executors were slow."""
        return [number for number in range(seen.partitions) if number in self._spared]

    def _why(self, seen: Observed, reason: Reason, load: Weighed, move: Move) -> str:
        if reason is Reason.SLOW:
            slowest = max(range(seen.partitions), key=lambda at: load.costs[at])
            return f"executor {seen.places[slowest]} takes {load.costs[slowest]:.1f} times as long for a row as others"
        if reason is Reason.FASTER:
            emptiest = min(self._spared_partitions(seen), key=lambda at: move.before[at])
            return f"executor {seen.places[emptiest]} is faster again"
        return str(reason.value)

    def _resized(self, seen: Observed) -> Decision | None:
        """Twice as many partitions, or half as many."""
        if self._rows is None:
            return None
        used = seen.utilisation
        most = min(self.most, len(seen.atoms))
        more, fewer = min(2 * seen.partitions, most), max(-(-seen.partitions // 2), self.options.least)
        felt = used / self._enough(seen)
        busy = self._busy.met(felt if self._counts(seen) and more > seen.partitions else 0.0)
        projected = used * seen.partitions / fewer
        # Who has little to do while rows wait will have more.
        fewer_do = fewer < seen.partitions and not (self._queue.grows or self._queue.long)
        idle = self._idle.met(projected if fewer_do else 1.0)
        if not (busy or idle):
            return None
        why = f"{used:.0%} of the time"
        if self._queue.grows:
            why += f", and {self._queue.rows:,} rows wait, more than before"
        return self._with(seen, more if busy else fewer, Reason.BUSY if busy else Reason.IDLE, why)

    def _enough(self, seen: Observed) -> float:
        """Say how much of what is busy is enough to add partitions."""
        if self._queue.grows:
            return GROWING
        # What an epoch costs whatever its rows is time, too: who never waits is busy though no partition is.
        return FULL if seen.epoch_s > NEVER_WAITS * seen.interval_s else 1.0

    def _with(self, seen: Observed, count: int, reason: Reason, why: str) -> Decision:
        """Return the owners on another number of partitions."""
        late = self._of_late(seen, count)
        owners = late.balanced(seen)
        told = f"{reason.value} ({why}): {count} instead of {seen.partitions}"
        return Decision(reason, owners, count, told, late.dealt_out(owners))


def _places(seen: Observed) -> Sequence[str]:
    """Return the executor of each partition; all on one if nothing is known."""
    return seen.places or ("",) * seen.partitions


def _gain(seen: Observed, move: Move) -> str:
    moved = sum(now != then for now, then in zip(move.owners, seen.owners, strict=True))
    what = f"{moved} key groups move" if moved else "rows of tasks without state run elsewhere"
    return f"{what}, the busiest partition has {max(move.after):.2f} of its share instead of {max(move.before):.2f}"


def _rows_of(seen: Observed, *, free: bool) -> Floats:
    """Return the rows of tasks that are free to run anywhere by key group, or those of all others."""
    chosen = (np.array(task.rows, dtype=np.float64) for task in seen.tasks if task.free is free)
    return sum(chosen, np.zeros(len(seen.owners)))


def _free_rows(seen: Observed) -> Floats:
    """Free rows by key group, as many as others would take as long for."""
    free = row_s(task for task in seen.tasks if task.free)
    bound = row_s(task for task in seen.tasks if not task.free)
    return _rows_of(seen, free=True) * (free / bound if free and bound else 1.0)


def _smoothed(known: Floats | None, now: Floats) -> Floats:
    return now if known is None else known + FORGET * (now - known)


WORTH = 0.9
"""Key groups move if the highest cost becomes this much of what it was, or less."""

IDLE_WEIGHT = 0.05
"""What a key group without rows weighs, by the mean of all: its state wants a share of the disk, too."""


@dataclass(frozen=True, slots=True)
class Move:
    """Owners, where free rows run (None: with the owners), and the cost of each partition by an even share, before it
    and after it. One that `changes` nothing gains nothing.
    """

    owners: tuple[int, ...]
    spread: tuple[int, ...] | None
    before: Sequence[float]
    after: Sequence[float]
    changes: bool

    @property
    def relieves(self) -> float:
        """The highest cost by an even share, if this lowers it enough; else 1, as if all were well."""
        worth = self.changes and max(self.after) <= WORTH * max(self.before)
        return max(self.before) if worth else 1.0

    def fills(self, partitions: Collection[int]) -> float:
        """Say how many times an even share is the lowest cost of some partitions, if this raises it enough; else 1."""
        if not partitions or not self.changes or max(self.after) > max(self.before):
            return 1.0
        before, after = (min(shares[at] for at in partitions) for shares in (self.before, self.after))
        return 1 / max(before, 1e-9) if before <= WORTH * after else 1.0


@dataclass(frozen=True, slots=True)
class Weighed:
    """A load, of one epoch or of late: rows by key group, free rows by key group, and what a row costs a partition."""

    rows: Floats
    free: Floats
    costs: Sequence[float]

    @property
    def weights(self) -> list[float]:
        """What each key group weighs: its rows, without those that may run anywhere."""
        weights: list[float] = (self.rows + IDLE_WEIGHT * max(float(self.rows.mean()), 1e-9)).tolist()
        return weights

    def balanced(self, seen: Observed) -> tuple[int, ...]:
        """Return the owners that suit this load, on as many partitions as it has costs of."""
        return balanced(seen.owners, len(self.costs), self.weights, seen.atoms, self.costs)

    def dealt_out(self, owners: Sequence[int]) -> tuple[int, ...] | None:
        """Say where rows that may run anywhere are best off beside these owners; None if there are none."""
        if not self.free.any():
            return None
        held = np.bincount(owners, weights=self.weights, minlength=len(self.costs))
        return dealt_out(held.tolist(), self.free.tolist(), self.costs)

    def best_move(self, seen: Observed, enough: float) -> Move:
        """Return the best that can be done; state stays where it is if free rows bring the highest cost to `enough`."""
        carriers = seen.carriers or seen.owners
        owners, dealt = seen.owners, self.dealt_out(seen.owners)
        after = self._shares(owners, dealt or carriers)
        if dealt is None or max(after) > enough:
            # Rows that may run anywhere are not enough to make up for it: state must move.
            owners = self.balanced(seen)
            dealt = self.dealt_out(owners)
            after = self._shares(owners, dealt or owners)
        changes = (owners, dealt or owners) != (seen.owners, carriers)
        return Move(owners, dealt, self._shares(seen.owners, carriers), after, changes)

    def _shares(self, owners: Sequence[int], carriers: Sequence[int]) -> list[float]:
        weights = (*self.weights, *self.free.tolist())
        return cost_shares((*owners, *carriers), len(self.costs), weights, self.costs)


def dealt_out(held: Sequence[float], free: Sequence[float], unit_costs: Sequence[float]) -> tuple[int, ...]:
    """Choose a partition for the free rows of every key group, so that partitions cost the same.

    `held` is the weight of the rows that each partition has anyway, `free` that of the free rows of each key group. The
    heaviest go first, each to where the cost is lowest then. So no cost is above the ideal one by more than that of one
    key group, unless what is held is above it already. Groups without rows go the same way, as if they had few.
    """
    cheapest = Cheapest(held, unit_costs)
    least = min((weight for weight in free if weight > 0), default=1.0) / 2
    chosen = [0] * len(free)
    for group in sorted(range(len(free)), key=lambda group: (-free[group], group)):
        chosen[group] = cheapest.take(free[group] or least)
    return tuple(chosen)
