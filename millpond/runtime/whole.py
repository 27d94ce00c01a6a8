"""All steps of an epoch in one process: what a small epoch and a simulated run have in common."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from millpond.ids import PartitionId
from millpond.runtime.messages import MESSAGE_SCHEMA
from millpond.runtime.plan import EpochPlan, ProgramPlan
from millpond.runtime.step import StepRun


def run_whole(plan: ProgramPlan, epoch: EpochPlan, rows: Sequence[pa.RecordBatch]) -> pa.Table:
    """Run every partition of every step, one after the other, and return what the last step tells.

    Rows say by `part` which partition they are for.
    """
    waiting = pa.Table.from_batches(rows) if rows else pa.Table.from_batches([], schema=MESSAGE_SCHEMA)
    for step in range(plan.steps):
        parts = waiting.column("part").to_numpy()
        produced = [
            StepRun(plan, epoch, step, PartitionId(partition)).run(
                waiting.filter(pa.array(parts == partition)).to_batches()
            )
            for partition in range(plan.layout.partitions)
        ]
        waiting = pa.Table.from_batches(produced, schema=MESSAGE_SCHEMA)
    return waiting
