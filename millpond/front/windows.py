"""Windows over DataFrames, as users call them: Spark is loaded when one is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Never

from millpond.engine.time.declared import EventTime
from millpond.spelling import check_call

if TYPE_CHECKING:
    from millpond.spark.frames.windows import Expression, Frame, WindowedFrame


def windows(
    df: Frame,
    *,
    key: Expression | Sequence[Expression],
    time: Expression | EventTime,
    partitions: int | None = None,
    order_by: str | None = None,
    **old: Never,
) -> WindowedFrame:
    """Aggregate over windows of a DataFrame: `windows(df, key="sensor", time="at").aggregate(...)`, `.job(...)`.

    `key` is a column or several, `time` a column or an expression that gives a timestamp. Rows of a key go to one of
    `partitions` tasks, by default as many as Spark chooses for a shuffle. A batch DataFrame is aggregated to another
    one. Of a streaming one a job is made: its `time` is an `EventTime`, and a column may order its rows, as those of
    `Job.feed`. docs/WINDOWS.md says what comes out.
    """
    given = time if old.keys() & set(EventTime.__slots__) else None
    check_call("windows", old, ("key", "time", "partitions", "order_by"), {"time": (EventTime, given)})
    from millpond.spark.frames.windows import WindowedFrame

    return WindowedFrame(df, key, time, partitions, order_by)
