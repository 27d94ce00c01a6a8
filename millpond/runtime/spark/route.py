"""Rows of all feeds as one DataFrame: each with its feed, its key group and its place in the input order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from millpond.compiler.compiled import CompiledEntry
from millpond.compiler.routing import HASHED
from millpond.errors import FeedError
from millpond.graph.model import Dispatch
from millpond.ids import PartitionId
from millpond.keygroups import Layout
from millpond.runtime.intake import feed_column, keep_column
from millpond.runtime.plan import FeedPlan, Order
from millpond.runtime.spark.hashing import hash_column, hash_columns
from millpond.state.value import THE_KEY

_LONG_MIN = -(2**63)
_NAME_CHARS_MAX = 4096
_SLASHES = re.compile(r":/+")
_KAFKA = ("topic", "partition", "offset")


def _zero() -> Column:
    return F.lit(0).cast("long")


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The columns that place a feed's rows in the input order, and where they come from."""

    kind: Order
    order: Column
    source: Column
    position: Column
    located: bool


def row_order(frame: DataFrame, entry: CompiledEntry, feed: str, order_by: str | None) -> RowOrder:
    """Find what orders a feed's rows: the user's column, or the identity of their source."""
    none = RowOrder(Order.NONE, _zero(), F.lit(None).cast("string"), _zero(), located=False)
    order = _zero() if order_by is None else _order_column(frame, feed, order_by)
    if entry.commutes:
        return none if order_by is None else replace(none, kind=Order.COLUMN, order=order)
    identity = _identity(frame)
    if identity is not None:
        kind = Order.SOURCE if order_by is None else Order.COLUMN
        return RowOrder(kind, order, *identity, located=True)
    if order_by is None:
        raise FeedError(
            "MP505",
            f"nothing orders the rows of feed `{feed}`, and `{entry.point.name}` is sensitive to their order",
            expected="a Parquet or Kafka source (rows with a place of their own), or order_by=",
            found="a source whose rows have no place",
            hint='name the column that orders them: job.feed(..., order_by="event_time")',
        )
    return replace(none, kind=Order.COLUMN, order=order)


def _order_column(frame: DataFrame, feed: str, name: str) -> Column:
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    kind = kinds.get(name)
    column = F.col(f"`{name}`")
    if isinstance(kind, T.IntegralType):
        number = column.cast("long")
    elif isinstance(kind, T.TimestampType):
        number = F.unix_micros(column)
    elif isinstance(kind, T.DateType):
        number = F.unix_date(column).cast("long")
    else:
        raise FeedError(
            "MP506",
            f"feed `{feed}` can't be ordered by `{name}`",
            expected="a column of integers, dates or timestamps",
            found="no such column" if kind is None else kind.simpleString(),
        )
    return F.coalesce(number, F.lit(_LONG_MIN))


def _identity(frame: DataFrame) -> tuple[Column, Column] | None:
    if all(name in frame.columns for name in _KAFKA):
        source = F.format_string("%s %010d", F.col("topic"), F.col("partition"))
        return source, F.col("offset").cast("long")
    try:
        with _quiet_probe():
            # Raises unless the rows come from files that number them (Parquet).
            frame.select(F.col("_metadata.row_index"), F.col("_metadata.file_path"))
    except AnalysisException:
        return None
    return F.col("_metadata.file_path"), F.col("_metadata.row_index")


@contextmanager
def _quiet_probe() -> Iterator[None]:
    # PySpark logs a failed analysis by itself; here failing is an answer.
    logger = PySparkLogger.getLogger("DataFrameQueryContextLogger")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


@dataclass(frozen=True, slots=True)
class Shape:
    """Which columns the rows of all feeds must carry besides their own: every column costs time for each row."""

    feed: bool
    order: bool
    source: bool

    @classmethod
    def of(cls, orders: Sequence[RowOrder]) -> Shape:
        """The least that keeps the rows of these feeds apart and in order."""
        kinds = [order.kind for order in orders]
        located = any(order.located for order in orders)
        return cls(feed=len(orders) > 1, order=Order.COLUMN in kinds, source=located)


