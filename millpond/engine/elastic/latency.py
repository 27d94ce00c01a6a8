"""The latency balancer of C-MR: key groups move as long as that lowers the mean latency of a row.

A row of task element i on partition h takes P[h, i] for itself, and waits W[h, i, j] for each of the D[h, j] rows of
task element j there:

    latency(h, i) = P[h, i] + sum over j of W[h, i, j] * D[h, j]

A move of rows d takes D - d to the donor and D + d to the receiver. (The source prints a minus for both, and so would
take moves that make things worse.) It is accepted if the latencies of all rows of the two partitions together become
less. The objective is the mean, not equal shares: a partition that works fast gets more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from millpond.engine.elastic.balance import Atom
from millpond.engine.elastic.observed import Decision, Floats, Observed, Reason

WORTH = 0.95
"""Moves are worth it if the mean latency becomes this much of what it was, or less."""


@dataclass(frozen=True, slots=True)
class Waits:
    """What a partition's rows take: `own` seconds for each row by task element, `waits` for each row waited for."""

    own: Floats
    waits: npt.NDArray[np.float64]

    def latency(self, rows: Floats) -> Floats:
        """Return the mean latency of a row of each task element, among so many rows."""
        told: Floats = self.own + self.waits @ rows
        return told

    def total(self, rows: Floats) -> float:
        """Return the latencies of so many rows together."""
        return float(self.latency(rows) @ rows)


def accepts(donor: Waits, receiver: Waits, donor_rows: Floats, receiver_rows: Floats, moved: Floats) -> bool:
    """Say whether the rows of two partitions wait less in all when some of them move."""
    before = donor.total(donor_rows) + receiver.total(receiver_rows)
    return before > donor.total(donor_rows - moved) + receiver.total(receiver_rows + moved)


def less_waiting(
    owners: Sequence[int], atoms: Sequence[Atom], rows: npt.NDArray[np.float64], waits: Sequence[Waits]
) -> tuple[int, ...]:
    """Get the owners after one round: the fastest partition takes from the slowest, the second from the second slowest.

    `rows` are by task element and key group. The heaviest atoms of a donor are tried first; it keeps one.
    """
    held = [rows[:, [group for group, owner in enumerate(owners) if owner == at]].sum(1) for at in range(len(waits))]
    mean = [wait.total(own) / own.sum() if own.sum() else 0.0 for wait, own in zip(waits, held, strict=True)]
    by_latency = sorted(range(len(waits)), key=lambda at: (mean[at], at))
    owned = list(owners)
    for receiver, donor in zip(by_latency, reversed(by_latency), strict=True):
        if mean[receiver] >= mean[donor]:
            break
        own = [atom for atom in atoms if owned[atom[0]] == donor]
        weights = {atom[0]: rows[:, list(atom)].sum(1) for atom in own}
        left = len(own)
        for atom in sorted(own, key=lambda atom: (-float(weights[atom[0]].sum()), atom[0])):
            moved = weights[atom[0]]
            if left > 1 and accepts(waits[donor], waits[receiver], held[donor], held[receiver], moved):
                held[donor], held[receiver] = held[donor] - moved, held[receiver] + moved
                left -= 1
                for group in atom:
                    owned[group] = receiver
    return tuple(owned)


def measured(seen: Observed) -> list[Waits]:
    """Return what the rows of each partition take.

    The rows of an epoch are there at its beginning: so each waits for half of the others, on average. A partition
    without rows of a task element is taken to be as fast as all together.
    """
    waits = []
    rows = [task.worked_by(seen.owners, seen.partitions) for task in seen.tasks]
    for at in range(seen.partitions):
        own = np.array([_per_row(task.seconds[at], worked[at]) for task, worked in zip(seen.tasks, rows, strict=True)])
        mean = np.array([_per_row(sum(task.seconds), task.total_rows) for task in seen.tasks])
        own = np.where(np.isnan(own), np.nan_to_num(mean), own)
        waits.append(Waits(own, np.tile(own / 2, (len(own), 1))))
    return waits


def _per_row(seconds: float, rows: float) -> float:
    return seconds / rows if rows else float("nan")


@dataclass(slots=True)
class Latency:
    """The policy: after every so many `reports`, a round that must be worth it."""

    reports: int = 3
    _seen: int = field(default=0)

    def decide(self, seen: Observed) -> Decision | None:
        """Return the owners with which rows wait less, if these are worth the moves."""
        self._seen += 1
        if self._seen % self.reports or not seen.rows.any() or seen.partitions < 2:
            return None
        rows, waits = np.array([task.rows for task in seen.tasks], dtype=np.float64), measured(seen)
        owners = less_waiting(seen.owners, seen.atoms, rows, waits)
        if owners == seen.owners:
            return None
        before, after = (mean_latency(owned, rows, waits) for owned in (seen.owners, owners))
        if after > WORTH * before:
            return None
        told = f"{Reason.LATENCY.value}: {after * 1000:.1f} ms instead of {before * 1000:.1f} ms on average"
        return Decision(Reason.LATENCY, owners, seen.partitions, told)


def mean_latency(owners: Sequence[int], rows: npt.NDArray[np.float64], waits: Sequence[Waits]) -> float:
    """Return the mean latency of a row, by the model."""
    numbers = np.array(owners)
    total = sum(wait.total(rows[:, numbers == at].sum(1)) for at, wait in enumerate(waits))
    return total / float(rows.sum())
