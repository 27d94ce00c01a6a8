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
    """The rows of an epoch, portion by portion."""

    def __init__(self, plan: ProgramPlan, epoch: EpochPlan, state: SequenceState, delivery: Delivery) -> None:
        self._plan = plan
        self._epoch = epoch
        self._state = state
        self._delivery = delivery
        self.count = 0

    def run(self, work: Sequence[Work]) -> Failure | None:
        """Run the rows of a portion; the failure of the first one that may not fail, if there is one."""
        state = self._state
        rows_count = sum(map(len, work))
        self._delivery.counters[IN_SEQUENCE] += rows_count
        # What rows before did is sure: none of these is undone any more.
        if self.count:
            state.know()
        self.count += rows_count
        order, owners, rows = merge_order(self._plan, list(work))
        reach = Reach([], state.overlays)
        with state.at_work():
            return InOrder(
                work,
                owners,
                rows,
                as_they_are=order is None and len(work) == 1,
                containers=lambda _: [state],
                reach=lambda _: reach,
                delivery=self._delivery,
                judge=partial(judge, self._plan, self._epoch, self._delivery),
            ).run()
