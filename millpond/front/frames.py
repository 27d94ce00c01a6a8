"""State, windows and graphs as DataFrames, as users call them: Spark is loaded when one is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Never

from millpond.engine.time.declared import EventTime
from millpond.spelling import check_call

if TYPE_CHECKING:
    from millpond.spark.frames.graphframes import GraphFrame
    from millpond.spark.frames.reading import Frame, Session
    from millpond.spark.frames.windows import Expression, WindowedFrame


def read_state(spark: Session, checkpoint: str | Path, element: str, epoch: int | None = None) -> Frame:
    """Return a state element after an epoch, by default the last, as a DataFrame with the columns `key` and `value`.

    The epoch is fixed when this is called, however often the DataFrame is used. Partial state has a column `instance`
    too; a `Set` has no `value`, a `Value` no `key`. Values of types without a column of their own are text with JSON.
    """
    from millpond.spark.frames import reading

    return reading.state_frame(spark, checkpoint, element, epoch)


def read_changes(spark: Session, checkpoint: str | Path, element: str, since: int, until: int | None = None) -> Frame:
    """Return what each epoch after `since` changed in a state element, up to `until`, by default the last.

    Columns: `epoch`, `change` (added, changed, removed), `key`, `old`, `new`; `instance` too for partial state. An
    entry that changed in several epochs has several rows. Epoch 0 is the empty state before the first one.
    """
    from millpond.spark.frames import reading

    return reading.change_frame(spark, checkpoint, element, since, until)


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
    `Job.feed`. docs/WINDOWS.md tells what comes out.
    """
    event_time = time if old.keys() & set(EventTime.__slots__) else None
    check_call("windows", old, ("key", "time", "partitions", "order_by"), {"time": (EventTime, event_time)})
    from millpond.spark.frames.windows import WindowedFrame

    return WindowedFrame(df, key, time, partitions, order_by)


def graph(
    edges: Frame,
    *,
    source: str,
    target: str,
    time: str | EventTime | None = None,
    weight: str | None = None,
    removed: str | None = None,
    vertices: Frame | None = None,
    partitions: int | None = None,
) -> GraphFrame:
    """Make a graph of a DataFrame of edges: `graph(edges, source="src", target="dst").run(pagerank())`.

    Sources and targets are columns of whole numbers or text. `time` is a column of a batch, or the `EventTime` of a
    stream: `.snapshots("30 seconds")` cuts the graph by it. `weight` is a column of numbers; `removed` one that says of
    a row that it takes all equal edges before it out. The first column of `vertices` has vertices that may have no
    edge. docs/GRAPHS.md tells what can be computed.
    """
    from millpond.spark.frames.graphframes import GraphFrame

    return GraphFrame(edges, source, target, time, weight, removed, vertices, partitions)
