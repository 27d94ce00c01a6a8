"""Event time on Spark: which column of a feed tells when rows happened, and where late rows go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from millpond.engine.plan import LATE
from millpond.engine.time.declared import EventTime, Expression
from millpond.engine.time.eventtime import FIRST_US, LAST_US, FeedTime
from millpond.engine.time.laterows import EVENT_TIME, LATE_BY
from millpond.errors import EventTimeError
from millpond.spark.feeds.feeds import Feed, check_sink, sink_plan

_EVER_US = LAST_US - FIRST_US
"""No two moments lie farther apart: more is for ever, too."""


def with_event_time(feed: Feed, time: EventTime, outputs: Path) -> Feed:
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
