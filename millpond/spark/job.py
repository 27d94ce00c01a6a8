"""A program on Spark: feeds, sinks, and queries that run it exactly once.

job = Counter.on(spark, checkpoint="out/counter")
job.feed("add", spark.readStream.schema("word string").parquet("words"), to=parquet("out/counts"))
job.start().awaitTermination()
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Never, TypeAlias
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from millpond.checkpoint.records.manifest import Loss
from millpond.checkpoint.records.offers import Batch as StreamBatch
from millpond.checkpoint.records.offers import BoundedRun, Offer
from millpond.compiler.compile import compile_program
from millpond.compiler.explain import explain
from millpond.engine.driver import Driver
from millpond.engine.local_state.initialstate import Into, Load
from millpond.engine.local_state.openstate import default_local_root
from millpond.engine.options import Durability, Tuning
from millpond.engine.publish.publish import Publisher
from millpond.engine.time.declared import EventTime
from millpond.errors import FeedError, MillpondError
from millpond.lengths import Length
from millpond.program.program import ProgramBase
from millpond.program.settings import configured
from millpond.sinks.protocol import Sink
from millpond.spark.engine import Batch, SparkEngine
from millpond.spark.feeds.feeds import Feed, OnBadRow, check_feeds, check_name, check_sources, make_feed
from millpond.spark.feeds.initialfeed import make_load
from millpond.spark.feeds.letters import letter_feeds
from millpond.spark.placement.executor import root_on_executor
from millpond.spark.placement.placement import checked_host, parallelism
from millpond.spark.reporting.observers import OnEpoch
from millpond.spark.reporting.reports import EpochReport, RunReport
from millpond.spark.streaming.sparklog import only_file
from millpond.spark.streaming.streaming import AVAILABLE_NOW, Streaming
from millpond.spark.streaming.ticks import TICK, Ticker, TimerFeeds, tick_seconds
from millpond.spark.streaming.workroot import ReplyFrames, WorkRoot
from millpond.spelling import check_call
from millpond.state.local.ownfolders import own_folder
from millpond.storage.addresses import identity_of
from millpond.storage.composed.unsynced import unsynced_storage
from millpond.storage.open import open_storage

Session: TypeAlias = SparkSession
"""The user's own Spark session."""


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
        settings: Mapping[str, Any] | None = None,
        **old: Never,
    ) -> None:
        records = {"durability": (Durability, durability), "tuning": (Tuning, tuning)}
        taken = ("checkpoint", "partitions", "local_root", "progress", "settings", *records)
        check_call("Program.on", old, taken, records)
        self._spark, one_host = spark, checked_host(spark)
        self._program = compile_program(configured(program, settings))
        kept, tuned = durability or Durability(), tuning or Tuning()
        self._restore, self._tuning = kept.restore, tuned
        storage = open_storage(str(checkpoint))
        # By the address without its password, which may change.
        known_as = identity_of(storage.url)
        self._local_root = str(local_root or own_folder(Path(default_local_root(known_as, tempfile.gettempdir()))))
        self._driver: Driver[Batch, DataFrame] = Driver(
            self._program,
            storage,
            unsynced_storage(storage, known_as, self._local_root),
            self._local_root,
            durability=kept.chosen,
            one_host=one_host,
            keep=kept.keep,
            key_groups=tuned.key_groups,
            instances=tuned.instances,
            partitions=partitions,
            usual_partitions=parallelism(spark),
            retries=tuned.retries,
            shown=progress,
            # Elsewhere the stores are on the hosts of the executors, where tasks do it when they open them.
            consolidates=one_host,
        )
        # On a cluster, even executors of one host have stores of their own.
        on_executor = local_root is None and not one_host
        self._store_root = root_on_executor(known_as, uuid4().hex[:8]) if on_executor else self._local_root
        self._engine = SparkEngine(
            spark, self._program, self._driver.storage, self._store_root, tuned, one_host=one_host, shown=progress
        )
        uuid = self._driver.checkpoint.genesis.uuid
        self._work = WorkRoot.of(storage, kept.work, self._local_root, uuid, one_host=one_host)
        self._feeds: list[Feed] = []
        self._loads: list[Load[DataFrame]] = []
        self._timers = TimerFeeds(self._program, self._driver.times.handlers)
        self._ticker: Ticker | None = None
        self._streaming = Streaming(spark, self._store_root)
        self.error: MillpondError | None = None

    def feed(
        self,
        entry: str,
        frame: DataFrame,
        *,
        to: Sink | None = None,
        keep: Sequence[str] | None = None,
        order_by: str | Sequence[str] | None = None,
        on_bad_row: OnBadRow = "fail",
        name: str | None = None,
        time: EventTime | None = None,
        **old: Never,
    ) -> Job:
        """Feed the rows of a DataFrame to an entry point; columns are matched to parameters by name and type.

        Replies go `to` a sink with the columns to `keep` (by default the parameters). `order_by` names the column, or
        the columns, that order rows; without it the source must number them (Parquet, Kafka), unless order can't be
        seen. A bad row fails the run, is skipped and counted (`"skip"`), or goes to a dead-letter sink.

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
            time=time,
        )
        check_name(feed, self._feeds)
        self._feeds.append(feed)
        return self

    @property
    def loss(self) -> Loss | None:
        """What of state with bounded loss was lost with a host, as the last start found it."""
        return self._driver.loss

    @property
    def last_report(self) -> EpochReport | None:
        """The report of the last epoch that this job committed; None before the first."""
        return self._engine.observers.reports[-1] if self._engine.observers.reports else None

    @property
    def reports(self) -> tuple[EpochReport, ...]:
        """The reports of the last 1000 epochs that this job committed, oldest first."""
        return tuple(self._engine.observers.reports)

    @property
    def metrics_url(self) -> str | None:
        """Where metrics are shown; None if they are not."""
        return self._engine.observers.url

    def resize(self, partitions: int) -> Job:
        """Have another number of partitions from the next epoch on, also of a query that runs: no restart.

        Only key groups that get another owner move. docs/ELASTIC.md tells more.
        """
        self._engine.rebalancer.ask(partitions, self._driver.layout)
        return self

    def explain(self) -> str:
        """Get the program's graph, and what epochs of this job have shown: rows and seconds by task, and hot keys."""
        return f"{explain(self._program.made_of)}\n{self._engine.rebalancer.summary()}"

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
        on_epoch: OnEpoch | None = None,
        metrics: str | None = None,
    ) -> StreamingQuery:
        """Start a streaming query over all feeds and return Spark's own handle of it.

        `trigger` is an interval ("1 second"), "available now", or None for as fast as it goes. `adopt=True` accepts a
        first batch that does not follow the checkpoint (a replaced Spark checkpoint, changed feeds) as new data. `tick`
        is how often a program with timers or a time to live looks at the clock while its feeds are idle (1 second; a
        length of 0 for never); what goes wrong then ends the query, and is in `error`.

        `on_epoch` is called with the `EpochReport` of each epoch after its commit. `metrics=":9108"` shows Prometheus
        the job's figures there, to this machine alone unless another address is given, until the query ends.
        docs/OBSERVING.md tells all of it.
        """
        tick_s = tick_seconds(tick)
        check_feeds(self._feeds, streaming=True)
        spark_root = Path(spark_checkpoint or self._work.spark_folder())
        if self._ticker is not None:
            self._ticker.end()
        self._watch(on_epoch, metrics)
        self._streaming.settle()
        sources = self._begin()
        resumes = spark_checkpoint is None and self._work.has_spark_checkpoint()
        check_sources(self._driver.checkpoint, sources, adopt=adopt, resumes=resumes)
        first = [adopt]

        def on_batch(query: str, batch: DataFrame, batch_id: int) -> None:
            self._engine.rebalancer.queue(self._streaming.queued_rows())
            rows = Batch(batch, only_file(spark_root, batch_id), self._streaming.check_wanted)
            self._epoch(StreamBatch(query, batch_id, sources), rows, adopt=first[0])
            first[0] = False

        # Spark knows a source by its place in the plan: by name, that place does not depend on the declaration.
        rows = self._engine.routed(sorted(self._feeds, key=lambda feed: feed.plan.name))
        query = self._streaming.start(
            rows, on_batch, checkpoint=spark_checkpoint or str(spark_root), name=name, trigger=trigger
        )
        self._engine.anchors.close_after(query.awaitTermination)
        if metrics is not None:
            self._engine.observers.close_after(query.awaitTermination)
        if self._driver.times.timed and tick_s and trigger != AVAILABLE_NOW:
            self._ticker = Ticker(tick_s, self._driver.tick, lambda: bool(query.isActive), self._failed)
            self._ticker.start()
        return query

    def run(
        self,
        name: str = "run",
        *,
        adopt: bool = False,
        close: bool | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> RunReport:
        """Run over bounded input to its end.

        Batch DataFrames are one epoch, applied once per `name`: running again with a name that is committed does
        nothing, so give new data a new name. Streaming DataFrames are read until nothing is left. With event time, a
        run that may `close` moves the watermark to the end of time: all timers fire, and no rows can follow. Runs
        over batch DataFrames do so unless told otherwise, others only if told. `on_epoch` is as in `start`.
        """
        if not name:
            raise FeedError("MP517", "a bounded run has no name", expected='run("name")', found=repr(name))
        self._engine.reports.clear()
        self._engine.gathers = True
        try:
            if self._feeds and self._feeds[0].frame.isStreaming:
                self._streaming.wait(self.start(AVAILABLE_NOW, adopt=adopt, on_epoch=on_epoch), lambda: self.error)
                if close:
                    self._begin()
                    self._driver.end_time()
            else:
                check_feeds(self._feeds, streaming=False)
                self._watch(on_epoch, None)
                sources = self._begin()
                rows = Batch(self._engine.routed(self._feeds))
                ends = self._driver.times.by_event and close is not False
                self._epoch(BoundedRun(name, sources), rows, adopt=adopt, ends=ends, last=True)
        finally:
            self._engine.gathers = False
            self._engine.close(self._driver.level)
            self._driver.close()
        return RunReport(tuple(self._engine.reports), self._driver.checkpoint.epoch, self.loss)

    def replay(self, letters: DataFrame | Sink, name: str = "replay") -> RunReport:
        """Feed dead letters of this job again, or some of them: a DataFrame of them, or the sink that holds them.

        They run as one epoch in their input order, applied once per `name`; what is still bad is a dead letter again.
        """
        feeds, self._feeds = self._feeds, letter_feeds(self._spark, self._feeds, letters, self._streaming.query)
        try:
            return self.run(f"{name} of dead letters" if name else name, close=False)
        finally:
            self._feeds = feeds

    def _begin(self) -> tuple[str, ...]:
        """Make the checkpoint ready for epochs over the feeds; return what identifies these between restarts."""
        self.error = None
        self._engine.anchors.wait_closed()
        by_event = any(feed.plan.time is not None for feed in self._feeds)
        handlers = self._timers.feeds(self._spark, self._work.outputs, by_event=by_event)
        tuned, feeds = self._tuning, (feed.plan for feed in self._feeds)
        plan = self._driver.plan(feeds, self._store_root, tuned.steps, tuned.memory_bytes, self._restore)
        sinks = {plan.name: (sink, plan) for feed in (*self._feeds, *handlers) for sink, plan in feed.sinks}
        waiting, frames = self._work.checkpoint_area(self._local_root), ReplyFrames(self._spark, self._work)
        publisher = Publisher(self._driver.checkpoint.genesis, sinks, waiting, frames, frames.tasks)
        sources = tuple(feed.signature for feed in self._feeds)
        self._engine.feed(tuple(self._feeds), handlers)
        self._driver.start(self._engine, plan, publisher, sources, self._loads)
        return sources

    def _watch(self, on_epoch: OnEpoch | None, metrics: str | None) -> None:
        """Let somebody watch the next query or run, and nobody else."""
        observers = self._engine.observers
        observers.watch(on_epoch, metrics)
        observers.started(self._driver.checkpoint.epoch)

    def _epoch(self, offer: Offer, rows: Batch, **how: bool) -> None:
        try:
            self._driver.epoch(offer, rows, **how)
        except MillpondError as error:
            self.error = error
            self._engine.observers.failed(error)
            raise

    def _failed(self, error: MillpondError) -> None:
        """End a query whose tick failed: Spark has no way to fail one from outside."""
        self.error = error
        self._engine.observers.failed(error)
        assert self._streaming.query is not None
        self._streaming.query.stop()
