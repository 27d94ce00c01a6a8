"""Feeds: a DataFrame for an entry point, checked against it before any query starts.

With event time, a column of a feed tells when its rows happened, and late rows may have a sink of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from millpond.checkpoint.commit.checkpoint import Checkpoint
from millpond.checkpoint.commit.refusal import sources_changed
from millpond.compiler.compiled import CompiledEntry, CompiledProgram
from millpond.engine.arrowtypes import arrow_type
from millpond.engine.plan import DEAD_LETTERS, LATE, BadRows, FeedPlan, Order, SinkPlan
from millpond.engine.publish.replies import ABORTED, REPLY
from millpond.engine.task.intake import UNPARSED
from millpond.engine.time.declared import EventTime, Expression
from millpond.engine.time.eventtime import FIRST_US, LAST_US, FeedTime
from millpond.engine.time.laterows import EVENT_TIME, LATE_BY
from millpond.errors import EpochError, EventTimeError, FeedError
from millpond.keygroups import Layout
from millpond.sinks.protocol import Sink
from millpond.spark.exchange.route import RowOrder, Shape, feed_frame, row_order
from millpond.spark.feeds.columntypes import arrow_of
from millpond.spark.feeds.matching import check_columns
from millpond.state.codec.typenames import type_text

OnBadRow = Literal["fail", "skip"] | Sink
"""What happens to a bad row: fail, skip and count, or a dead-letter sink."""

_ARROW = " -> "

_EVER_US = LAST_US - FIRST_US
"""No two moments lie farther apart: more is for ever, too."""


@dataclass(frozen=True, slots=True)
class Feed:
    """One feed of a job."""

    number: int
    frame: DataFrame
    entry: CompiledEntry
    plan: FeedPlan
    casts: dict[str, str | None]
    order: RowOrder
    to: Sink | None
    dead_letters: Sink | None
    time: Column | None = None
    late: Sink | None = None

    @property
    def signature(self) -> str:
        """What identifies the feed between restarts: a changed signature is another source."""
        parameters = ", ".join(f"{name}: {type_text(hint)}" for name, hint in self.entry.point.parameters)
        return f"{self.number} {self.plan.name}{_ARROW}{self.plan.entry}({parameters})"

    @property
    def sinks(self) -> list[tuple[Sink, SinkPlan]]:
        """The sinks of the feed, and where their files are staged: for replies, dead letters and late rows."""
        plans = (self.plan.replies, self.plan.dead_letters, self.plan.late)
        pairs = zip((self.to, self.dead_letters, self.late), plans, strict=True)
        return [(sink, plan) for sink, plan in pairs if sink is not None and plan is not None]

    def routed(self, layout: Layout, shape: Shape) -> DataFrame:
        """Return the feed's rows with their key group and their place in the order."""
        return feed_frame(
            self.frame, self.number, self.plan, self.entry, self.casts, self.order, layout, shape, self.time
        )


def make_feed(
    program: CompiledProgram,
    number: int,
    entry: str,
    frame: DataFrame,
    *,
    to: Sink | None,
    keep: Sequence[str] | None,
    order_by: str | Sequence[str] | None,
    on_bad_row: OnBadRow,
    name: str | None,
    outputs: Path,
    time: EventTime | None = None,
    unfolds: bool = False,
) -> Feed:
    """Check a feed and describe it; replies that it `unfolds` are lists of rows, whose columns are told elsewhere."""
    compiled = program.entries.get(entry)
    if compiled is None:
        raise FeedError(
            "MP510",
            f"{program.name} has no entry point `{entry}`",
            expected=", ".join(program.entries) or "a method marked @entry",
            found=entry,
        )
    feed = name or entry
    casts = check_columns(compiled.point, frame, feed)
    if to is not None and not (compiled.point.replies or compiled.aborts):
        raise FeedError(
            "MP511",
            f"entry point `{entry}` gives no replies, so feed `{feed}` has nothing to send to a sink",
            expected="an entry point with a return type",
            found="-> None",
            hint="leave `to` out, or return something",
        )
    if to is not None and not unfolds:
        # `-> Any` and `-> object` are for replies that nobody sends anywhere.
        arrow_type(compiled.point.returns)
    dead = None if isinstance(on_bad_row, str) else on_bad_row
    for sink in (to, dead):
        if sink is not None:
            check_sink(sink)
    plan = FeedPlan(
        name=feed,
        entry=entry,
        keep=_kept(compiled, frame, feed, keep) if to is not None or (dead is not None and keep is not None) else (),
        order=(order := row_order(frame, compiled, feed, order_by)).kind,
        bad_rows=_policy(on_bad_row),
        replies=sink_plan(f"{feed}.replies", to, outputs, apart=compiled.point.yields),
        dead_letters=sink_plan(f"{feed}.{DEAD_LETTERS}", dead, outputs),
        unparsed=_has_unparsed(compiled, frame),
    )
    made = Feed(number, frame, compiled, plan, casts, order, to, dead)
    return made if time is None else _with_event_time(made, time, outputs)


