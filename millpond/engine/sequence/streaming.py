"""The task of an epoch in sequence: it takes rows as they come, and holds no more of anything than it may."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from millpond.checkpoint.records.times import TaskTimes
from millpond.engine.durability.inputlog import log_input
from millpond.engine.gathered.partitionedview import PartitionedView
from millpond.engine.local_state.openstate import drop_gone
from millpond.engine.messages import MESSAGE_SCHEMA
from millpond.engine.plan import EpochPlan, Level, ProgramPlan
from millpond.engine.sequence.portions import in_portions, put_in_order
from millpond.engine.sequence.rows import SequenceRows
from millpond.engine.sequence.spilled import Spilled
from millpond.engine.sequence.state import SequenceState
from millpond.engine.sequence.ways import HOME
from millpond.engine.task.delivery import Delivery
from millpond.engine.task.intake import Intake, read_feeds
from millpond.engine.task.step import StepRun
from millpond.engine.task.working import WorkingState
from millpond.ids import PartitionId
from millpond.state.local.storeview import StoreView
from millpond.storage.contract import Storage
from millpond.storage.open import open_storage


def task_of(plan: ProgramPlan, epoch: EpochPlan, step: int, partition: PartitionId, where: str) -> StepRun:
    """Return the run of a task to which rows come in any order; of rows in sequence there is one."""
    kind = SequenceRun if plan.in_sequence and partition == HOME and not epoch.continues else StepRun
    return kind(plan, epoch, step, partition, where=where)


def run_in_sequence(
    plan: ProgramPlan, epoch: EpochPlan, batches: Iterable[pa.RecordBatch], *, ordered: bool
) -> pa.Table:
    """Run an epoch in sequence in this process, with what the other partitions have to do in it."""
    storage = open_storage(plan.storage_url)
    told = [SequenceRun(plan, epoch, 0, HOME, storage=storage, ordered=ordered).run(batches)]
    others = (PartitionId(number) for number in range(plan.layout.partitions) if number != HOME)
    told += [StepRun(plan, epoch, 0, partition, storage=storage).run([]) for partition in others]
    return pa.Table.from_batches(told, schema=MESSAGE_SCHEMA)


@dataclass(slots=True)
class SequenceRun(StepRun):
    """The task that runs all rows of an epoch in sequence; if they come `ordered`, it holds few of them at once."""

    ordered: bool = False
    coming: Iterable[pa.RecordBatch] = ()

    def _read(self, batches: Iterable[pa.RecordBatch], intake: Intake) -> None:  # noqa: ARG002
        """Take rows later, as they come."""
        self.coming = batches

    def _portions(self, storage: Storage) -> Iterator[pa.Table]:
        """Return the rows in order, some at a time."""
        batches = self.coming
        if self.plan.durability is Level.REPLAY:
            batches = log_input(storage, self.epoch, self.partition, batches)
        if self.plan.event_time and any(one.ttl is not None for one in self.plan.program.elements.values()):
            # What expires by the times of rows is undone only from the first of them on: all are held.
            held = put_in_order(batches)
            return iter([pa.Table.from_batches(held)] if held else [])
        return in_portions(batches if self.ordered else put_in_order(batches))

    def _work(self, intake: Intake) -> pa.RecordBatch:
        storage = self._storage()
        with self._timed("open"):
            view = self._open(storage, self.partition)
        self.seen = self._see(view)
        plan, opened = self.plan, list[StoreView]()

        def open_home(partition: PartitionId) -> StoreView:
            opened.append(self._open(storage, partition))
            return opened[-1]

        every = range(plan.layout.key_groups)
        with ExitStack() as open_now:
            open_now.enter_context(view)
            homes = open_now.enter_context(PartitionedView(plan.layout, open_home))
            below = self._over_earlier(storage, homes, every)
            base = open_now.enter_context(Spilled(below, Path(plan.local_root)))
            delivery = Delivery(plan, self.epoch, self.step, self.partition, self.portion)
            state = SequenceState(plan, self.step, self.partition, base, every, over=self._over())
            state.prepare(self.epoch.parent, base, self.epoch.earlier.changed)
            rows = SequenceRows(plan, self.epoch, state, delivery)
            self._run_portions(storage, intake, rows, state, delivery)
            for one in (*opened, view):
                self._check(one)
            if self.failures:
                return self._report_failure(intake)
            with self._timed("save"):
                moved = state.save_by_home(storage, self.epoch.parent.mark, rows.count)
            self.timers.append(TaskTimes(state.soonest_us))
            nothing = WorkingState(plan, self.step, self.partition, view, over=self._over())
            told = self._finish(intake, nothing, delivery, storage, {}, moved, view)
            self._sweep(view)
        drop_gone(plan.local_root, self.epoch.parent, plan.layout)
        return told

    def _run_portions(
        self, storage: Storage, intake: Intake, rows: SequenceRows, state: SequenceState, delivery: Delivery
    ) -> None:
        portions = self._portions(storage)
        for table in portions:
            own = Intake()
            with self._timed("read"):
                read_feeds(self.plan, self.epoch, table.to_batches(), own)
            intake.received += own.received
            intake.received_bytes += own.received_bytes
            self._check_bad_rows(own, delivery)
            if not self.failures and own.work:
                with self._timed("user code"):
                    failure = rows.run(own.work)
                self.failures += [] if failure is None else [failure]
            if self.failures:
                break
            with self._timed("spill"):
                state.make_room()
            delivery.stage_many(storage)
        # Spark's worker must not be left with rows that nobody took.
        for _ in self.coming if self.failures else ():
            pass
