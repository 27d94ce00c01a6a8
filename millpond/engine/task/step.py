"""One task of a step: opens its state, runs the task elements over its rows in order, and returns what happened.

Knows nothing of Spark: rows come in as Arrow batches and leave as Arrow batches.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from millpond.checkpoint.records.times import TaskTimes
from millpond.checkpoint.records.work import Changed
from millpond.clock import SystemClock
from millpond.crashpoints import crashpoint
from millpond.engine.durability.inputlog import log_input
from millpond.engine.durability.pending import interim_changes, read_earlier, write_pending
from millpond.engine.failures import failure_of, refusal
from millpond.engine.gathered.partitionedview import PartitionedView
from millpond.engine.gathered.transactions import Transactions, left_out
from millpond.engine.local_state.openstate import drop_gone, open_state, store_path
from millpond.engine.messages import BYTES_IN, Control, Failure, Found, Load, Outbox, Seen, place_key
from millpond.engine.plan import BadRows, EpochPlan, Excluded, Level, ProgramPlan
from millpond.engine.task.columns import Rows
from millpond.engine.task.delivery import Delivery
from millpond.engine.task.inorder import InOrder, Left, Mask, Raised
from millpond.engine.task.intake import Intake, Work, read_feeds, read_messages
from millpond.engine.task.merging import mark_ties, merge_order
from millpond.engine.task.rowbatch import LEFT_OUT
from millpond.engine.task.working import WorkingState
from millpond.engine.time.ttl import Over, over_at, sweep
from millpond.errors import MillpondError
from millpond.graph.model import Dispatch
from millpond.ids import PartitionId
from millpond.program.semantics.epoch_time import epoch_time, firing_until
from millpond.state.local.localstore import LocalStore
from millpond.state.local.storeview import StoreView
from millpond.state.overlay import Base, Layered
from millpond.storage.content import FileRef
from millpond.storage.contract import Storage
from millpond.storage.open import open_storage


@dataclass(slots=True)
class StepRun:
    """The run of one partition's task of one step of one epoch; `counted` is told with what it counts itself.

    `where` is the executor that it runs on, if there are several. A task may run in portions, one after the other.
    """

    plan: ProgramPlan
    epoch: EpochPlan
    step: int
    partition: PartitionId
    counted: Mapping[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    raised: list[Failure] = field(default_factory=list)
    spent: dict[str, float] = field(default_factory=dict)
    where: str = ""
    seen: Seen = field(default_factory=Seen)
    begun: float = 0.0
    open_s: float = 0.0
    views: list[StoreView] = field(default_factory=list)
    gathered: tuple[Load, ...] = ()
    timers: list[TaskTimes] = field(default_factory=list)
    portion: int = 0
    storage: Storage | None = None

    def run(self, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
        """Work through the rows and return messages and control rows; failures of rows are told, not raised."""
        crashpoint("task.started")
        self.begun = _CLOCK.ticks()
        intake = Intake()
        times = epoch_time(self.epoch.now_us), firing_until(self.epoch.watermark.firing)
        with _no_cyclic_collection(), times[0], times[1], self._timed("task"):
            try:
                with self._timed("read"):
                    self._read(batches, intake)
                batch = self._work(intake)
            except MillpondError as error:
                batch = self.failed(error, intake)
        crashpoint("task.finished")
        return batch

    def failed(self, error: MillpondError, intake: Intake | None = None) -> pa.RecordBatch:
        """Return what a task tells that could not do its work."""
        self.failures.append(failure_of(error))
        return self._report_failure(intake or Intake())

    def _read(self, batches: Iterable[pa.RecordBatch], intake: Intake) -> None:
        if self.step == 0 and not self.epoch.continues:
            if self.plan.durability is Level.REPLAY:
                batches = log_input(self._storage(), self.epoch, self.partition, batches)
            read_feeds(self.plan, self.epoch, batches, intake)
        else:
            read_messages(self.plan, self.step, batches, intake)

    def _work(self, intake: Intake) -> pa.RecordBatch:
        storage = self._storage()
        with self._timed("open"):
            view = self._open(storage, self.partition)
        self.seen = self._see(view)
        away = [one for one in intake.work if one.task.dispatch is Dispatch.GATHERED]
        intake.work = [one for one in intake.work if one.task.dispatch is not Dispatch.GATHERED]
        with view:
            interim = interim_changes(storage, intake.control) if self.plan.relaxed else {}
            base = Layered(view, interim) if interim else self._over_earlier(storage, view)
            for by_key in (True, False):
                self.raised.clear()
                delivery = Delivery(self.plan, self.epoch, self.step, self.partition, self.portion)
                state = WorkingState(self.plan, self.step, self.partition, base, over=self._over())
                self._check_bad_rows(intake, delivery)
                if self.failures or not intake.work:
                    break
                if not self._run_work(intake.work, state, delivery, by_key=by_key) or not self.failures:
                    break
                # The failure to tell is the first one in input order, which a run by key does not meet first.
                self.failures.clear()
                # What rows carry may have been changed already: run again as it is, they would do something else.
                intake.work = [one.renewed() for one in intake.work]
            moved = self._run_away(away, delivery, storage) if away else Changed()
            self._check(view)
            if self.failures:
                return self._report_failure(intake)
            told = self._finish(intake, state, delivery, storage, interim, moved, view)
            self._sweep(view)
        if self.step == 0:
            drop_gone(self.plan.local_root, self.epoch.parent, self.plan.layout)
        return told

    def _over_earlier(self, storage: Storage, base: Base, groups: Sequence[int] | None = None) -> Base:
        """Return a base with what earlier parts of the epoch changed of key groups, by default those of the task."""
        owned = self.plan.layout.groups_of(self.partition) if groups is None else groups
        changed = read_earlier(storage, self.epoch.earlier, owned)
        return Layered(base, changed) if changed else base

    def _storage(self) -> Storage:
        """Return the storage that the task was given, or open it by its address."""
        return self.storage or open_storage(self.plan.storage_url)

    def _busy(self, view: StoreView) -> dict[int, float]:
        """Say how long this task and those of earlier steps were at work; only the last one tells.

        Times differ between attempts, so they must not cross a shuffle: the store remembers them. Waiting for state is
        no work: what was restored in this epoch is here in the next one.
        """
        waited = self.open_s + sum(one.restore_s for one in self.views)
        took = max(_CLOCK.ticks() - self.begun - waited, 0.0)
        number = self.epoch.epoch
        if self.step == self.plan.steps - 1:
            return {**(view.busy(number) if self.step else {}), self.step: took}
        before = view.busy(number).get(self.step, 0.0) if self.portion else 0.0
        self._store().note_busy(number, self.step, before + took)
        return {}

    def _store(self) -> LocalStore:
        return LocalStore.at(store_path(self.plan.local_root, self.epoch.parent.uuid, self.partition))

    def _open(self, storage: Storage, partition: PartitionId) -> StoreView:
        plan, begun = self.plan, _CLOCK.ticks()
        view = open_state(storage, plan.local_root, self.epoch.parent, plan.layout, partition, plan.restore)
        self.open_s += _CLOCK.ticks() - begun
        self.views.append(view)
        return view

    def _see(self, view: StoreView) -> Seen:
        """Say how the state was found, by this step or those before it in the epoch: the store remembers that."""
        parent = self.epoch.parent.epoch
        restored = view.restored
        if not parent:
            return Seen(self.where)
        if restored is None or restored.epoch != parent:
            return Seen(self.where, Found.LOCAL)
        return Seen(self.where, Found.CAUGHT_UP if restored.had_copy else Found.RESTORED, restored.seconds)

    def _check(self, view: StoreView) -> None:
        """Raise what went wrong in a view below the user's code, before any row is blamed; tell what it waited for."""
        view.check()
        if view.restore_s:
            self.spent["restore"] = self.spent.get("restore", 0.0) + view.restore_s

    def _run_away(self, work: list[Work], delivery: Delivery, storage: Storage) -> Changed:
        """Run rows over several keys, with the state of all partitions at hand, and save what they changed."""
        plan = self.plan
        opened: list[StoreView] = []

        def open_home(partition: PartitionId) -> StoreView:
            opened.append(self._open(storage, partition))
            return opened[-1]

        with PartitionedView(plan.layout, open_home) as homes:
            every = range(plan.layout.key_groups)
            given = (plan, self.step, self.partition, self._over_earlier(storage, homes, every), every)
            state = WorkingState(*given, over=self._over())
            with self._timed("gather"):
                rows = Transactions(plan, self.epoch, work, state, delivery)
            with self._timed("user code"):
                failure = rows.run()
            for view in opened:
                self._check(view)
            if failure is not None:
                self.failures.append(failure)
                return Changed()
            with self._timed("save"):
                saved = state.save_by_home(storage, self.epoch.parent.mark, sum(map(len, work)))
        self.timers.append(TaskTimes(state.soonest_us))
        self.gathered = tuple(state.loads)
        return saved

    def _over(self) -> Over:
        return over_at(self.plan, self.epoch.parent)

    def _sweep(self, view: StoreView) -> None:
        over = self._over() if self.step == self.portion == 0 else {}
        if over:
            groups = self.plan.layout.groups_of(self.partition)
            with self._timed("sweep"):
                sweep(self._store(), view, over, groups, self.epoch.parent.epoch)

    def _report_failure(self, intake: Intake) -> pa.RecordBatch:
        first = min(self.failures, key=lambda failure: place_key(failure.place))
        control = Control(self.step, self.partition, intake.received, 0, failure=first)
        return Outbox().table(control, intake.control)

    def _finish(
        self,
        intake: Intake,
        state: WorkingState,
        delivery: Delivery,
        storage: Storage,
        interim: dict[bytes, bytes | None],
        moved: Changed,
        view: StoreView,
    ) -> pa.RecordBatch:
        last = self.step == self.plan.steps - 1
        with self._timed("save"):
            saved = state.save(storage, self.epoch.parent.mark, interim if last else {}, sum(map(len, intake.work)))
        outbox, waiting = delivery.outbox, intake.waiting
        pending: tuple[FileRef, ...] = ()
        sent = len(outbox)
        if last and (sent or waiting is not None):
            pending = (write_pending(storage, self.plan, outbox.messages(waiting), self.epoch.parent.mark),)
            outbox, waiting, sent = Outbox(), None, 0
        with self._timed("reply"):
            outputs = delivery.write_files(storage)
        counters = {**delivery.counters, **self.counted}
        counters[BYTES_IN] = intake.received_bytes
        # Times and places differ between attempts, so they must not cross a shuffle: only the last step tells them.
        spent, seen = (dict(self.spent), self.seen) if last else ({}, Seen())
        control = Control(
            self.step,
            self.partition,
            intake.received,
            sent + (0 if waiting is None else waiting.num_rows),
            changed=saved,
            moved=moved,
            outputs=outputs,
            counters=counters,
            times=TaskTimes.joined(
                [TaskTimes(state.soonest_us, delivery.highest_us, tuple(sorted(delivery.heard))), *self.timers]
            ),
            raised=tuple(self.raised),
            incomplete=intake.incomplete,
            pending=pending,
            spent=spent,
            seen=seen,
            loads=(*state.loads, *self.gathered),
            size_bytes=intake.received_bytes + intake.message_bytes,
            busy=self._busy(view),
        )
        return outbox.table(control, intake.control, waiting)

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        start = _CLOCK.ticks()
        yield
        self.spent[name] = self.spent.get(name, 0.0) + _CLOCK.ticks() - start

    def _check_bad_rows(self, intake: Intake, delivery: Delivery) -> None:
        for bad in intake.bad:
            feed = self.plan.feeds[bad.feed]
            if feed.bad_rows is BadRows.FAIL:
                self.failures.append(refusal(bad, feed))
            elif self._counts(bad.feed):
                delivery.bad_row(bad)
        for late in intake.late:
            if self._counts(late.feed):
                delivery.late_rows(late)

    def _counts(self, feed: int) -> bool:
        """Say whether this partition counts the feed's bad rows: of rows that go to all, one partition alone does."""
        to_all = self.plan.entry_of(feed).tasks[0].dispatch is Dispatch.ONE_TO_ALL
        return not to_all or 0 in self.plan.layout.instances_of(self.partition)

    def _run_work(self, work: list[Work], state: WorkingState, delivery: Delivery, *, by_key: bool) -> bool:
        """Run the rows; say whether they ran key by key, which is much faster: each value is touched in one go."""
        with self._timed("prefetch"):
            ranks = [state.prefetch(one) for one in work]
        with self._timed("sort"):
            mark_ties(self.plan, work)
            order, owners, rows = merge_order(self.plan, work)
        left_out = self._leave_out(work, delivery) if self.epoch.excluded else None
        alone = by_key and len(work) == 1 and state.by_key_alone(work[0].task)
        lanes = state.lanes()
        if alone and ranks[0] is not None:
            order = rows = _by_rank(ranks[0], order)
            lanes = [None]
        with self._timed("user code"):
            for lane in lanes:
                failure = self._run_lane(lane, work, owners, rows, order, state, delivery, left_out)
                if failure is not None:
                    self.failures.append(failure)
                    break
        return alone

    def _run_lane(
        self,
        lane: int | None,
        work: list[Work],
        owners: Rows,
        rows: Rows,
        order: Rows | None,
        state: WorkingState,
        delivery: Delivery,
        left_out: Mask | None,
    ) -> Failure | None:
        at = np.arange(len(owners)) if order is None else order
        picked = (
            np.ones(len(owners), dtype=bool) if lane is None else np.concatenate(_lane_mask(self.plan, work, lane))[at]
        )
        tried: Mask | None = None
        if left_out is not None and self.plan.relaxed:
            picked &= ~left_out[at]
        elif left_out is not None:
            tried = left_out[at][picked]
        return InOrder(
            work,
            owners[picked],
            rows[picked],
            as_they_are=order is None and len(work) == 1 and bool(picked.all()),
            containers=partial(state.containers, lane=lane),
            reach=partial(state.reach, lane=lane),
            delivery=delivery,
            judge=partial(self._judge, delivery),
            lane=lane,
            tried=tried,
        ).run()

    def _leave_out(self, work: list[Work], delivery: Delivery) -> Mask:
        """Return the rows that an earlier try of the epoch found to raise; the first step writes them down."""
        masks = []
        for one in work:
            found = _excluded_among(self.epoch, one)
            if one.task.index == 0 and self._counts(one.feed):
                for row, why in found.items():
                    if self.plan.feeds[one.feed].bad_rows is not BadRows.FAIL:
                        delivery.bad_row(one.bad_row(row, self.epoch, why.reason, why.letter))
            mask = np.zeros(len(one), dtype=bool)
            mask[list(found)] = True
            masks.append(mask)
        return np.concatenate(masks)

    def _judge(self, delivery: Delivery, raised: Raised) -> Failure | Left:
        """Decide what becomes of a row that raised: it stops the run, is left out here, or is tried next time."""
        one, plan = raised.prepared, self.plan
        fails = plan.feeds[one.work.feed].bad_rows is BadRows.FAIL
        # All that it did was done here; of one that is sent to all instances, others do their part elsewhere.
        whole = one.work.task.index == 0 and one.work.task.dispatch is not Dispatch.ONE_TO_ALL
        later = ((fails or not whole) and plan.sifts) or (not fails and not whole and plan.relaxed)
        if raised.tried or later:
            told = msgspec.structs.replace(one.failure(raised.error, raised.at, self.epoch), trace=None)
            return Left(LEFT_OUT, partial(self.raised.append, told))
        if fails or not whole:
            return one.failure(raised.error, raised.at, self.epoch)
        return left_out(plan, self.epoch, delivery, raised)