def _has_unparsed(compiled: CompiledEntry, frame: DataFrame) -> bool:
    """Say whether the source tells which records it could not read; a parameter of that name is a parameter."""
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    return isinstance(kinds.get(UNPARSED), T.BinaryType) and UNPARSED not in dict(compiled.point.parameters)


def _policy(on_bad_row: OnBadRow) -> BadRows:
    if not isinstance(on_bad_row, str):
        return BadRows.DEAD_LETTER
    if on_bad_row not in ("fail", "skip"):
        raise FeedError(
            "MP512", "no such policy for bad rows", expected='"fail", "skip", or a sink', found=repr(on_bad_row)
        )
    return BadRows(on_bad_row)


def _kept(
    compiled: CompiledEntry, frame: DataFrame, feed: str, keep: Sequence[str] | None
) -> tuple[tuple[str, object], ...]:
    parameters = dict(compiled.point.parameters)
    # A parameter whose column is missing has its default, which replies need not repeat.
    names = [name for name in parameters if name in frame.columns] if keep is None else list(keep)
    missing = [name for name in names if name not in frame.columns]
    own = (REPLY, ABORTED) if compiled.aborts else (REPLY,)
    if missing or not set(own).isdisjoint(names) or len(set(names)) != len(names):
        raise FeedError(
            "MP513",
            f"feed `{feed}` can't keep these columns",
            expected=f"columns of the DataFrame, each once, none named {' or '.join(f'`{name}`' for name in own)}: "
            f"{', '.join(frame.columns)}",
            found=", ".join(names),
        )
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    return tuple(
        (name, arrow_type(parameters[name]) if name in parameters else arrow_of(kinds[name])) for name in names
    )


def sink_plan(name: str, sink: Sink | None, outputs: Path, *, apart: bool = False) -> SinkPlan | None:
    """Say where the files of a sink are staged, if there is one."""
    return None if sink is None else replace(SinkPlan.of(name, sink, outputs), apart=apart)


def check_sink(given: object) -> None:
    """Refuse what is no sink."""
    if not isinstance(given, Sink):
        raise FeedError(
            "MP514",
            "this is not a sink",
            expected="parquet(path), memory(), console(), foreach_epoch(function), or a sink of your own kind",
            found=repr(given)[:80],
            hint="a class of your own derives from millpond.sinks.Sink (docs/SINKS.md)",
        )


def check_name(feed: Feed, others: Sequence[Feed]) -> None:
    """Refuse a feed with the name of another one."""
    if any(other.plan.name == feed.plan.name for other in others):
        raise FeedError(
            "MP507",
            f"two feeds are named `{feed.plan.name}`",
            expected="one name each",
            hint='give one a name of its own: job.feed(..., name="more-ratings")',
        )


