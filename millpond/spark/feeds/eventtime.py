"""Event time on Spark: which column of a feed tells when rows happened, and where late rows go."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from millpond.engine.plan import LATE, FeedPlan
from millpond.engine.time.eventtime import FIRST_US, LAST_US, FeedTime
from millpond.engine.time.laterows import EVENT_TIME, LATE_BY
from millpond.errors import EventTimeError
from millpond.sinks.protocol import Sink
from millpond.spark.feeds.feeds import Feed, check_sink, sink_plan

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class TimeOptions:
    """How a user describes the event time of a feed; None where nothing was said."""

    time: str | Column | None
    disorder: timedelta | None
    lateness: timedelta | None
    idle: timedelta | None
    late: Sink | None


def with_event_time(feed: Feed, options: TimeOptions, outputs: Path) -> Feed:
    """A feed whose rows have event times, if the options say so."""
    name = feed.plan.name
    if options.time is None:
        _check_unsaid(name, options)
        return feed
    if options.late is not None:
        check_sink(options.late)
        _check_late_columns(feed)
    plan = FeedTime(
        disorder_us=_length_us(name, "disorder", options.disorder) or 0,
        lateness_us=_length_us(name, "lateness", options.lateness) or 0,
        idle_us=_length_us(name, "idle", options.idle, least=1),
    )
    late = sink_plan(f"{name}.{LATE}", options.late, outputs)
    return feed.timed(plan, _micros(feed.frame, name, options.time), options.late, late)


def timer_times(plan: FeedPlan) -> FeedPlan:
    """The feed of a handler whose timers go by event time: they have a time, and are never late."""
    return plan.timed(FeedTime(lateness_us=None), None)


def _check_unsaid(feed: str, options: TimeOptions) -> None:
    said = [name for name in ("disorder", "lateness", "idle", "late") if getattr(options, name) is not None]
    if said:
        raise EventTimeError(
            "MP633",
            f"feed `{feed}` has no event time",
            expected="time= with the column or expression that tells when a row happened",
            found=", ".join(f"{name}=" for name in said),
            hint='job.feed(..., time="ts", disorder=timedelta(seconds=10))',
        )


def _micros(frame: DataFrame, feed: str, time: str | Column) -> Column:
    """Event times in microseconds since 1970."""
    column = F.col(f"`{time}`") if isinstance(time, str) else time
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
        hint='make one of it: time=F.timestamp_millis("ms"), or time=F.col("ts").cast("timestamp")',
    )


def _length_us(feed: str, name: str, given: timedelta | None, *, least: int = 0) -> int | None:
    if given is None:
        return None
    length: object = given
    if not isinstance(length, timedelta) or length // _MICROSECOND < least:
        raise EventTimeError(
            "MP635",
            f"{name}= of feed `{feed}` is a length of time",
            expected=f"{name}=timedelta(...), {'more than' if least else 'at least'} 0",
            found=repr(given)[:60],
        )
    # No two moments lie farther apart: more is for ever, too.
    return min(length // _MICROSECOND, LAST_US - FIRST_US)


def _check_late_columns(feed: Feed) -> None:
    names = {name for name, _ in feed.entry.point.parameters} | {name for name, _ in feed.plan.keep}
    taken = sorted(names & {EVENT_TIME, LATE_BY})
    if taken:
        raise EventTimeError(
            "MP636",
            f"late rows of feed `{feed.plan.name}` have columns of their own",
            expected=f"no parameter and no kept column named `{EVENT_TIME}` or `{LATE_BY}`",
            found=", ".join(taken),
            hint="call the parameter something else",
        )
