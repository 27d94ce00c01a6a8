"""What policies are told after each epoch, and what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from millpond.elastic.balance import Atom

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TaskLoad:
    """What one task element had to do in an epoch: rows by key group, seconds by partition, bytes of its rows.

    The seconds of a step are shared out among its task elements by their rows.
    """

    task: str
    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    size_bytes: int

    @property
    def total_rows(self) -> int:
        """Rows of all key groups."""
        return sum(self.rows)


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
    `interval_s` is how long it took from the end of the epoch before to the end of this one.
    """

    epoch: int
    owners: tuple[int, ...]
    partitions: int
    atoms: Sequence[Atom]
    tasks: tuple[TaskLoad, ...]
    seconds: tuple[float, ...]
    interval_s: float
    places: tuple[str, ...] = ()
    hot_keys: tuple[HotKey, ...] = ()

    @property
    def rows(self) -> Floats:
        """Rows of all task elements by key group."""
        return sum((np.array(task.rows, dtype=np.float64) for task in self.tasks), np.zeros(len(self.owners)))

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
    LATENCY = "rows would wait less"
    ASKED = "somebody asked for it"


@dataclass(frozen=True, slots=True)
class Decision:
    """Who shall own what from the next epoch on, and why; `told` is for people."""

    reason: Reason
    owners: tuple[int, ...]
    partitions: int
    told: str

    def moved(self, before: Sequence[int]) -> int:
        """How many key groups get another owner."""
        return sum(now != then for now, then in zip(self.owners, before, strict=True))


class Policy(Protocol):
    """Decides after each epoch; it may remember what it was told before."""

    def decide(self, seen: Observed) -> Decision | None:
        """The owners from the next epoch on; None if all is well."""
        ...
