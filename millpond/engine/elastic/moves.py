"""What a load would gain from other owners, and from rows that run elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from millpond.engine.elastic.balance import Cheapest, balanced, cost_shares
from millpond.engine.elastic.observed import Floats, Observed

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
        """How many times an even share is the lowest cost of some partitions, if this raises it enough; else 1."""
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
        """Where rows that may run anywhere are best off beside these owners; None if there are none."""
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