_CLOCK = SystemClock()


@contextmanager
def _no_cyclic_collection() -> Iterator[None]:
    # With many small state values the collector costs several times the work itself.
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _by_rank(ranks: Rows, order: Rows | None) -> Rows:
    """Get the rows key by key, those of a key in order: two passes over 16 bits each, which NumPy sorts by counting."""
    ordered = ranks if order is None else ranks[order]
    low = np.argsort(ordered.astype(np.uint16), kind="stable")
    high = ordered >> 16
    if len(high) and int(high.max()):
        low = low[np.argsort(high.astype(np.uint16)[low], kind="stable")]
    return low if order is None else order[low]


def _lane_mask(plan: ProgramPlan, work: list[Work], lane: int) -> list[Any]:
    layout = plan.layout
    masks = []
    for one in work:
        if one.task.dispatch is Dispatch.ONE_TO_ALL:
            masks.append(np.ones(len(one), dtype=bool))
        else:
            assert one.groups is not None, one.task.name
            masks.append(one.groups.astype(np.int64) * layout.instances // layout.key_groups == lane)
    return masks


def _excluded_among(epoch: EpochPlan, work: Work) -> dict[int, Excluded]:
    """Find the rows, or turns of their loops, that an earlier try of the epoch found to raise, by their numbers."""
    own = {(_numbers(row), row.source): row for row in epoch.excluded if row.feed == work.feed}
    if not own:
        return {}
    columns = (work.places.order, work.places.position, work.places.tie, work.places.duplicate)
    alike = np.ones(len(work), dtype=bool)
    for at, column in enumerate(columns):
        alike &= np.isin(column, [numbers[at] for numbers, _ in own])
    found: dict[int, Excluded] = {}
    for row in np.flatnonzero(alike).tolist():
        numbers = tuple(int(column[row]) for column in columns)
        excluded = own.get((numbers, epoch.source_name(work.sources[row].as_py())))
        if excluded is not None:
            found[row] = excluded
    return found


def _numbers(row: Excluded) -> tuple[int, ...]:
    return row.order, row.position, row.tie, row.duplicate
