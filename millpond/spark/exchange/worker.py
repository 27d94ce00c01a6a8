"""The function that Spark runs on each partition of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from millpond.engine.arrowtypes import in_utc
from millpond.engine.gathered.gatheredplacement import Placement, encode_survey, placed, survey
from millpond.engine.local_state.openstate import drop_old_copies
from millpond.engine.messages import Found
from millpond.engine.onetask import run_in_one_task
from millpond.engine.plan import EpochPlan
from millpond.engine.sequence.portions import UnorderedError
from millpond.engine.sequence.streaming import run_in_sequence, task_of
from millpond.engine.task.spill import run_task
from millpond.errors import EpochError
from millpond.ids import PartitionId
from millpond.keygroups import Layout
from millpond.program.semantics.epoch_time import epoch_time
from millpond.spark.placement.executor import executor_name, is_own
from millpond.spark.ship import Shipment, unpack

StepFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

PartitionFunction = Callable[[PartitionId, Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]
"""What is done with the rows of a partition, wherever it runs."""

MESSAGE_DDL = (
    "part int, task int, feed int, grp int, ord bigint, src string, pos bigint, tie bigint, dup bigint, path binary, "
    "inst bigint, body binary"
)


CONTROL_DDL = "body binary"

_CAME = frozenset({Found.CAUGHT_UP, Found.RESTORED})


def step_function(shipment: Shipment, epoch: EpochPlan, step: int) -> PartitionFunction:
    """Make the function for one step of one epoch."""

    def run(partition: PartitionId, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = unpack(shipment)
        task = task_of(plan, epoch, step, partition, executor_name())
        told = run_task(task, _own(batches, partition, plan.layout))
        if task.seen.found in _CAME and is_own(plan.local_root):
            # Others may have left.
            drop_old_copies(plan.local_root, epoch.parent)
        yield told

    return run


def by_task(function: PartitionFunction) -> StepFunction:
    """Return a partition's function for tasks whose number is that of their partition."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        yield from function(PartitionId(context.partitionId()), batches)

    return run


def epoch_function(
    shipment: Shipment, epoch: EpochPlan, rows_max: float, placement: Placement | None = None
) -> StepFunction:
    """Make the function for all partitions and steps of one epoch, in a single task; with more rows it does nothing."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        count = 0
        for batch in batches:
            count += batch.num_rows
            if count <= rows_max:
                held.append(batch)
            # Else the rest is only read, since Spark's worker must not be left with rows that nobody took.
        if count <= rows_max:
            yield from run_in_one_task(unpack(shipment), epoch, held, placement).select(["body"]).to_batches()

    return run


def sequence_function(shipment: Shipment, epoch: EpochPlan) -> StepFunction:
    """Make the function for an epoch in sequence, whose rows come in order; if they do not, it tells nothing."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        coming = iter(batches)
        try:
            yield from run_in_sequence(unpack(shipment), epoch, coming, ordered=True).select(["body"]).to_batches()
        except UnorderedError:
            # Spark's worker must not be left with rows that nobody took.
            for _ in coming:
                pass

    return run


def survey_function(shipment: Shipment, now_us: int, floor_us: int) -> StepFunction:
    """Make the function that looks at the keys of gathered rows; keys may follow from the time of the epoch."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = [batch for batch in batches if batch.num_rows]
        if held:
            with epoch_time(now_us):
                found = survey(unpack(shipment), in_utc(pa.Table.from_batches(held).combine_chunks()), floor_us)
            yield pa.RecordBatch.from_arrays([pa.array([encode_survey(found)], pa.binary())], names=["body"])

    return run


def place_function(shipment: Shipment, placement: Placement, now_us: int, floor_us: int) -> StepFunction:
    """Make the function that says of gathered rows in which partition they run."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = unpack(shipment)
        for batch in batches:
            with epoch_time(now_us):
                here = placed(plan, placement, in_utc(pa.Table.from_batches([batch])), floor_us)
            yield from here.to_batches()

    return run


def _own(batches: Iterable[pa.RecordBatch], partition: PartitionId, layout: Layout) -> Iterator[pa.RecordBatch]:
    """Return the batches, each checked to be meant for this partition: state must never meet another's rows.

    Rows that travel without their group are checked when their keys are loaded.
    """
    owners = np.array(layout.owners())
    for batch in batches:
        if "part" in batch.schema.names:
            parts = batch.column("part").to_numpy(zero_copy_only=False)
        elif "grp" in batch.schema.names:
            parts = owners[batch.column("grp").to_numpy(zero_copy_only=False)]
        else:
            parts = np.empty(0, dtype=np.int64)
        if (parts != partition).any():
            raise EpochError(
                "MP432",
                "Spark sent rows to the wrong partition",
                expected=f"partition {partition}",
                found=f"rows for {sorted(set(parts.tolist()))[:8]}",
                hint="switch off what re-arranges explicit repartitions in this session, and report it",
            )
        yield batch
