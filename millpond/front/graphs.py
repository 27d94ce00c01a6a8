"""Graphs over DataFrames, as users call them: Spark is loaded when one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millpond.engine.time.declared import EventTime

if TYPE_CHECKING:
    from millpond.spark.frames.graphframes import GraphFrame
    from millpond.spark.frames.reading import Frame


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
