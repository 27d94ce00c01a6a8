"""Epochs of few rows on one machine run in a single task: a shuffle would cost more than a second core saves."""

from __future__ import annotations

from dataclasses import dataclass

GROWTH_MAX = 8
"""By how much an epoch may be larger than a small one before a single task gives it up to many."""


@dataclass(slots=True)
class SmallEpochs:
    """How many rows an epoch may have to be small, and how many the last one had."""

    rows: int
    _last: int | None = None

    @classmethod
    def of(cls, rows: int, *, one_host: bool) -> SmallEpochs:
        """On a cluster none is small: one task would draw the state of all partitions to one executor."""
        return cls(rows * one_host)

    def note(self, rows: int) -> None:
        """An epoch has had so many rows."""
        self._last = rows or self._last

    @property
    def one_task_rows(self) -> int:
        """How many rows the next epoch may have to run in one task, if the last one makes that likely."""
        return 0 if self._last is None or self._last > self.rows else self.rows * GROWTH_MAX
