"""Iterations over the windows of DataFrames: of a batch each window runs in a task, of a stream a job is made."""

from __future__ import annotations

import datetime
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from millpond.engine.arrowtypes import arrow_type, reader, to_arrow
from millpond.engine.options import Tuning
from millpond.errors import LoopError
from millpond.loops.combining import shard_of
from millpond.loops.exchanged import PAIRS, TOKENS, exchanged_program, steps_of
from millpond.loops.kinds import LoopKind, bounds_of
from millpond.loops.lanes import Kind, Packed
from millpond.loops.program import TURNS, loop_program
from millpond.sinks.protocol import Sink
from millpond.spark.feeds.columntypes import spark_of
from millpond.spark.frames.windowplan import BEGIN, CHANGE, END
from millpond.spark.frames.windowstreams import (
    CARRIED,
    KEYS,
    TIME,
    Arrival,
    Fields,
    Hints,
    Start,
    as_key,
    as_row,
    hints_of,
    key_hint,
)
from millpond.spark.interpreter import check_hash_seed
from millpond.spark.job import Job
from millpond.windowing.kinds.grids import Regular
from millpond.windowing.kinds.periodic import TIME as OVER_TIME
from millpond.windowing.kinds.periodic import Periodic

KEY, ROW, MICROS = "loop_key", "loop_row", "loop_micros"
"""The columns that the program is fed."""

_OPTIONAL: Any = typing.Optional


@dataclass(frozen=True, slots=True)
class LoopRows:
    """The rows that iterations run over: their keys, their time, and the columns that they see."""

    frame: DataFrame
    keys: Fields
    time: Column
    columns: Fields

    @property
    def key_hints(self) -> Hints:
        """What keys are cast to, and what they are in Python."""
        return hints_of(self.keys, "key", KEYS)

    @property
    def row_hints(self) -> Hints:
        """What columns are cast to, and what they are in Python; any of them may be null."""
        return [(kind, _OPTIONAL[hint]) for kind, hint in hints_of(self.columns, "column of a loop", CARRIED)]

    @property
    def key_type(self) -> Any:
        """The type of keys."""
        return key_hint(self.key_hints)

    @property
    def column_types(self) -> dict[str, Any]:
        """The types of the columns that a loop sees, by name."""
        return {field.name: hint for (field, _), (_, hint) in zip(self.columns, self.row_hints, strict=True)}

    def fed(self) -> DataFrame:
        """Return the columns that a program is fed, beside those of the frame."""
        return self.frame.withColumns(
            {KEY: as_key(self.keys, self.key_hints), ROW: as_row(self.columns, self.row_hints), TIME: self.time}
        )


def result_schema(kind: Kind, keys: Sequence[str], names: Sequence[str], *, corrects: bool = False) -> pa.Schema:
    """Return the columns of results: the bounds of the window, the key, what was computed, and what a row does."""
    moment = pa.timestamp("us", tz="UTC")
    found = [pa.field(BEGIN, moment), pa.field(END, moment)]
    found += [pa.field(name, arrow_type(hint)) for name, hint in zip((*keys, *names), kind.result_hints, strict=True)]
    if corrects:
        found.append(pa.field(CHANGE, pa.string()))
    twice = sorted({one.name for one in found if [other.name for other in found].count(one.name) > 1})
    if twice:
        raise LoopError(
            "MP864",
            "two columns of the result would have one name",
            expected=f"a key and results with names of their own, none of them {BEGIN} or {END}",
            found=", ".join(twice),
            hint="name the field of the result otherwise, or the key: `col('id').alias('vertex')`",
        )
    return pa.schema(found)


def loop_job(
    rows: LoopRows,
    arrival: Arrival,
    kind: Kind,
    window: Any,
    schema: pa.Schema,
    to: Sink,
    start: Start,
    budget: int | None,
) -> Job:
    """Make a job that iterates the windows of a stream, and sends their results to a sink when they are over."""
    program = loop_program(kind, window, lateness=arrival.time.lateness, budget=budget)
    job = start.job(program, rows.frame.sparkSession)
    arrival.feed(job, "add", rows.fed(), TIME)
    return job.on_timer(TURNS, to=to, rows=schema)


