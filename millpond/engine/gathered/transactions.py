"""Rows of gathered entry points, run in input order as plain Python, each all or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from millpond.engine.elastic.loadmetrics import gathered_load
from millpond.engine.failures import failure_of, letter_of, reason_of
from millpond.engine.gathered.keysets import TouchedKeys, touched
from millpond.engine.gathered.links import Reach
from millpond.engine.messages import Failure
from millpond.engine.plan import BadRows, EpochPlan, ProgramPlan
from millpond.engine.task.delivery import Delivery, Refused
from millpond.engine.task.inorder import InOrder, Left, Raised
from millpond.engine.task.intake import Work
from millpond.engine.task.merging import merge_order
from millpond.engine.task.rowbatch import LEFT_OUT
from millpond.engine.task.working import WorkingState
from millpond.errors import Aborted, RowError


class Transactions:
    """The gathered rows of one partition."""

    def __init__(
        self, plan: ProgramPlan, epoch: EpochPlan, work: Sequence[Work], state: WorkingState, delivery: Delivery
    ) -> None:
        self._plan = plan
        self._epoch = epoch
        self._work = list(work)
        self._state = state
        self._delivery = delivery
        self._bad: list[dict[int, RowError]] = [{} for _ in work]
        self._touched = [self._keys_of(one, bad) for one, bad in zip(self._work, self._bad, strict=True)]
        # Keys that are columns are what they are; those that a slice of the method found are checked.
        computed = [one.task for one in work if one.task.keys is not None and one.task.keys.function is not None]
        state.guard(frozenset(access.state for task in computed for access in task.accesses))
        self._load()
        for one, found in zip(self._work, self._touched, strict=True):
            state.loads += [gathered_load(plan, one.task.name, keys) for keys in found]

    def _keys_of(self, work: Work, bad: dict[int, RowError]) -> list[TouchedKeys]:
        elements = self._plan.program.elements
        return touched(work.task, elements, work.variables, len(work), work.times, bad=bad)

    def _load(self) -> None:
        """Load all keys that the rows may touch, each element in one go."""
        units: dict[str, dict[Any, None]] = {}
        for found in (found for by_work in self._touched for found in by_work):
            if not self._plan.program.elements[found.element].type.single:
                units.setdefault(found.element, {}).update(dict.fromkeys(found.units))
        for element, distinct in units.items():
            self._state.keyed_overlay(element).prefetch(list(distinct))

    def run(self) -> Failure | None:
        """Run all rows; the failure of the first one that may not fail, if there is one."""
        order, owners, rows = merge_order(self._plan, self._work)
        refused = self._refuse_unkeyed()
        if refused is not None:
            return refused
        if any(self._bad):
            unkeyed = [np.isin(np.arange(len(one)), list(bad)) for one, bad in zip(self._work, self._bad, strict=True)]
            kept = np.array([not unkeyed[owner][row] for owner, row in zip(owners, rows, strict=True)], dtype=bool)
            owners, rows = owners[kept], rows[kept]
        return InOrder(
            self._work,
            owners,
            rows,
            as_they_are=order is None and len(self._work) == 1 and not any(self._bad),
            containers=lambda task: self._state.containers(task, None),
            reach=self._reach,
            delivery=self._delivery,
            judge=partial(judge, self._plan, self._epoch, self._delivery),
        ).run()

    def _refuse_unkeyed(self) -> Failure | None:
        """Leave rows out whose keys can't be brought together; the failure of one that may not fail."""
        for work, bad in zip(self._work, self._bad, strict=True):
            for row, error in bad.items():
                told = work.bad_row(row, self._epoch, error.summary)
                if self._plan.feeds[work.feed].bad_rows is BadRows.FAIL:
                    return failure_of(error, (told.order, told.feed, told.source, told.position))
                self._delivery.bad_row(told)
        return None

    def _reach(self, work: Work) -> Reach:
        found = self._touched[next(at for at, one in enumerate(self._work) if one is work)]
        single = {one.element for one in found if self._plan.program.elements[one.element].type.single}
        return Reach(
            [(self._state.keyed_overlay(one.element), one) for one in found if one.element not in single],
            [self._state.single_overlay(name) for name in sorted(single)],
        )


def judge(plan: ProgramPlan, epoch: EpochPlan, delivery: Delivery, raised: Raised) -> Failure | Left:
    """Return what becomes of a row that raised in its only task: it is refused, stops the run, or is left out."""
    error, one = raised.error, raised.prepared
    if isinstance(error, Aborted) and plan.program.entries[one.work.task.entry].aborts:
        return Left(Refused(str(error.reason)))
    if plan.feeds[one.work.feed].bad_rows is BadRows.FAIL:
        return one.failure(error, raised.at, epoch)
    return left_out(plan, epoch, delivery, raised)


def left_out(plan: ProgramPlan, epoch: EpochPlan, delivery: Delivery, raised: Raised) -> Left:
    """Leave out a row that raised in its only task: count it, and write it down if somebody wants to know."""
    work, error = raised.prepared.work, raised.error
    if plan.feeds[work.feed].dead_letters is None:
        return Left(LEFT_OUT, partial(delivery.count_bad, work.feed))
    reason, letter = reason_of(error, work.task.entry), letter_of(error, work.task)
    bad = work.bad_row(raised.prepared.row(raised.at), epoch, reason, letter)
    return Left(LEFT_OUT, partial(delivery.bad_row, bad))