def check_feeds(feeds: Sequence[Feed], *, streaming: bool) -> None:
    """Refuse feeds of both kinds, or of the other kind than is run, or without a common order."""
    if not feeds:
        raise FeedError("MP508", "the job has no feeds", expected='job.feed("entry", df) before start or run')
    kinds = {feed.frame.isStreaming for feed in feeds}
    if kinds != {streaming}:
        raise FeedError(
            "MP509",
            "streaming and batch DataFrames can't be mixed, nor one kind run as the other",
            expected="streaming DataFrames for start(), all of one kind for run()",
            found=", ".join(f"{f.plan.name}: {'streaming' if f.frame.isStreaming else 'batch'}" for f in feeds),
            hint="read all sources with spark.readStream, or all with spark.read",
        )
    ordered = {feed.plan.order is Order.COLUMN for feed in feeds}
    if len(ordered) > 1:
        raise FeedError(
            "MP515",
            "some feeds have order_by and some have not, so their rows have no common order",
            expected="order_by for every feed, or for none",
            found=", ".join(f"{f.plan.name}: {f.plan.order.value}" for f in feeds),
            hint="name an order column of the same kind for each feed",
        )


def check_sources(checkpoint: Checkpoint, sources: tuple[str, ...], *, adopt: bool, resumes: bool) -> None:
    """Refuse changed feeds before Spark trips over them with an error of its own, if it `resumes` its checkpoint."""
    last = None if checkpoint.head is None else checkpoint.head.stream
    if last is None or last.sources == sources or not resumes:
        return
    if not adopt:
        raise sources_changed(last, sources)
    if {_feed_name(source) for source in last.sources} != {_feed_name(source) for source in sources}:
        raise EpochError(
            "MP437",
            "Spark can't go on from its own checkpoint with more or fewer feeds",
            expected=", ".join(last.sources),
            found=", ".join(sources),
            hint="give start() a new spark_checkpoint= besides adopt=True: all sources are read from their start",
        )


def _feed_name(signature: str) -> str:
    """Return the name of the feed that a signature belongs to, wherever it was declared."""
    return signature.partition(" ")[2].partition(_ARROW)[0]


def _with_event_time(feed: Feed, time: EventTime, outputs: Path) -> Feed:
    """Return a feed whose rows have event times."""
    name = feed.plan.name
    if time.late is not None:
        check_sink(time.late)
        _check_late_columns(feed)
    idle_us = time.idle_us
    known = FeedTime(
        disorder_us=min(time.disorder_us, _EVER_US),
        lateness_us=min(time.lateness_us, _EVER_US),
        idle_us=None if idle_us is None else min(idle_us, _EVER_US),
    )
    plan = replace(feed.plan, time=known, late=sink_plan(f"{name}.{LATE}", time.late, outputs))
    return replace(feed, plan=plan, time=_micros(feed.frame, name, time.column), late=time.late)


def _micros(frame: DataFrame, feed: str, time: str | Expression) -> Column:
    """Event times in microseconds since 1970."""
    column = F.col(f"`{time}`") if isinstance(time, str) else time
    if not isinstance(column, Column):
        raise _no_time(feed, repr(time)[:60])
    try:
        kind = frame.select(column).schema.fields[0].dataType
    except AnalysisException as error:
        raise _no_time(feed, str(error).partition("\n")[0][:200]) from error
    if not isinstance(kind, T.TimestampType):
        raise _no_time(feed, kind.simpleString())
    return F.unix_micros(column)


def _no_time(feed: str, found: str) -> EventTimeError:
    return EventTimeError(
        "MP634",
        f"feed `{feed}` can't have this for its event time",
        expected="a column, or an expression, that is a timestamp",
        found=found,
        hint='make one of it: EventTime(F.timestamp_millis("ms")), or EventTime(F.col("ts").cast("timestamp"))',
    )


def _check_late_columns(feed: Feed) -> None:
    names = {name for name, _ in feed.entry.point.parameters} | {name for name, _ in feed.plan.keep}
    taken = sorted(names & {EVENT_TIME, LATE_BY})
    if taken:
        raise EventTimeError(
            "MP636",
            f"feed `{feed.plan.name}` has names that the columns of late rows need",
            expected=f"no parameter and no kept column named `{EVENT_TIME}` or `{LATE_BY}`",
            found=", ".join(taken),
            hint="rename the parameter or the column",
        )
