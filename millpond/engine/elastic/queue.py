"""The queue of the sources: rows that came and wait for an epoch, as far as sources tell."""

from __future__ import annotations

from dataclasses import dataclass

from millpond.engine.elastic.observed import Observed

GROWS = 0.05
"""A queue grows if it became longer by more than this part of an epoch's rows: less than that is when one looks."""

LONG_EPOCHS = 3
"""A queue is long if it takes more epochs than this, as large as the last one, and no other row comes."""


@dataclass(slots=True)
class Queue:
    """Follows the queue from epoch to epoch. Where nobody tells of one, it neither grows nor is it long."""

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
