"""Rows of all feeds as one DataFrame: each with its feed, its key group and its place in the input order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce

from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from millpond.compiler.compiled import CompiledEntry
from millpond.compiler.plan.routing import hashed_parameters
from millpond.engine.plan import FeedPlan, Order, ProgramPlan
from millpond.engine.sequence.ways import HOME
from millpond.engine.task.intake import UNPARSED, feed_column, keep_column, unparsed_column
from millpond.engine.time.laterows import TIME
from millpond.errors import FeedError
from millpond.graph.model import Dispatch
from millpond.ids import PartitionId
from millpond.keygroups import Layout
from millpond.spark.exchange.hashing import hash_column, hash_columns
from millpond.state.containers.value import THE_KEY

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
    compound: bool = False
    """Whether `source` begins with what orders rows of one `order`."""


def row_order(frame: DataFrame, entry: CompiledEntry, feed: str, order_by: str | Sequence[str] | None) -> RowOrder:
    """Find what orders a feed's rows: the user's columns, or the identity of their source."""
    names = () if order_by is None else (order_by,) if isinstance(order_by, str) else tuple(order_by)
    columns = [_order_column(frame, feed, name) for name in names]
    if order_by is not None and (not names or len(set(names)) < len(names)):
        raise FeedError(
            "MP506",
            f"feed `{feed}` can't be ordered by {list(names)}",
            expected="one column or several, each once",
        )
    none = RowOrder(Order.NONE, _zero(), F.lit(None).cast("string"), _zero(), located=False)
    if entry.commutes:
        return none if not columns else replace(none, kind=Order.COLUMN, order=columns[0])
    identity = _identity(frame)
    if not columns:
        if identity is None:
            raise _unordered(frame, feed, entry.point.name)
        return RowOrder(Order.SOURCE, _zero(), *identity, located=True)
    first, *others = columns
    if not others:
        if identity is None:
            return replace(none, kind=Order.COLUMN, order=first)
        return RowOrder(Order.COLUMN, first, *identity, located=True)
    source, position = identity or (F.lit(""), _zero())
    compound = F.concat_ws(" ", *map(_sortable, others), source)
    return RowOrder(Order.COLUMN, first, compound, position, located=True, compound=True)


def _sortable(number: Column) -> Column:
    """Return a number as text that sorts as the number does: its bits, with the sign turned."""
    return F.lpad(F.hex(number.bitwiseXOR(F.lit(_LONG_MIN))), 16, "0")


def _unordered(frame: DataFrame, feed: str, entry: str) -> FeedError:
    summary = f"nothing orders the rows of feed `{feed}`, and `{entry}` is sensitive to their order"
    dropped = _dropped(frame)
    if dropped:
        told = ", ".join(f"`{name}`" for name in dropped)
        kept = ", ".join(f'"{name}"' for name in _KAFKA)
        return FeedError(
            "MP505",
            summary,
            expected="topic, partition and offset of each Kafka row as columns, or order_by=",
            found=f"rows of a source that has {told}, dropped by a later select",
            hint=f'keep them beside the parsed value: df.select({kept}, from_json(...).alias("v"))'
            f'.select({kept}, "v.*"); columns that are no parameters do no harm',
        )
    return FeedError(
        "MP505",
        summary,
        expected="a Parquet or Kafka source (rows with a place of their own), or order_by=",
        found="a source whose rows have no place",
        hint='name the column that orders them: job.feed(..., order_by="event_time")',
    )


def _dropped(frame: DataFrame) -> list[str]:
    """Return the columns of Kafka's rows that the source of a frame has, and the frame has no more.

    Told by asking for them in a condition: Spark finds columns for it below the selects that dropped them.
    """
    missing = [name for name in _KAFKA if name not in frame.columns]
    try:
        with _quiet_probe():
            for name in missing:
                _ = frame.where(F.col(name).isNotNull()).schema
    except AnalysisException:
        return []
    return missing


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
            # Raises unless the rows come from files that number them (Parquet); through Connect only the schema does.
            _ = frame.select(F.col("_metadata.row_index"), F.col("_metadata.file_path")).schema
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
    group: bool
    order: bool
    source: bool
    compound: bool = False

    @classmethod
    def of(cls, entries: Sequence[CompiledEntry], orders: Sequence[RowOrder], layout: Layout) -> Shape:
        """Return the least that keeps the rows of these feeds apart, in order, and with their state."""
        kinds = [order.kind for order in orders]
        located = any(order.located for order in orders)
        # One step by key finds the groups of its keys by itself, once per key instead of once per row; gathered rows go
        # where their component goes, those in sequence to one task.
        first = entries[0].tasks[0]
        placed = bool(first.key) or first.keys is not None or first.dispatch is Dispatch.SEQUENCE
        alone = len(entries) == 1 and len(entries[0].tasks) == 1 and placed
        return cls(
            feed=len(orders) > 1,
            group=layout.aligned or not alone,
            order=Order.COLUMN in kinds,
            source=located,
            compound=any(order.compound for order in orders),
        )


def feed_frame(
    frame: DataFrame,
    number: int,
    feed: FeedPlan,
    entry: CompiledEntry,
    casts: dict[str, str | None],
    order: RowOrder,
    layout: Layout,
    shape: Shape,
    time: Column | None = None,
) -> DataFrame:
    """Return one feed's rows, with its own columns only; `time` is when they happened, if that is known."""
    parameters = dict(entry.point.parameters)
    columns = []
    if shape.group:
        columns.append(F.expr(_group(entry, layout, str)).alias("grp"))
    if shape.feed:
        columns.append(F.lit(number).alias("feed"))
    if shape.order:
        columns.append(order.order.alias("ord"))
    if shape.source:
        columns += [order.source.alias("src"), order.position.alias("pos")]
    if time is not None:
        columns.append(time.alias(TIME))
    for name in parameters:
        cast = casts[name]
        # A column that is missing is null: its parameter has a default.
        column = F.col(f"`{name}`") if name in frame.columns else F.lit(None)
        columns.append((column if cast is None else column.cast(cast)).alias(feed_column(number, name)))
    if feed.unparsed:
        columns.append(F.col(UNPARSED).alias(unparsed_column(number)))
    for place, (name, _) in enumerate(feed.keep):
        if name not in parameters:
            columns.append(F.col(f"`{name}`").alias(keep_column(number, place)))
    return frame.select(*columns)


