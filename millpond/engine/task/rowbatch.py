"""Rows as a task's code reads them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, Final

import numpy as np

from millpond.engine.failures import row_failure
from millpond.engine.messages import Failure
from millpond.engine.plan import EpochPlan
from millpond.engine.task.columns import Rows
from millpond.engine.task.delivery import Delivery, NoParcel, Parcel
from millpond.engine.task.intake import Work
from millpond.program.semantics.epoch_time import row_times


class _LeftOut:
    """What stands for the result of a row that left nothing."""


LEFT_OUT: Final = _LeftOut()


class RowBatch:
    """Rows of one work in the order of a lane, as lists that the task's code reads; the next one has no result yet."""

    def __init__(self, work: Work, rows: Rows | slice, delivery: Delivery, *, again: bool = False) -> None:
        self.work = work
        self.rows = rows
        self.count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        self.results: list[Any] = []
        # So many of the results can be handed over.
        self.checked = 0
        self._delivery = delivery
        self._again = again
        self._tried: list[tuple[int, Any]] = []
        self._left_out = 0

    @cached_property
    def _columns(self) -> list[list[Any]]:
        names = self.work.task.inputs
        if self._again:
            # The task's code may have changed what the rows carry.
            columns = [*self.work.fresh(self._all()).values()]
        else:
            columns = [self.work.variables[name].take(self.rows) for name in names]
        return columns or [[None] * self.count]

    @cached_property
    def _times(self) -> list[int] | None:
        return None if self.work.times is None else self.work.times[self.rows].tolist()

    def next_rows(self, count: int) -> Rows | slice:
        """Return the next `count` rows of the work, which still are to run."""
        start = len(self.results)
        if isinstance(self.rows, slice):
            return slice(self.rows.start + start, self.rows.start + start + count)
        return self.rows[start : start + count]

    def ran(self, results: list[Any]) -> None:
        """Take the results of the next rows, which ran otherwise than by their columns."""
        self.results += results

    def take(self, result: Any) -> None:
        """Take the result of the next row, whatever its own would have been."""
        self.results.append(result)
        self._left_out += result is LEFT_OUT

    def next_columns(self, count: int) -> list[list[Any]]:
        """Return the columns of the next `count` rows."""
        start = len(self.results)
        if start == 0 and count == self.count:
            return self._columns
        return [column[start : start + count] for column in self._columns]

    def timed(self) -> AbstractContextManager[None]:
        """Give the rows that run inside their own times, if they have any."""
        return nullcontext() if self._times is None else row_times(self._times, self.results)

    def row(self, at: int) -> int:
        """Return the number in the work of one of the rows."""
        return self.rows.start + at if isinstance(self.rows, slice) else int(self.rows[at])

    def values(self, at: int) -> dict[str, Any]:
        """Return what the task's code was given of one of the rows."""
        return {name: column[at] for name, column in zip(self.work.task.inputs, self._columns, strict=False)}

    def failure(self, error: BaseException, at: int, epoch: EpochPlan) -> Failure:
        """Tell which row the user's code failed on."""
        row = self.row(at)
        source = epoch.source_name(self.work.sources[row].as_py())
        return row_failure(error, self.work, row, source, self.values(at))

    def try_only(self, at: int) -> None:
        """Let the result of a row be seen by its own next tasks and by nobody else."""
        self._tried.append((at, self.results[at]))
        self.results[at] = LEFT_OUT
        self._left_out += 1

    def pack(self, lane: int | None) -> list[Parcel]:
        """Make of the results what leaves the task; raises `NoParcel` for the first row whose result can't."""
        results = self.results
        if not self._left_out:
            return [self._delivery.pack(self.work, self.rows, results, lane)]
        kept = [at for at, result in enumerate(results) if result is not LEFT_OUT]
        try:
            parcels = [self._delivery.pack(self.work, self._some(kept), [results[at] for at in kept], lane)]
        except NoParcel as unfit:
            raise NoParcel(kept[unfit.at], unfit.error) from None
        if self._tried:
            places, tried = zip(*self._tried, strict=True)
            parcels.append(self._delivery.pack_tried(self.work, self._some(places), list(tried), lane))
        return parcels

    def check(self, first: int, lane: int | None) -> None:
        """Raise `NoParcel` for the first row whose result can't leave the task, from one on."""
        if self._delivery.fit_plainly(self.work, [one for one in self.results[first:] if one is not LEFT_OUT]):
            return
        kept = [at for at in range(first, len(self.results)) if self.results[at] is not LEFT_OUT]
        try:
            self._delivery.check(self.work, self._some(kept), [self.results[at] for at in kept], lane)
        except NoParcel as unfit:
            raise NoParcel(kept[unfit.at], unfit.error) from None

    def go_back(self, count: int) -> None:
        """Forget the results of all rows but the first `count`; the others are to run again, as they came."""
        ran = min(len(self.results) + 1, self.count)
        del self.results[count:]
        self.checked = count
        self._tried = [(at, result) for at, result in self._tried if at < count]
        self._left_out = sum(result is LEFT_OUT for result in self.results)
        if self.work.task.inputs and "_columns" in vars(self):
            fresh = self.work.fresh(self._all()[count:ran]).values()
            for column, values in zip(self._columns, fresh, strict=True):
                column[count:ran] = values

    def _some(self, places: Sequence[int]) -> Rows:
        return self._all()[list(places)]

    def _all(self) -> Rows:
        return np.arange(self.rows.start, self.rows.stop) if isinstance(self.rows, slice) else self.rows
