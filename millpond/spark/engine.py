"""Spark as the engine of a driver: each epoch is a job over a DataFrame of routed rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from millpond.checkpoint.records.manifest import Loss
from millpond.compiler.compiled import CompiledProgram
from millpond.engine.compute import (
    Committed,
    Computed,
    Engine,
    Part,
    Request,
    work_of_messages,
    work_of_parts,
    work_of_rows,
)
from millpond.engine.durability.replaying import could_replay
from millpond.engine.elastic.rebalancer import Rebalancer
from millpond.engine.local_state.initialstate import LoadReport, Target
from millpond.engine.options import Tuning
from millpond.engine.plan import Level, ProgramPlan
from millpond.engine.time.timekeeping import Firing
from millpond.engine.time.timers import Due, Look, look_here
from millpond.keygroups import Layout
from millpond.spark.exchange.compute import EpochJob, Packed, run_messages
from millpond.spark.exchange.epochcuts import Piece, pieces_of
from millpond.spark.exchange.route import Shape, shorten_sources, union_feeds
from millpond.spark.exchange.tables import frame_of
from millpond.spark.feeds.feeds import Feed
from millpond.spark.feeds.initialfeed import write_entries
from millpond.spark.placement.placement import Anchor, Anchors, parallelism
from millpond.spark.reporting.jobnames import epoch_name, named
from millpond.spark.reporting.observers import Observers
from millpond.spark.reporting.progress import Progress
from millpond.spark.reporting.reports import EpochReport, report_of
from millpond.spark.streaming.ticks import TIMER_SHAPE, look_on_hosts, timer_rows
from millpond.storage.contract import Storage

GROWTH_MAX = 8
"""By how much an epoch may be larger than a small one before a single task gives it up to many."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The routed rows of an epoch, and the one file that all of them come from, if that is known.

    `check_wanted` raises if they are of a query that was stopped meanwhile.
    """

    frame: DataFrame
    only_file: str | None = None
    check_wanted: Callable[[], None] = lambda: None


class SparkEngine(Engine[Batch, DataFrame]):
    """Computes epochs on a session, and learns from each where the next one had better run.

    Reports of epochs are kept while it `gathers` them: those of a query without an end would fill the memory.
    """

    def __init__(
        self,
        spark: SparkSession,
        program: CompiledProgram,
        storage: Storage,
        store_root: str,
        tuning: Tuning,
        *,
        one_host: bool,
        shown: bool | None,
    ) -> None:
        self._spark = spark
        self._program = program
        self._storage = storage
        self._one_host = one_host
        self.progress = Progress(program.name, shown=shown)
        self.observers = Observers(program.name)
        self.rebalancer = Rebalancer(program, tuning.elastic, parallelism(spark))
        self.anchors = Anchors(spark, store_root, holding=tuning.keep_in_place and not one_host)
        # A small epoch runs in one task: a shuffle would cost more than a second core saves. On a cluster none is
        # small, since one task would draw the state of all partitions to one executor.
        self._small_rows = tuning.small_epoch * one_host
        self._last_rows: int | None = None
        self._feeds: Sequence[Feed] = ()
        self._handlers: Sequence[Feed] = ()
        self._layout: Layout | None = None
        self.reports: list[EpochReport] = []
        self.gathers = False

    def feed(self, feeds: Sequence[Feed], handlers: Sequence[Feed]) -> None:
        """Take rows of these feeds from the next start on, and timers for these handlers."""
        self._feeds, self._handlers = feeds, handlers

    def follow(self, plan: ProgramPlan) -> None:
        """Compute by this plan from now on: what is shipped to workers changes, what rows carry does not."""
        if self._layout not in (None, plan.layout):
            self.anchors.forget_loads()
        self._layout = plan.layout
        shape = Shape.of([feed.entry for feed in self._feeds], [feed.order for feed in self._feeds], plan.layout)
        self._fed = Packed.of(plan, shape)
        if self._handlers:
            self._called = Packed.of(replace(plan, feeds=tuple(feed.plan for feed in self._handlers)), TIMER_SHAPE)

    @property
    def _plan(self) -> ProgramPlan:
        return self._fed.plan

    def routed(self, feeds: Sequence[Feed]) -> DataFrame:
        """Return the rows of all feeds as one DataFrame, each with its key group and its place in the order."""
        return union_feeds([feed.routed(self._plan.layout, self._fed.shape) for feed in feeds])

    def compute_rows(self, rows: Batch, request: Request) -> Computed:
        """Run the tasks of an epoch over its rows."""
        computed = self._computed(self._fed, rows.frame, request, self._likely_small(), rows.only_file)
        rows.check_wanted()
        return computed

    def compute_messages(self, left: pa.Table, request: Request) -> Computed:
        """Go on with messages that the parent left."""
        frame, few, anchor = self._spark.createDataFrame(left), self._one_task(left.num_rows), self._anchor(request)
        with self._named(self._plan, request):
            return work_of_messages(
                self._plan, request, lambda _, epoch: run_messages(frame, self._fed, epoch, few, anchor)
            )

    def compute_timers(self, due: Due, firing: Firing, request: Request) -> Computed:
        """Call the handlers of timers that are due."""
        table = timer_rows(self._called.plan, self._handlers, due, firing.until_us, request.watermark.floor_us)
        return self._computed(self._called, frame_of(self._spark, table), request, self._one_task(len(due.timers)))

    def _computed(
        self, packed: Packed, rows: DataFrame, request: Request, one_task_rows: int, only_file: str | None = None
    ) -> Computed:
        short, prefix = shorten_sources(rows, packed.shape, only_file)
        anchor = self._anchor(request)
        with self._named(packed.plan, request):
            # What is small enough for one task gains nothing by several.
            pieces = pieces_of(packed.plan, short, None if one_task_rows else self._small_rows)
            *parts, whole = (self._part(piece, packed, one_task_rows, anchor) for piece in pieces)
            if not parts:
                return work_of_rows(*whole, request, prefix)
            return work_of_parts(parts, whole, request, prefix)

    def _part(self, piece: Piece, packed: Packed, one_task_rows: int, anchor: Anchor | None) -> Part:
        job = EpochJob(piece.rows, packed, one_task_rows, self._one_host, anchor)
        return Part(piece.plan, lambda plan, epoch: piece.check(job.run(plan, epoch)))

    def _named(self, plan: ProgramPlan, request: Request) -> AbstractContextManager[None]:
        """Let Spark's UI show which epoch a job is of."""
        return named(self._spark, epoch_name(self._program.name, request.parent.epoch + 1, plan.steps))

    def look(self, look: Look, request: Request) -> list[Due]:
        """Look for timers into the stores from here if this is their only host, and else where they are."""
        if self._one_host:
            return look_here(self._plan, self._storage, request.parent, look)
        return look_on_hosts(self._spark, self._fed, request.parent, self._anchor(request), look)

    def compute_load(self, target: Target, entries: DataFrame) -> list[LoadReport]:
        """Write the entries of a load, each range of key groups in a task."""
        return write_entries(entries, self._fed.shipment, target, self._plan.layout.partitions)

    def rebalanced(self, layout: Layout) -> Layout:
        """Say who owns what from now on: as it was, or as it was decided or asked for since the last epoch."""
        return self.rebalancer.take(layout)

    def on_replay(self, done: int, total: int) -> None:
        """Show that an epoch is computed again."""
        self.progress.replayed(done, total)

    def on_loss(self, loss: Loss) -> None:
        """Show what was lost."""
        self.progress.lost(loss)

    def on_commit(self, epoch: Committed) -> None:
        """Learn from an epoch, and report it."""
        report = report_of(epoch)
        rebalanced = self.rebalancer.note(report.epoch, self._plan.layout, epoch.controls, report.seconds, report.rows)
        report = report.rebalanced(rebalanced)
        self._last_rows = report.rows or self._last_rows
        self.anchors.note(epoch.controls, self.rebalancer.seen)
        if self.gathers:
            self.reports.append(report)
        self.progress.epoch(report)
        self.observers.epoch(report)

    def close(self, level: Level) -> None:
        """End a run: leave the last line on the screen, suggest another level, and remove stores from executors."""
        self.progress.stop()
        fed = [report for report in self.reports if report.rows]
        if fed and self._one_host and not self._plan.event_time and could_replay(self._program):
            sizes = sum(report.bytes_in for report in fed), sum(report.bytes_changed for report in fed)
            self.progress.suggest_level(level, *sizes)
        self.anchors.close()

    def _anchor(self, request: Request) -> Anchor | None:
        return self.anchors.prepare(self._plan.layout.partitions, last=request.last)

    def _one_task(self, rows: int) -> int:
        """Return how many rows may run in one task, if there are so many: all or none."""
        return self._small_rows if rows <= self._small_rows else 0

    def _likely_small(self) -> int:
        """Return how many rows the next epoch may have to run in one task, if the last one makes that likely."""
        small = self._last_rows is not None and self._last_rows <= self._small_rows
        return self._small_rows * GROWTH_MAX if small else 0
