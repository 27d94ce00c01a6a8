"""Windows over DataFrames, as users call them: Spark is loaded when one is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from millpond.sinks.protocol import Sink

if TYPE_CHECKING:
    from millpond.spark.frames.windows import Expression, Frame, WindowedFrame


def windows(
    df: Frame,
    *,
    key: Expression | Sequence[Expression],
    time: Expression,
    partitions: int | None = None,
    disorder: timedelta | None = None,
    lateness: timedelta | None = None,
    idle: timedelta | None = None,
    late: Sink | None = None,
    order_by: str | None = None,
) -> WindowedFrame:
    """Aggregate over windows of a DataFrame: `windows(df, key="sensor", time="at").aggregate(...)`, `.job(...)`.

    `key` is a column or several, `time` a column or an expression that gives a timestamp. Rows of a key go to one of
    `partitions` tasks, by default as many as Spark chooses for a shuffle. A batch DataFrame is aggregated to another
    one; of a streaming one a job is made, and the other options say how its rows come, as those of `Job.feed` do.
    docs/WINDOWS.md tells what comes out.
    """
    from millpond.spark.frames.streamed import StreamTimes
    from millpond.spark.frames.windows import WindowedFrame

    return WindowedFrame(df, key, time, partitions, StreamTimes(disorder, lateness, idle, late, order_by))
