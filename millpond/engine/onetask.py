"""All steps of an epoch in one process: what a small epoch and a simulated run have in common."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from millpond.engine.gathered.gatheredplacement import Placement, place_surveyed, placed, survey
from millpond.engine.messages import MESSAGE_SCHEMA
from millpond.engine.plan import EpochPlan, ProgramPlan
from millpond.engine.sequence.streaming import run_in_sequence
from millpond.engine.task.spill import run_task
from millpond.engine.task.step import StepRun
from millpond.ids import PartitionId
from millpond.program.semantics.epoch_time import epoch_time
from millpond.storage.open import open_storage


def run_in_one_task(
    plan: ProgramPlan, epoch: EpochPlan, rows: Sequence[pa.RecordBatch], placement: Placement | None = None
) -> pa.Table:
    """Run every partition of every step, one after the other, and return what the last step tells.

    Rows say by `part` which partition they are for; gathered rows go where `placement` says, found here if not given.
    """
    if plan.in_sequence and not epoch.continues:
        return run_in_sequence(plan, epoch, rows, ordered=False)
    waiting = pa.Table.from_batches(rows) if rows else pa.Table.from_batches([], schema=MESSAGE_SCHEMA)
    counted: dict[str, int] = {}
    if rows and not epoch.continues and plan.gathered_feeds:
        with epoch_time(epoch.now_us):
            if placement is None:
                placement = place_surveyed(plan, [survey(plan, waiting, epoch.watermark.floor_us)])
                counted = placement.counters()
            waiting = placed(plan, placement, waiting, epoch.watermark.floor_us)
    storage = open_storage(plan.storage_url)
    for step in range(plan.steps):
        parts = waiting.column("part").to_numpy()
        produced = [
            run_task(
                StepRun(
                    plan, epoch, step, PartitionId(partition), {} if step or partition else counted, storage=storage
                ),
                waiting.filter(pa.array(parts == partition)).to_batches(),
            )
            for partition in range(plan.layout.partitions)
        ]
        waiting = pa.Table.from_batches(produced, schema=MESSAGE_SCHEMA)
    return waiting
