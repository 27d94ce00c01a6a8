"""Rows as a task's code reads them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

from millpond.program.epoch_time import row_times
from millpond.runtime.columns import Rows
from millpond.runtime.delivery import Delivery
from millpond.runtime.failures import row_failure
from millpond.runtime.intake import Work
from millpond.runtime.messages import Failure
from millpond.runtime.plan import EpochPlan


class Prepared:
    """Rows of one work in the order of a lane, as lists that the task's code reads."""

    def __init__(self, work: Work, rows: Rows | slice, delivery: Delivery) -> None:
        self.work = work
        self.rows = rows
        self.count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        self.results: list[Any] = []
        self._delivery = delivery
        self._at = 0

    @cached_property
    def _columns(self) -> list[list[Any]]:
        columns = [self.work.variables[name].take(self.rows) for name in self.work.task.inputs]
        return columns or [[None] * self.count]

    @cached_property
    def _times(self) -> list[int] | None:
        return None if self.work.times is None else self.work.times[self.rows].tolist()

    def next_rows(self, count: int) -> Rows | slice:
        """The next `count` rows of the work, which still are to run."""
        if isinstance(self.rows, slice):
            return slice(self.rows.start + self._at, self.rows.start + self._at + count)
        return self.rows[self._at : self._at + count]

    def ran(self, results: list[Any]) -> None:
        """Take the results of the next rows, which ran otherwise than by their columns."""
        self._at += len(results)
        self.results += results

    def next_columns(self, count: int) -> list[list[Any]]:
        """The columns of the next `count` rows."""
        start = self._at
        self._at += count
        if start == 0 and count == self.count:
            return self._columns
        return [column[start : start + count] for column in self._columns]

    def timed(self) -> AbstractContextManager[None]:
        """Give the rows that run inside their own times, if they have any."""
        return nullcontext() if self._times is None else row_times(self._times, self.results)

    def failure(self, error: Exception, at: int, epoch: EpochPlan) -> Failure:
        """Tell which row the user's code failed on."""
        values = {name: column[at] for name, column in zip(self.work.task.inputs, self._columns, strict=False)}
        row = self.rows.start + at if isinstance(self.rows, slice) else int(self.rows[at])
        source = epoch.source_name(self.work.sources[row].as_py())
        return row_failure(error, self.work, row, source, values)

    def deliver(self, lane: int | None) -> None:
        """Hand the results over: replies to their files, messages to the outbox."""
        self._delivery.deliver(self.work, self.rows, self.results, lane)