def feed_frame(
    frame: DataFrame,
    number: int,
    feed: FeedPlan,
    entry: CompiledEntry,
    casts: dict[str, str | None],
    order: RowOrder,
    layout: Layout,
    shape: Shape,
) -> DataFrame:
    """One feed's rows, with its own columns only."""
    parameters = dict(entry.point.parameters)
    columns = [F.coalesce(_group(entry, parameters, layout), F.lit(0)).cast("int").alias("grp")]
    if shape.feed:
        columns.append(F.lit(number).alias("feed"))
    if shape.order:
        columns.append(order.order.alias("ord"))
    if shape.source:
        columns += [order.source.alias("src"), order.position.alias("pos")]
    for name in parameters:
        cast = casts[name]
        column = F.col(f"`{name}`")
        columns.append((column if cast is None else column.cast(cast)).alias(feed_column(number, name)))
    for place, (name, _) in enumerate(feed.keep):
        if name not in parameters:
            columns.append(F.col(f"`{name}`").alias(keep_column(number, place)))
    return frame.select(*columns)


def union_feeds(frames: Sequence[DataFrame]) -> DataFrame:
    """All feeds as one DataFrame; columns of other feeds are null."""
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)


def _group(entry: CompiledEntry, parameters: dict[str, Any], layout: Layout) -> Column:
    task = entry.tasks[0]
    if task.dispatch is Dispatch.BY_KEY:
        if not task.key:
            return F.lit(int(layout.group_of(THE_KEY)))
        names = task.key.split(",")
        if len(names) == 1:
            return hash_column(F.col(f"`{names[0]}`"), parameters[names[0]]) % F.lit(layout.key_groups)
    else:
        names = [name for name, hint in parameters.items() if hint in HASHED]
    columns = [F.col(f"`{name}`") for name in names]
    return hash_columns(columns, [parameters[name] for name in names]) % F.lit(layout.key_groups)


def exchange(frame: DataFrame, layout: Layout, to_all: Sequence[int], feeds: int) -> DataFrame:
    """Bring each row to the partition that owns its key group; rows of the feeds `to_all` to all with instances."""
    if layout.aligned:
        owner = f"((grp * {layout.instances}) div {layout.key_groups}) * {layout.partitions} div {layout.instances}"
    else:
        owner = f"(grp * {layout.partitions}) div {layout.key_groups}"
    part = F.expr(f"int({owner})")
    if not to_all:
        return frame.repartitionById(layout.partitions, part)
    everyone = [p for p in range(layout.partitions) if len(layout.instances_of(PartitionId(p)))]
    copies = F.array(*(F.lit(p) for p in everyone))
    if len(to_all) < feeds:
        copies = F.when(F.col("feed").isin(*to_all), copies).otherwise(F.array(part))
    return frame.select(F.explode(copies).alias("part"), "*").repartitionById(layout.partitions, F.col("part"))


def shorten_sources(frame: DataFrame, shape: Shape) -> tuple[DataFrame, str]:
    """Cut off what the names of all source files begin with; the only file of the only feed needs no name at all."""
    if not shape.source:
        return frame, ""
    files = sorted({_SLASHES.sub(":/", name) for name in frame.inputFiles()})
    if not files:
        return frame, ""
    if len(files) == 1 and not shape.feed:
        return frame.drop("src"), files[0]
    prefix = _common_beginning(files[0], files[-1])
    source = F.col("src")
    short = F.when(source.startswith(prefix), F.substring(source, len(prefix) + 1, _NAME_CHARS_MAX)).otherwise(source)
    return frame.withColumn("src", short), prefix


def _common_beginning(first: str, last: str) -> str:
    same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:same]
