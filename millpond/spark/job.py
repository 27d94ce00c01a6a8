"""A program on Spark: feeds, sinks, and queries that run it exactly once."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Never, TypeAlias
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from millpond.checkpoint.commit.checkpoint import Checkpoint, EpochOutcome, EpochResult, EpochWork, Parent
from millpond.checkpoint.commit.refusal import sources_changed
from millpond.checkpoint.records.manifest import Loss, Ownership
from millpond.checkpoint.records.offers import Batch, BoundedRun, Offer, Ticked, sources_of
from millpond.clock import SystemClock
from millpond.compiler.compile import compile_program
from millpond.compiler.compiled import CompiledProgram
from millpond.compiler.explain import explain
from millpond.engine.durability.boundedloss import BoundedLossRun, bounded_loss_settings
from millpond.engine.durability.pending import read_pending
from millpond.engine.durability.replaying import check_durability, could_replay, has_input, replay_lost
from millpond.engine.elastic.rebalancer import Rebalancer
from millpond.engine.local_state.consolidation import Consolidation
from millpond.engine.local_state.evolving import Schemas, check_elements
from millpond.engine.local_state.initialstate import Into
from millpond.engine.local_state.openstate import default_local_root
from millpond.engine.local_state.rescaling import Instances, check_instances
from millpond.engine.messages import Control
from millpond.engine.options import Durability, Tuning
from millpond.engine.plan import Level, ProgramPlan, SinkPlan
from millpond.engine.publish.publish import Publisher
from millpond.engine.schema import element_schemas
from millpond.engine.time.declared import EventTime
from millpond.engine.time.timekeeping import Left, Timekeeper
from millpond.engine.time.timers import nothing_fed
from millpond.errors import FeedError, MillpondError
from millpond.keygroups import Layout
from millpond.lengths import Length
from millpond.program.program import ProgramBase
from millpond.sinks.protocol import Sink
from millpond.spark.checks import check_feeds, check_sources
from millpond.spark.exchange.compute import compute_epoch, continue_epoch
from millpond.spark.exchange.route import Shape, union_feeds
from millpond.spark.exchange.smallepochs import SmallEpochs
from millpond.spark.feeds.eventtime import with_event_time
from millpond.spark.feeds.feeds import Feed, OnBadRow, make_feed
from millpond.spark.feeds.initialfeed import Load, make_load, run_load
from millpond.spark.feeds.letters import letter_feeds
from millpond.spark.placement.executor import root_on_executor
from millpond.spark.placement.placement import Anchors, checked_host, parallelism
from millpond.spark.progress import EpochReport, Progress, RunReport, report_of
from millpond.spark.runs import Run
from millpond.spark.ship import pack
from millpond.spark.streaming.handing import ReplyFrames
from millpond.spark.streaming.sparklog import only_file
from millpond.spark.streaming.streaming import AVAILABLE_NOW, Streaming
from millpond.spark.streaming.ticks import TICK, Ticker, TimerFeeds, TimerRun, tick_seconds
from millpond.spark.streaming.workroot import WorkRoot
from millpond.spelling import check_call
from millpond.state.local.ownfolders import own_folder
from millpond.storage.addresses import identity_of
from millpond.storage.composed.unsynced import unsynced_storage
from millpond.storage.contract import bottom
from millpond.storage.open import open_storage

Session: TypeAlias = SparkSession
"""The user's own Spark session."""

_CLOCK = SystemClock()