def union_feeds(frames: Sequence[DataFrame]) -> DataFrame:
    """Return all feeds as one DataFrame; columns of other feeds are null."""
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)


def _group(entry: CompiledEntry, layout: Layout, column_name: Callable[[str], str]) -> str:
    """Return the key group of a row as SQL; 0 for a row without a key, which is a bad one."""
    task = entry.tasks[0]
    parameters = dict(entry.point.parameters)
    if task.dispatch is Dispatch.BY_KEY:
        if not task.key:
            return str(int(layout.group_of(THE_KEY)))
        names = list(task.key)
    else:
        names = hashed_parameters(entry.point)
    columns = [column_name(name) for name in names]
    hints = [parameters[name] for name in names]
    single = task.dispatch is Dispatch.BY_KEY and len(names) == 1
    hashed = hash_column(columns[0], hints[0]) if single else hash_columns(columns, hints)
    return f"int(coalesce({hashed} % {layout.key_groups}, 0))"


def exchange(frame: DataFrame, plan: ProgramPlan, shape: Shape) -> DataFrame:
    """Bring each row to the partition that owns its key group; rows for all instances to all partitions with some."""
    if plan.in_sequence or _to_all(plan) or _free(plan):
        return place(frame, plan, shape).repartitionById(plan.layout.partitions, F.col("part"))
    return frame.repartitionById(plan.layout.partitions, F.expr(_target(plan, shape)))


def place(frame: DataFrame, plan: ProgramPlan, shape: Shape) -> DataFrame:
    """Write into each row which partition it is for; a row for all instances comes once for each partition."""
    if plan.in_sequence:
        return frame.withColumn("part", F.lit(int(HOME)))
    owner, to_all = _target(plan, shape), _to_all(plan)
    if not to_all:
        return frame.selectExpr(f"{owner} part", "*")
    layout = plan.layout
    everyone = [str(p) for p in range(layout.partitions) if len(layout.instances_of(PartitionId(p)))]
    copies = f"array({', '.join(everyone)})"
    if len(to_all) < len(plan.feeds):
        copies = f"CASE WHEN feed IN ({', '.join(map(str, to_all))}) THEN {copies} ELSE array({owner}) END"
    return frame.selectExpr(f"explode({copies}) part", "*")


def _target(plan: ProgramPlan, shape: Shape) -> str:
    """Return the partition of a row as SQL; of a row for all instances, one of them."""
    owner, free = _owner(plan, shape), _free(plan)
    if plan.layout.spread is None or not free:
        return owner
    assert shape.group, "rows without a key carry their group"
    carrier = _looked_up(plan.layout.spread, "grp")
    if len(free) == len(plan.feeds):
        return carrier
    return f"CASE WHEN feed IN ({', '.join(map(str, free))}) THEN {carrier} ELSE {owner} END"


def _looked_up(partitions: Sequence[int], group: str) -> str:
    # A string, since Spark's parser takes its time over an array of many numbers; either is a constant to it.
    return f"cast(split('{','.join(map(str, partitions))}', ',') as array<int>)[{group}]"


def _owner(plan: ProgramPlan, shape: Shape) -> str:
    layout = plan.layout
    if not shape.group and plan.entry_of(0).tasks[0].keys is not None:
        return "0"
    group = "grp" if shape.group else _group(plan.entry_of(0), layout, partial(feed_column, 0))
    if not layout.in_ranges:
        return _looked_up(layout.owners(), group)
    if layout.aligned:
        instance = f"(({group} * {layout.instances}) div {layout.key_groups})"
        return f"int(({instance} * {layout.partitions}) div {layout.instances})"
    return f"int(({group} * {layout.partitions}) div {layout.key_groups})"


def _free(plan: ProgramPlan) -> list[int]:
    """Return the feeds whose rows begin with a task without state, where these run elsewhere than with their owners."""
    if plan.layout.spread is None:
        return []
    return [n for n in range(len(plan.feeds)) if plan.entry_of(n).tasks[0].free]


def _to_all(plan: ProgramPlan) -> list[int]:
    """Return the feeds whose rows are for all instances."""
    return [n for n in range(len(plan.feeds)) if plan.entry_of(n).tasks[0].dispatch is Dispatch.ONE_TO_ALL]


def shorten_sources(frame: DataFrame, shape: Shape, only: str | None) -> tuple[DataFrame, str]:
    """Cut off what the names of all source files begin with; the only file of the only feed needs no name at all.

    `only` is that file's name if Spark noted it, as it does for streams: what it noted is what it reads.
    """
    if not shape.source or shape.compound:
        return frame, ""
    if only is not None and not shape.feed:
        return frame.drop("src"), only
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
