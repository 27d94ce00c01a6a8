"""Windows over DataFrames, as users call them: Spark is loaded when one is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millpond.runtime.spark.windows import Expression, Frame, WindowedFrame


def windows(
    df: Frame, *, key: Expression | Sequence[Expression], time: Expression, partitions: int | None = None
) -> WindowedFrame:
    """Aggregate over windows of a batch DataFrame: `windows(df, key="sensor", time="at").aggregate(...)`.

    `key` is a column or several, `time` a column or an expression that gives a timestamp. Rows of a key go to one of
    `partitions` tasks, by default as many as Spark chooses for a shuffle. docs/WINDOWS.md tells what comes out.
    """
    from millpond.runtime.spark.windows import WindowedFrame

    return WindowedFrame(df, key, time, partitions)