def spread_job(
    rows: LoopRows,
    arrival: Arrival,
    kind: LoopKind,
    window: Any,
    schema: pa.Schema,
    to: Sink,
    start: Start,
    budget: int | None,
) -> Job:
    """Make a job that iterates each window of a stream over all partitions."""
    if arrival.time.lateness_us:
        raise LoopError(
            "MP869",
            "windows that are spread over partitions can't begin anew",
            expected="an EventTime without lateness=, with more disorder= if rows come late",
            found=f"lateness={arrival.time.lateness!r}",
            hint="without spread=True, windows whose rows change begin anew",
        )
    program = exchanged_program(kind, window, budget=budget)
    tuning = start.tuning or Tuning()
    # The tokens of a window are few, but move much: an epoch of them is none for a single task.
    tuned = replace(tuning, steps=max(tuning.steps, steps_of(budget)), small_epoch=min(tuning.small_epoch, PAIRS - 1))
    job = replace(start, tuning=tuned).job(program, rows.frame.sparkSession)
    arrival.feed(job, "add", rows.fed(), TIME)
    return job.on_timer(TOKENS, to=to, rows=schema)


def loop_frame(rows: LoopRows, kind: Kind, window: Any, schema: pa.Schema, partitions: int | None) -> DataFrame:
    """Return the results of all windows of a batch as a DataFrame: each window runs in one task."""
    begin, length = _begins(window, F.col(MICROS))
    fed = rows.fed().where(F.col(TIME).isNotNull()).select(KEY, ROW, F.unix_micros(TIME).alias(MICROS))
    spread = fed.select(KEY, ROW, MICROS, F.explode(begin).alias(BEGIN))
    if kind.persists:
        routed = spread.repartition(1)
    else:
        routed = spread.repartition(BEGIN) if partitions is None else spread.repartition(partitions, BEGIN)
    names = [field.name for field in schema]
    spark_schema = T.StructType([T.StructField(one.name, spark_of(one.type)) for one in schema])
    work = _worker(kind, length, names, [datetime.datetime, datetime.datetime, *kind.result_hints])
    return routed.sortWithinPartitions(BEGIN).mapInArrow(work, spark_schema)


def _begins(window: Any, micros: Column) -> tuple[Column, int]:
    """Return the begins of all windows that a time lies in, as SQL."""
    grid = window.grid if isinstance(window, Periodic) and window.measure == OVER_TIME else None
    if not isinstance(grid, Regular):
        raise LoopError(
            "MP865",
            "a batch can't be iterated over such windows",
            expected="tumbling(length) or sliding(length, every)",
            found=repr(window)[:80],
        )
    length, slide, origin = int(grid.range), int(grid.slide), int(grid.origin)
    newest = micros - F.pmod(micros - F.lit(origin), F.lit(slide))
    most = -(-length // slide)
    begins = F.transform(F.sequence(F.lit(0), F.lit(most - 1)), lambda back: newest - back * F.lit(slide))
    return F.filter(begins, lambda begin: begin + F.lit(length) > micros), length


def _worker(
    kind: Kind, length: int, names: list[str], hints: list[Any]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    read_key, read_row = reader(kind.row_type.__args__[0]), reader(kind.row_type.__args__[2])

    def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, tuple[Any, int, Any]]]:
        for batch in batches:
            keys, rows = read_key(batch.column(KEY)), read_row(batch.column(ROW))
            times, begins = batch.column(MICROS).to_pylist(), batch.column(BEGIN).to_pylist()
            for begin, key, at, row in zip(begins, keys, times, rows, strict=True):
                yield begin, (key, at, row)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        check_hash_seed()
        carried = kind.nothing()
        for begin, group in groupby(rows_of(batches), key=lambda one: one[0]):
            window = (begin, begin + length)
            one = kind.begin(window, packed_by_shard(kind, [row for _, row in group]), carried)
            one.advance(None)
            found = [(*bounds_of(window), *row) for row in one.rows()]
            if kind.persists:
                carried = one.persisted()
            if found:
                columns = zip(*found, strict=True)
                arrays = [to_arrow(list(column), hint) for column, hint in zip(columns, hints, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, names=names)

    return run


def packed_by_shard(kind: Kind, rows: Iterable[tuple[Any, int, Any]]) -> Packed:
    """Return rows as a program gathers them."""
    by_shard: dict[int, list[tuple[Any, int, Any]]] = {}
    for row in rows:
        by_shard.setdefault(shard_of(row[0]), []).append(row)
    return {shard: kind.pack(own) for shard, own in by_shard.items()}
