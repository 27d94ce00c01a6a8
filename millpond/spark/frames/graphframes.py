"""Graphs over DataFrames of edges: a batch as a whole, or snapshots of a batch or a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from millpond.compiler.front.methods import check_methods
from millpond.engine.arrowtypes import arrow_type, to_arrow
from millpond.engine.options import Durability, Tuning
from millpond.engine.time.declared import EventTime
from millpond.errors import LoopError
from millpond.lengths import Length
from millpond.loops.contexts import Context
from millpond.loops.lanes import Kind
from millpond.loops.synchrony import Synchrony, strict
from millpond.loops.termination import Condition
from millpond.loops.vertices.edges import Edges, as_array
from millpond.loops.vertices.kinds import SnapshotKind, VertexKind
from millpond.loops.vertices.ready import VERTEX, Ready, must_be_ready
from millpond.loops.vertices.vertex import Vertex, vertex_rows
from millpond.sinks.protocol import Sink
from millpond.spark.feeds.columntypes import spark_of
from millpond.spark.frames.looprows import LoopRows, loop_frame, loop_job, result_schema
from millpond.spark.frames.windowjoins import quoted
from millpond.spark.frames.windowstreams import Arrival, Start
from millpond.spark.interpreter import check_hash_seed
from millpond.spark.job import Job
from millpond.windowing.kinds.periodic import sliding as sliding_windows
from millpond.windowing.kinds.periodic import tumbling

SOURCE, TARGET, WEIGHT, REMOVED = "source", "target", "weight", "removed"
_CHUNK = 1 << 16
"""So many rows of results leave a task together."""


class GraphFrame:
    """A graph whose edges are the rows of a DataFrame.

    `run` computes something over all of a batch; `snapshots` cuts the edges of a batch or a stream by their time.
    """

    def __init__(
        self,
        edges: DataFrame,
        source: str,
        target: str,
        time: str | EventTime | None = None,
        weight: str | None = None,
        removed: str | None = None,
        vertices: DataFrame | None = None,
        partitions: int | None = None,
    ) -> None:
        self._edges, self._time, self._partitions = edges, time, partitions
        self.vertex: Any = int
        kinds = {edges.schema[one].dataType for one in (source, target)} if self._has(edges, source, target) else set()
        whole = {kind for kind in kinds if isinstance(kind, T.IntegralType)}
        if kinds and kinds == whole:
            self._cast, self.vertex = "bigint", int
        elif kinds == {T.StringType()}:
            self._cast, self.vertex = "string", str
        else:
            found = ", ".join(f"{one}: {edges.schema[one].dataType.simpleString()}" for one in (source, target))
            raise _unfit("columns of whole numbers, or of text, for source and target", found)
        self._has(edges, *(one for one in (weight, removed) if one is not None))
        self._columns: dict[str, Column] = {
            SOURCE: quoted(source).cast(self._cast),
            TARGET: quoted(target).cast(self._cast),
            WEIGHT: F.lit(None).cast("double") if weight is None else quoted(weight).cast("double"),
            REMOVED: F.lit(None).cast("boolean") if removed is None else quoted(removed).cast("boolean"),
        }
        self._weighted, self._removes = weight is not None, removed is not None
        self._vertices = None if vertices is None else self._vertex_rows(vertices)

    def run(
        self,
        what: Ready | type[Vertex],
        *,
        until: Condition | None = None,
        synchrony: Synchrony = strict,
        directed: bool = True,
    ) -> DataFrame:
        """Compute something over the whole graph of a batch, in one task; return a row for each vertex.

        `what` is something ready made, `pagerank(rounds=20)`, or a class derived from `Vertex`, which needs `until`.
        """
        if self._edges.isStreaming or self._removes:
            found = "removed=" if self._removes else "a streaming DataFrame"
            raise _unfit("a batch of edges that are all there; of others .snapshots(length)", found)
        kind = _kind(what, self.vertex, until, synchrony, directed=directed, growing=False)
        fields = [pa.field(VERTEX, arrow_type(self.vertex))]
        fields += [
            pa.field(name, arrow_type(hint))
            for name, hint in zip(kind.result_names, kind.result_hints[1:], strict=True)
        ]
        rows = self._edges.select(*(self._columns[one].alias(one) for one in self._needed))
        if self._vertices is not None:
            rows = rows.unionByName(self._vertices.select(*self._needed))
        schema = T.StructType([T.StructField(one.name, spark_of(one.type)) for one in fields])
        work = _whole(what, kind, until, synchrony, directed=directed, schema=pa.schema(fields))
        return rows.coalesce(1).mapInArrow(work, schema)

    def snapshots(
        self, length: Length, *, directed: bool = True, sliding: Length | None = None, growing: bool = False
    ) -> SnapshotFrame:
        """Cut the edges by their time into snapshots of a length, one `sliding` on every so often if that is given.

        If they are `growing`, a snapshot has all edges up to its end.
        """
        if self._time is None:
            raise _unfit('time="at" for a batch, time=EventTime("at", ...) for a stream', "no time=")
        if growing and (sliding is not None or self._removes):
            raise _unfit("growing=True by itself: edges that slide out or are removed would be there still", "both")
        if self._vertices is not None:
            raise _unfit("vertices= for run() over a whole batch", "vertices= and snapshots")
        window = tumbling(length) if sliding is None else sliding_windows(length, sliding)
        named = self._edges.withColumns({f"graph_{name}": column for name, column in self._columns.items()})
        fields = {name: (named.schema[f"graph_{name}"], quoted(f"graph_{name}")) for name in self._columns}
        time = self._time.column if isinstance(self._time, EventTime) else self._time
        at = quoted(time) if isinstance(time, str) and time in self._edges.columns else F.expr(str(time))
        edge = [fields[one] for one in (TARGET, WEIGHT, REMOVED)]
        rows = LoopRows(named, [fields[SOURCE]], at, edge)
        return SnapshotFrame(
            rows, window, self._time, self.vertex, self._partitions, directed=directed, growing=growing
        )

    @property
    def _needed(self) -> list[str]:
        return [SOURCE, TARGET, *([WEIGHT] if self._weighted else [])]

    def _vertex_rows(self, vertices: DataFrame) -> DataFrame:
        first = vertices.columns[0]
        nothing = {TARGET: F.lit(None).cast(self._cast), WEIGHT: F.lit(None).cast("double")}
        return vertices.select(
            quoted(first).cast(self._cast).alias(SOURCE), *(value.alias(name) for name, value in nothing.items())
        )

    @staticmethod
    def _has(edges: DataFrame, *names: str) -> bool:
        missing = [name for name in names if name not in edges.columns]
        if missing:
            raise _unfit(f"columns of the edges: {', '.join(edges.columns)}", ", ".join(missing))
        return True


class SnapshotFrame:
    """Snapshots of a graph: `run` computes something over each of a batch, `job` over each of a stream."""

    def __init__(
        self,
        rows: LoopRows,
        window: Any,
        time: str | EventTime,
        vertex: Any,
        partitions: int | None,
        *,
        directed: bool,
        growing: bool,
    ) -> None:
        self._rows, self._window, self._time, self._vertex = rows, window, time, vertex
        self._partitions, self._directed, self._growing = partitions, directed, growing

    def run(
        self, what: Ready | type[Vertex], *, until: Condition | None = None, synchrony: Synchrony = strict
    ) -> DataFrame:
        """Compute something over each snapshot of a batch: a row for each snapshot and vertex."""
        if self._rows.frame.isStreaming:
            raise _unfit("a batch of edges; for a stream job(..., to=, checkpoint=)", "a streaming DataFrame")
        kind = self._kind(what, until, synchrony)
        schema = result_schema(kind, [VERTEX], kind.result_names)
        return loop_frame(self._rows, kind, self._window, schema, self._partitions)

    def job(
        self,
        what: Ready | type[Vertex],
        *,
        to: Sink,
        checkpoint: str | Path,
        until: Condition | None = None,
        synchrony: Synchrony = strict,
        rounds_per_epoch: int | None = None,
        local_root: str | Path | None = None,
        progress: bool | None = None,
        durability: Durability | None = None,
        tuning: Tuning | None = None,
    ) -> Job:
        """Make a job that sends the rows which `run` gives to a sink, exactly once, when their snapshots are over."""
        if not self._rows.frame.isStreaming or not isinstance(self._time, EventTime):
            raise _unfit('a streaming DataFrame with time=EventTime("at", ...); for a batch run(...)', repr(self._time))
        kind = self._kind(what, until, synchrony)
        schema = result_schema(kind, [VERTEX], kind.result_names, corrects=self._time.lateness_us > 0)
        start = Start(checkpoint, self._partitions, local_root, progress, durability, tuning)
        arrival = Arrival(self._time, None)
        return loop_job(self._rows, arrival, kind, self._window, schema, to, start, rounds_per_epoch)

    def _kind(self, what: Any, until: Condition | None, synchrony: Synchrony) -> SnapshotKind | VertexKind:
        return _kind(what, self._vertex, until, synchrony, directed=self._directed, growing=self._growing)


def _kind(
    what: Any, vertex: Any, until: Condition | None, synchrony: Synchrony, *, directed: bool, growing: bool
) -> SnapshotKind | VertexKind:
    if not (isinstance(what, type) and issubclass(what, Vertex)):
        if until is not None:
            raise _unfit("until= for a class derived from Vertex; what is ready made knows its end", "until=")
        return SnapshotKind(must_be_ready(what), vertex, directed=directed, growing=growing)
    if until is None or growing:
        raise _unfit("until=fixpoint() for a class derived from Vertex, and no growing=True", what.__name__)
    check_methods(what, Vertex)
    return VertexKind(what, until, synchrony, vertex=vertex, directed=directed)


def _whole(
    what: Any, kind: Kind, until: Condition | None, synchrony: Synchrony, *, directed: bool, schema: pa.Schema
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the work of the one task that has all edges."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        check_hash_seed()
        edges = _edges(list(batches))
        if edges is None:
            return
        if isinstance(what, Ready):
            found = what.run(edges, directed=directed)
            table = pa.table(
                [pa.array(one, field.type) for one, field in zip(found.values(), schema, strict=True)], schema=schema
            )
        else:
            assert until is not None
            one = Context(what, until, synchrony)
            one.enter(vertex_rows(edges, directed=directed))
            one.advance()
            rows = [row for key, result in one.results().items() for row in kind.keyed(key, result)]  # type: ignore[attr-defined]
            columns = list(zip(*rows, strict=True)) or [()] * len(schema)
            cells = [to_arrow(list(column), hint) for column, hint in zip(columns, kind.result_hints, strict=True)]
            table = pa.table(cells, schema=schema)
        yield from table.to_batches(max_chunksize=_CHUNK)

    return run


def _edges(batches: list[pa.RecordBatch]) -> Edges | None:
    """Return the edges that came to a task, by columns; rows without a target are vertices."""
    if not batches:
        return None
    table = pa.Table.from_batches(batches)
    if table[SOURCE].null_count:
        raise _unfit("a source in every edge", f"{table[SOURCE].null_count} nulls")
    sources, weights = as_array(table[SOURCE]), None
    vertices = np.zeros(0, dtype=sources.dtype)
    if table[TARGET].null_count:
        alone = table[TARGET].is_null()
        vertices = as_array(table[SOURCE].filter(alone))
        table = table.filter(table[TARGET].is_valid())
        sources = as_array(table[SOURCE])
    targets = as_array(table[TARGET])
    if WEIGHT in table.column_names:
        weights = as_array(table[WEIGHT].fill_null(1.0))
    return Edges(sources, targets, weights, vertices)


def _unfit(expected: str, found: str) -> LoopError:
    return LoopError("MP867", "a graph can't be made of this", expected=expected, found=found)
