"""Dead letters as feeds: rows that were left out once, in the order and of the types in which they came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery

from millpond.engine.arrowtypes import arrow_type
from millpond.engine.plan import Order
from millpond.engine.publish.deadletters import DEAD_LETTER_SCHEMA, columns_of
from millpond.engine.task.intake import UNPARSED
from millpond.errors import FeedError
from millpond.sinks.protocol import Sink
from millpond.spark.exchange.route import RowOrder
from millpond.spark.exchange.tables import frame_of
from millpond.spark.feeds.feeds import Feed

_NUMBER, _SOURCE, _POSITION, _TIME = (f"millpond_{name}" for name in ("number", "source", "position", "time"))
_PLACE = pa.schema(
    [
        pa.field(_NUMBER, pa.int64()),
        pa.field(_SOURCE, pa.string()),
        pa.field(_POSITION, pa.int64()),
        pa.field(_TIME, pa.timestamp("us", tz="UTC")),
    ]
)
"""What a letter says besides its row, under names that no column of a row has."""


def letter_feeds(
    spark: SparkSession, feeds: Sequence[Feed], letters: DataFrame | Sink, query: StreamingQuery | None
) -> list[Feed]:
    """Get the feeds of a job with dead letters in the place of their rows; they run in the order in which they came."""
    if query is not None and query.isActive:
        raise FeedError(
            "MP529",
            "dead letters can't be fed again while a query of this job runs",
            expected="a job whose query is stopped: what it commits and a replay commits come one after the other",
            hint="stop the query, replay, and start it again: it goes on where it was",
        )
    told = _letters(spark, letters)
    known = [feed.plan.name for feed in feeds]
    missing = [name for name in DEAD_LETTER_SCHEMA.names if name not in told.columns]
    others = [] if missing else sorted({str(row.feed) for row in told.select("feed").distinct().collect()} - {*known})
    if missing or others:
        raise FeedError(
            "MP528",
            "these are not dead letters of this job",
            expected=f"the columns {', '.join(DEAD_LETTER_SCHEMA.names)}, and feeds of the job: {', '.join(known)}",
            found=f"no {', '.join(missing)}" if missing else f"letters of {', '.join(others)}",
            hint="give it what a dead-letter sink holds, or some of its rows, and the feeds that they came from",
        )
    numbered = told.withColumn(_NUMBER, F.row_number().over(Window.orderBy(*_input_order(known))).cast("long"))
    return [_letter_feed(spark, feed, numbered) for feed in feeds]


def _letters(spark: SparkSession, letters: DataFrame | Sink) -> DataFrame:
    held = letters.held(DEAD_LETTER_SCHEMA) if isinstance(letters, Sink) else letters
    if isinstance(held, Path):
        return spark.read.schema(frame_of(spark, DEAD_LETTER_SCHEMA.empty_table()).schema).parquet(str(held))
    if isinstance(held, pa.Table):
        return frame_of(spark, held)
    if isinstance(held, DataFrame) and not held.isStreaming:
        return held
    raise FeedError(
        "MP528",
        "these are not dead letters of this job",
        expected="a batch DataFrame of dead letters, or a sink that shows what it holds: parquet(), memory()",
        found="a streaming DataFrame" if isinstance(letters, DataFrame) else repr(letters)[:80],
    )


def _input_order(feeds: Sequence[str]) -> list[Column]:
    """Return what the rows of all letters are ordered by: as they were in the input, epoch by epoch."""
    places = F.array(*(F.lit(name) for name in feeds))
    return [
        F.col("epoch"),
        F.coalesce(F.col("order_by"), F.lit(0)),
        F.array_position(places, F.col("feed")),
        F.coalesce(F.col("source"), F.lit("")),
        F.col("position"),
        F.col("row"),
    ]


def _letter_feed(spark: SparkSession, feed: Feed, letters: DataFrame) -> Feed:
    kinds = {name: arrow_type(hint) for name, hint in feed.entry.point.parameters}
    kinds |= {name: kind for name, kind in feed.plan.keep if name not in kinds}
    if feed.plan.unparsed:
        # What could not be read then can't be read now: who mends it, mends the columns and takes the bytes away.
        kinds[UNPARSED] = pa.binary()
    schema = pa.schema([*(pa.field(name, kind) for name, kind in kinds.items()), *_PLACE])
    own = letters.where(F.col("feed") == feed.plan.name).select(
        "row",
        _NUMBER,
        F.col("source").alias(_SOURCE),
        F.col("position").alias(_POSITION),
        F.col("event_time").alias(_TIME),
    )
    frame = own.mapInArrow(_reading(kinds, schema), frame_of(spark, schema.empty_table()).schema)
    order = RowOrder(Order.COLUMN, F.col(_NUMBER), F.col(_SOURCE), F.col(_POSITION), located=True)
    time = None if feed.time is None else F.unix_micros(_TIME)
    return replace(feed, frame=frame, order=order, time=time)


def _reading(
    kinds: Mapping[str, pa.DataType], schema: pa.Schema
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function that makes rows of letters, where these are."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = columns_of(batch.column("row").to_pylist(), kinds)
            places = [batch.column(field.name).cast(field.type) for field in _PLACE]
            yield pa.RecordBatch.from_arrays([*rows.values(), *places], schema=schema)

    return read
