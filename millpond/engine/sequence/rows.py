"""Rows in sequence, run in input order on one program, each all or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from millpond.engine.assemble import LATEST
from millpond.engine.gathered.links import Reach
from millpond.engine.gathered.transactions import judge
from millpond.engine.messages import Failure
from millpond.engine.plan import EpochPlan, ProgramPlan
from millpond.engine.sequence.state import SequenceState
from millpond.engine.task.delivery import Delivery
from millpond.engine.task.inorder import InOrder
from millpond.engine.task.intake import Work
from millpond.engine.task.merging import merge_order

IN_SEQUENCE: Final = f"{LATEST}in_sequence"
"""What counts the rows of an epoch that ran in sequence."""


class SequenceRows:
    """All rows of an epoch."""

    def __init__(
        self, plan: ProgramPlan, epoch: EpochPlan, work: Sequence[Work], state: SequenceState, delivery: Delivery
    ) -> None:
        self._plan = plan
        self._epoch = epoch
        self._work = list(work)
        self._state = state
        self._delivery = delivery

    def run(self) -> Failure | None:
        """Run all rows; the failure of the first one that may not fail, if there is one."""
        state, parent = self._state, self._epoch.parent
        files = [*parent.snapshot, *(file for epoch in parent.deltas for file in epoch.files)]
        rows_count = sum(map(len, self._work))
        self._delivery.counters[IN_SEQUENCE] = rows_count
        state.prepare(rows_count, sum(file.entries for file in files))
        order, owners, rows = merge_order(self._plan, self._work)
        reach = Reach([], state.overlays)
        with state.at_work():
            return InOrder(
                self._work,
                owners,
                rows,
                as_they_are=order is None and len(self._work) == 1,
                containers=lambda _: [state],
                reach=lambda _: reach,
                delivery=self._delivery,
                judge=partial(judge, self._plan, self._epoch, self._delivery),
            ).run()