class Job:
    """A program with its checkpoint on a Spark session; add feeds, then `start` or `run` it."""

    def __init__(
        self,
        program: type[ProgramBase],
        spark: SparkSession,
        *,
        checkpoint: str | Path,
        partitions: int | None = None,
        local_root: str | Path | None = None,
        progress: bool | None = None,
        durability: Durability | None = None,
        tuning: Tuning | None = None,
        **old: Never,
    ) -> None:
        records = {"durability": (Durability, durability), "tuning": (Tuning, tuning)}
        check_call("Program.on", old, ("checkpoint", "partitions", "local_root", "progress", *records), records)
        kept, tuned = durability or Durability(), tuning or Tuning()
        self._class = program
        self._spark = spark
        self._program: CompiledProgram = compile_program(program)
        self._one_host = checked_host(spark)
        self._durability = check_durability(self._program, kept.chosen, one_host=self._one_host)
        self._bounded_loss = BoundedLossRun(bounded_loss_settings(self._program, kept.chosen))
        self._storage = open_storage(str(checkpoint))
        # By the address without its password, which may change.
        known_as = identity_of(self._storage.url)
        self._local_root = str(local_root or own_folder(Path(default_local_root(known_as, tempfile.gettempdir()))))
        # On a cluster, even executors of one host have stores of their own.
        on_executor = local_root is None and not self._one_host
        self._store_root = root_on_executor(known_as, uuid4().hex[:8]) if on_executor else self._local_root
        self._anchors = Anchors(spark, self._store_root, holding=tuned.keep_in_place and not self._one_host)
        self._near = unsynced_storage(self._storage, known_as, self._local_root)
        if self._durability is Level.REPLAY or self._bounded_loss.settings:
            self._storage = self._near
        schemas = element_schemas(self._program)
        self._checkpoint = Checkpoint.open(
            self._storage, schemas, tuned.key_groups, tuned.instances, evolving=True, keep=kept.keep
        )
        uuid = self._checkpoint.genesis.uuid
        self._work = WorkRoot.of(bottom(self._storage), kept.work, self._local_root, uuid, one_host=self._one_host)
        self._restore = kept.restore
        # Elsewhere the stores are on the hosts of the executors, where tasks do it when they open them.
        self._consolidation = Consolidation(self._storage, self._local_root) if self._one_host else None
        self._schemas = Schemas(self._checkpoint, self._program, self._local_root, shown=progress)
        self._instances = Instances(self._checkpoint, self._program, tuned.instances, self._local_root, shown=progress)
        self._layout = self._instances.last_layout(partitions, parallelism(spark))
        self._steering = Rebalancer(self._program, tuned.elastic, parallelism(spark))
        self._progress = Progress(self._program.name, shown=progress)
        self._retries = tuned.retries
        self._small = SmallEpochs.of(tuned.small_epoch, one_host=self._one_host)
        self._steps_max = tuned.steps
        self._memory_bytes = tuned.memory_bytes
        self._feeds: list[Feed] = []
        self._loads: list[Load] = []
        self._times = Timekeeper(self._program, lambda: self._checkpoint.head)
        self._timers = TimerFeeds(self._program, self._times.handlers)
        self._ticker: Ticker | None = None
        self._streaming = Streaming(spark, self._store_root)
        # Ticks come from a thread of their own, and an epoch is offered by one at a time.
        self._one_epoch = threading.RLock()
        self._reports: list[EpochReport] = []
        # A bounded run returns its reports; those of a query without an end would fill the memory.
        self._gathers = False
        self._goes_on = True
        self.error: MillpondError | None = None

    def feed(
        self,
        entry: str,
        frame: DataFrame,
        *,
        to: Sink | None = None,
        keep: Sequence[str] | None = None,
        order_by: str | None = None,
        on_bad_row: OnBadRow = "fail",
        name: str | None = None,
        time: EventTime | None = None,
        **old: Never,
    ) -> Job:
        """Feed the rows of a DataFrame to an entry point; columns are matched to parameters by name and type.

        Replies go `to` a sink with the columns to `keep` (by default the parameters). `order_by` names the column that
        orders rows; without it the source must number them (Parquet, Kafka), unless order can't be seen. A bad row
        fails the run, is skipped and counted (`"skip"`), or goes to a dead-letter sink.

        `time` is when a row happened, and how rows come: `EventTime("at", disorder="10 s")`. Then `self.now`, timers
        and times to live go by it. docs/TIME.md tells all of it.
        """
        taken = ("to", "keep", "order_by", "on_bad_row", "name", "time")
        check_call("job.feed", old, taken, {"time": (EventTime, time)})
        self._timers.check_feed(entry, name or entry)
        feed = make_feed(
            self._program,
            len(self._feeds),
            entry,
            frame,
            to=to,
            keep=keep,
            order_by=order_by,
            on_bad_row=on_bad_row,
            name=name,
            outputs=self._work.outputs,
        )
        if time is not None:
            feed = with_event_time(feed, time, self._work.outputs)
        if any(other.plan.name == feed.plan.name for other in self._feeds):
            raise FeedError(
                "MP507",
                f"two feeds are named `{feed.plan.name}`",
                expected="one name each",
                hint='give one a name of its own: job.feed(..., name="more-ratings")',
            )
        self._feeds.append(feed)
        return self

    @property
    def loss(self) -> Loss | None:
        """What of state with bounded loss was lost with a host, as the last start found it."""
        return self._bounded_loss.loss

    def resize(self, partitions: int) -> Job:
        """Have another number of partitions from the next epoch on, also of a query that runs: no restart.

        Only key groups that get another owner move. docs/ELASTIC.md tells more.
        """
        self._steering.ask(partitions, self._layout)
        return self

    def explain(self) -> str:
        """The program's graph, and what epochs of this job have shown: rows and seconds by task, and hot keys."""
        return f"{explain(self._class)}\n{self._steering.told()}"

    def on_timer(self, handler: str, *, to: Sink, rows: pa.Schema | None = None) -> Job:
        """Send what a handler of timers or windows replies to a sink, with its key; as `rows` if it is a list."""
        self._timers.send(handler, to, rows)
        return self

    on_window = on_timer

    def load(self, element: str, frame: DataFrame, *, into: Into | None = None, name: str | None = None) -> Job:
        """Fill a state element with the rows of a DataFrame, before the first rows of the feeds.

        Columns are `key` and `value` as in `read_state`, and the element must be empty. It is done once, under its
        `name` (by default the element's), which it must have on a checkpoint that has worked on rows. Of partial state,
        `into` says whether the first instance is filled or all of them. docs/EVOLUTION.md tells all of it.
        """
        self._loads.append(make_load(self._program, element, frame, into, name, self._loads))
        return self

    def start(
        self,
        trigger: str | None = None,
        *,
        name: str | None = None,
        adopt: bool = False,
        spark_checkpoint: str | None = None,
        tick: Length = TICK,
    ) -> StreamingQuery:
        """Start a streaming query over all feeds and return Spark's own handle of it.

        `trigger` is an interval ("1 second"), "available now", or None for as fast as it goes. `adopt=True` accepts a
        first batch that does not follow the checkpoint (a replaced Spark checkpoint, changed feeds) as new data. `tick`
        is how often a program with timers or a time to live looks at the clock while its feeds are idle (1 second; a
        length of 0 for never); what goes wrong then ends the query, and is in `error`.
        """
        tick_s = tick_seconds(tick)
        check_feeds(self._feeds, streaming=True)
        spark_root = Path(spark_checkpoint or self._work.spark_folder())
        if self._ticker is not None:
            self._ticker.end()
        self._streaming.settle()
        self._anchors.wait_closed()
        run = self._prepare()
        resumes = spark_checkpoint is None and self._work.has_spark_checkpoint()
        check_sources(self._checkpoint, run.sources, adopt=adopt, resumes=resumes)
        first = [adopt]

        def on_batch(query: str, batch: DataFrame, batch_id: int) -> None:
            offer = Batch(query, batch_id, run.sources)
            self._steering.queue(self._streaming.queued_rows())
            self._guarded(run, offer, batch, adopt=first[0], only_file=only_file(spark_root, batch_id))
            first[0] = False

        # Spark knows a source by its place in the plan: by name, that place does not depend on the declaration.
        by_name = sorted(self._feeds, key=lambda feed: feed.plan.name)
        rows = union_feeds([feed.routed(self._layout, run.shape) for feed in by_name])
        query = self._streaming.start(
            rows, on_batch, checkpoint=spark_checkpoint or str(spark_root), name=name, trigger=trigger
        )
        self._anchors.close_after(query.awaitTermination)
        if self._times.timed and tick_s and trigger != AVAILABLE_NOW:
            self._start_ticks(run, query, tick_s)
        return query

    def _start_ticks(self, run: Run, query: StreamingQuery, seconds: float) -> None:
        def tick() -> None:
            with self._one_epoch:
                if query.isActive and self._times.ticks():
                    self._fire(run, self._times.moment())
                    self._fire_owed(run)

        def failed(error: MillpondError) -> None:
            # Spark has no way to fail a query from outside.
            self.error = error
            query.stop()

        self._ticker = Ticker(seconds, tick, lambda: bool(query.isActive), failed)
        self._ticker.start()

    def run(self, name: str = "run", *, adopt: bool = False, close: bool | None = None) -> RunReport:
        """Run over bounded input to its end.

        Batch DataFrames are one epoch, applied once per `name`: running again with a name that is committed does
        nothing, so give new data a new name. Streaming DataFrames are read until nothing is left. With event time, a
        run that may `close` moves the watermark to the end of time: all timers fire, and no rows can follow. Runs
        over batch DataFrames do so unless told otherwise, others only if told.
        """
        if not name:
            raise FeedError("MP517", "a bounded run needs a name", expected='run("name")', found=repr(name))
        self._reports.clear()
        self._gathers = True
        try:
            if self._feeds and self._feeds[0].frame.isStreaming:
                self._run_stream(adopt)
                if close:
                    self._close()
            else:
                check_feeds(self._feeds, streaming=False)
                run = self._prepare()
                batch = union_feeds([feed.routed(self._layout, run.shape) for feed in self._feeds])
                # There is no next epoch that would gain by it.
                self._goes_on = False
                ends = self._times.by_event and close is not False
                self._guarded(run, BoundedRun(name, run.sources), batch, adopt=adopt, ends=ends)
        finally:
            self._gathers = False
            self._goes_on = True
            self._progress.stop()
            self._suggest()
            self._checkpoint.close()
            if self._consolidation is not None:
                self._consolidation.close()
            self._anchors.close()
            self._bounded_loss.close()
        return RunReport(tuple(self._reports), self._checkpoint.epoch, self.loss)

    def replay(self, letters: DataFrame | Sink, name: str = "replay") -> RunReport:
        """Feed dead letters of this job again, or some of them: a DataFrame of them, or the sink that holds them.

        They run as one epoch in their input order, applied once per `name`; what is still bad is a dead letter again.
        """
        feeds, self._feeds = self._feeds, letter_feeds(self._spark, self._feeds, letters, self._streaming.query)
        try:
            return self.run(f"{name} of dead letters" if name else name, close=False)
        finally:
            self._feeds = feeds

    def _close(self) -> None:
        """Move the watermark to the end of time, in an epoch without rows, unless that is done."""
        self._anchors.wait_closed()
        run = self._prepare()
        if self._times.by_event and not self._times.ended:
            self._fire(run, self._times.moment(), ends=True)
            self._fire_owed(run)

    def _suggest(self) -> None:
        if self._one_host and not self._times.by_event and could_replay(self._program):
            told = [one for one in self._reports if one.rows]
            sizes = sum(one.bytes_in for one in told), sum(one.bytes_changed for one in told)
            self._progress.suggest_level(self._durability, *sizes)

    def _run_stream(self, adopt: bool) -> None:
        query = self.start(AVAILABLE_NOW, adopt=adopt)
        self._streaming.wait(query, lambda: self.error)

    def _prepare(self) -> Run:
        self.error = None
        self._times.follow({feed.plan.name: feed.plan.time for feed in self._feeds}, self._durability)
        kept, frames = self._work.checkpoint_area(self._local_root), ReplyFrames(self._spark, self._work)
        publisher = Publisher(self._checkpoint.genesis, self._sinks(), kept, frames)
        publisher.begin(self._checkpoint)
        if has_input(self._checkpoint.head):
            replay_lost(self._plan_run(publisher).plan, self._storage, self._checkpoint, self._progress.replayed)
        self._bounded_loss.settle(self._near, self._checkpoint, publisher.publish, self._progress.lost)
        self._schemas.bring(self._storage, publisher.publish)
        run = self._plan_run(publisher)
        self._finish(run, self._times.going_on())
        self._fire_owed(run)
        # Messages that were left are for the instances that were, so these are worked on first.
        run = self._plan_run(publisher) if self._instances.bring(self._storage, publisher.publish) else run
        for load in self._loads:
            run_load(load, run.plan, run.shipment, self._checkpoint, self._times, publisher, self._retries)
        self._bounded_loss.begin(self._near, run.plan)
        return run

    def _plan_run(self, publisher: Publisher) -> Run:
        self._layout = self._instances.renewed(self._layout)
        plan = ProgramPlan(
            self._program,
            self._layout,
            tuple(feed.plan for feed in self._feeds),
            self._storage.url,
            self._store_root,
            self._steps_max,
            restore=self._restore,
            elements=self._schemas.elements,
            durability=self._durability,
            bounded_loss=frozenset(self._bounded_loss.settings),
            memory_bytes=self._memory_bytes,
        )
        shape = Shape.of([feed.entry for feed in self._feeds], [feed.order for feed in self._feeds], self._layout)
        sources = tuple(feed.signature for feed in self._feeds)
        return Run(plan, pack(plan, self._class), shape, publisher, sources, self._plan_timers(plan))

    def _plan_timers(self, plan: ProgramPlan) -> TimerRun | None:
        if not self._times.handlers:
            return None
        feeds = self._timer_feeds()
        timers = replace(plan, feeds=tuple(feed.plan for feed in feeds))
        return TimerRun(timers, pack(timers, self._class), self._timers, feeds)

    def _timer_feeds(self) -> list[Feed]:
        if not self._times.handlers:
            return []
        return self._timers.feeds(self._spark, self._work.outputs, by_event=self._times.by_event)

    def _sinks(self) -> dict[str, tuple[Sink, SinkPlan]]:
        sinks: dict[str, tuple[Sink, SinkPlan]] = {}
        for feed in (*self._feeds, *self._timer_feeds()):
            plans = (feed.plan.replies, feed.plan.dead_letters, feed.plan.late)
            for sink, plan in zip((feed.to, feed.dead_letters, feed.late), plans, strict=True):
                if sink is not None and plan is not None:
                    sinks[plan.name] = (sink, plan)
        return sinks

    def _guarded(
        self,
        run: Run,
        offer: Offer,
        batch: DataFrame,
        *,
        adopt: bool,
        only_file: str | None = None,
        ends: bool = False,
    ) -> None:
        try:
            with self._one_epoch:
                self._epoch(run, offer, batch, adopt=adopt, only_file=only_file, ends=ends)
        except MillpondError as error:
            self.error = error
            raise

    def _epoch(
        self, run: Run, offer: Offer, batch: DataFrame, *, adopt: bool, only_file: str | None, ends: bool
    ) -> None:
        moment = self._times.moment()
        self._take_owners(run)

        def compute(parent: Parent) -> tuple[EpochWork, list[Control]]:
            self._times.check_open()
            computed = compute_epoch(
                run.plan,
                run.shipment,
                run.shape,
                batch,
                parent,
                self._counters(),
                one_task_rows=self._small.one_task_rows,
                one_host=self._one_host,
                only_file=only_file,
                now_us=moment,
                anchor=self._anchors.prepare(self._layout.partitions, last=not self._goes_on),
                judged=self._times.judged(),
            )
            self._streaming.check_wanted()
            return computed

        outcome = self._commit(run, offer, compute, moment, adopt=adopt, ends=ends)
        if outcome.manifest.pending:
            self._finish(run, moment)
        self._fire_owed(run)

    def _take_owners(self, run: Run) -> None:
        """Go on with the owners that were decided on since the last epoch, if any were."""
        layout = self._steering.take(self._layout)
        if layout is not self._layout:
            self._layout = layout
            self._anchors.forget_loads()
            run.own(layout, self._class)

    def _fire_owed(self, run: Run) -> None:
        """Fire the timers that are due at the end of the last epoch, in epochs that belong to it."""
        while (moment := self._times.owed()) is not None:
            self._fire(run, moment)

    def _fire(self, run: Run, moment: int, *, ends: bool = False) -> None:
        """Run an epoch without rows of any feed: timers that are due fire, all of them if it `ends` event time."""
        left = [Left()]

        def compute(parent: Parent) -> tuple[EpochWork, list[Control]]:
            if run.timers is None:
                return nothing_fed(self._counters()), []
            if self._consolidation is not None:
                # It may enlarge the stores, below which nobody of this process may be reading.
                self._consolidation.wait()
            work, controls, left[0] = run.timers.compute(
                self._spark,
                self._storage,
                parent,
                self._counters(),
                moment,
                small_epoch=self._small.rows,
                one_host=self._one_host,
                anchor=self._anchors.prepare(self._layout.partitions, last=not self._goes_on),
                firing=self._times.firing(moment, ends=ends),
                judged=self._times.judged(),
            )
            return work, controls

        self._commit(run, Ticked(), compute, moment, adopt=False, left=left, ends=ends)

    def _finish(self, run: Run, moment: int) -> None:
        """Go on with the messages that the last epoch left, in as many epochs as that takes."""
        while (head := self._checkpoint.head) is not None and head.pending:
            if sources_of(head.offer) != run.sources:
                raise sources_changed(head.offer, run.sources)
            left = read_pending(self._storage, run.plan, head.pending)

            def compute(parent: Parent, left: pa.Table = left) -> tuple[EpochWork, list[Control]]:
                frame = self._spark.createDataFrame(left)
                few = left.num_rows <= self._small.rows
                return continue_epoch(
                    run.plan,
                    run.shipment,
                    frame,
                    parent,
                    self._counters(),
                    one_task_rows=self._small.rows if few else 0,
                    now_us=moment,
                    anchor=self._anchors.prepare(self._layout.partitions, last=not self._goes_on),
                    judged=self._times.judged(),
                )

            self._commit(run, head.offer, compute, moment, adopt=False)

    def _counters(self) -> dict[str, int]:
        head = self._checkpoint.head
        return {} if head is None else head.counters

    def _commit(
        self,
        run: Run,
        offer: Offer,
        compute: Callable[[Parent], tuple[EpochWork, list[Control]]],
        moment: int,
        *,
        adopt: bool,
        left: Sequence[Left | None] = (None,),
        ends: bool = False,
    ) -> EpochOutcome:
        begun = _CLOCK.ticks()
        controls: list[Control] = []

        def computed(parent: Parent) -> EpochWork:
            check_instances(parent, run.plan.layout)
            check_elements(parent, run.plan.elements)
            work, controls[:] = compute(parent)
            indexes = run.plan.element_indexes
            return self._bounded_loss.noted(self._times.noted(work, moment, indexes, left=left[0], ends=ends))

        outcome = self._checkpoint.run_epoch(
            offer,
            computed,
            run.publisher.publish,
            partitions=self._layout.partitions,
            retries=self._retries,
            adopt=adopt,
            ownership=Ownership.of(self._layout),
        )
        if outcome.result is EpochResult.COMMITTED:
            self._bounded_loss.committed(outcome, self._checkpoint.head_hash, moment)
            report = self._consolidating(report_of(outcome, controls, _CLOCK.ticks() - begun), run.plan.layout)
            told = self._steering.note(report.epoch, run.plan.layout, controls, report.seconds, report.rows)
            report = report.rebalanced(told)
            self._small.note(report.rows)
            self._anchors.note(controls, self._steering.seen)
            if self._gathers:
                self._reports.append(report)
            self._progress.epoch(report)
        return outcome

    def _consolidating(self, report: EpochReport, layout: Layout) -> EpochReport:
        """Bring the stores of this host to the epoch, behind its back; the report tells what that took before it."""
        if self._consolidation is None or not self._goes_on:
            return report
        seconds = self._consolidation.take_seconds()
        self._consolidation.start(self._checkpoint.parent, layout)
        if seconds is None:
            return report
        return replace(report, task_seconds={**report.task_seconds, "consolidation": seconds})
