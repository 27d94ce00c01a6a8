"""What policies are told after each epoch, and what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from millpond.engine.elastic.balance import Atom

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TaskLoad:
    """What one task element had to do in an epoch: rows by key group, seconds by partition, bytes of its rows.

    The seconds of a step are shared out among its task elements by their rows. `worked` is on how many rows each
    partition was at work, also of key groups that it does not own: rows over several keys run anywhere, and so do those
    of a `free` task, which meets no state. `group_seconds` and `group_bytes` are by key group: what was measured of
    each partition and step, shared out by rows.
    """

    task: str
    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    size_bytes: int
    worked: tuple[int, ...] = ()
    free: bool = False
    group_seconds: tuple[float, ...] = ()
    group_bytes: tuple[float, ...] = ()

    @property
    def total_rows(self) -> int:
        """Rows of all key groups."""
        return sum(self.rows)

    def worked_by(self, owners: Sequence[int], partitions: int) -> Floats:
        """On how many rows each partition was at work; those of its key groups if nothing else is known."""
        if self.worked:
            return np.array(self.worked, dtype=np.float64)
        held: Floats = np.bincount(owners, weights=self.rows, minlength=partitions).astype(np.float64)
        return held


@dataclass(frozen=True, slots=True)
class HotKey:
    """A key with many rows: the task element that met it, and its share of that element's rows."""

    task: str
    key: str
    share: float


@dataclass(frozen=True, slots=True)
class Observed:
    """One epoch: who owned what, what that cost, and where it ran.

    `seconds` is how long each partition was at work, `places` the executor it was on, "" where there is only one.
    `carriers` are where rows of free tasks ran, by key group; empty if with the owners.
    `interval_s` is how long it took from the end of the epoch before to the end of this one, `epoch_s` how much of that
    was the epoch itself, if that is known; the rest is between them, or spent in waiting for rows.
    `fed_rows` came from the sources; at least `queued_rows` more were waiting there when the batch before was cut, None
    if no source tells.
    """

    epoch: int
    owners: tuple[int, ...]
    partitions: int
    atoms: Sequence[Atom]
    tasks: tuple[TaskLoad, ...]
    seconds: tuple[float, ...]
    interval_s: float
    places: tuple[str, ...] = ()
    carriers: tuple[int, ...] = ()
    hot_keys: tuple[HotKey, ...] = ()
    epoch_s: float = 0.0
    fed_rows: int = 0
    queued_rows: int | None = None

    @property
    def rows(self) -> Floats:
        """Rows of all task elements by key group."""
        return sum((np.array(task.rows, dtype=np.float64) for task in self.tasks), np.zeros(len(self.owners)))

    @property
    def worked(self) -> Floats:
        """On how many rows each partition was at work."""
        every = (task.worked_by(self.owners, self.partitions) for task in self.tasks)
        return sum(every, np.zeros(self.partitions))

    @property
    def utilisation(self) -> float:
        """Which part of the time the partitions were at work, on average."""
        return sum(self.seconds) / self.partitions / self.interval_s if self.interval_s else 0.0


class Reason(Enum):
    """Why owners shall change."""

    BUSY = "partitions are busy"
    IDLE = "partitions have little to do"
    UNEVEN = "key groups weigh unevenly"
    SLOW = "an executor is slow"
    FASTER = "an executor is faster again"
    LATENCY = "rows would wait less"
    LIMITS = "the number of partitions is out of its limits"
    ASKED = "somebody asked for it"


@dataclass(frozen=True, slots=True)
class Decision:
    """Who shall own what from the next epoch on, and why; `told` is for people.

    `spread` is where rows of free tasks shall run, by key group; None is with the owners.
    """

    reason: Reason
    owners: tuple[int, ...]
    partitions: int
    told: str
    spread: tuple[int, ...] | None = None

    def moved(self, before: Sequence[int]) -> int:
        """Say how many key groups get another owner."""
        return sum(now != then for now, then in zip(self.owners, before, strict=True))


class Policy(Protocol):
    """Decides after each epoch; it may remember what it was told before."""

    def decide(self, seen: Observed) -> Decision | None:
        """Return the owners from the next epoch on; None if all is well."""
        ...
