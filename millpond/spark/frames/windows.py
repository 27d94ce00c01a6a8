"""Windows over DataFrames: rows of a batch go to the task of their key, and tasks aggregate them in one pass.

Of a streaming DataFrame a job is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Never, TypeAlias

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from millpond.engine.options import Durability, Tuning
from millpond.engine.time.declared import EventTime
from millpond.errors import FeedError, WindowError
from millpond.lengths import Length
from millpond.sinks.protocol import Sink
from millpond.spark.feeds.columntypes import arrow_of, spark_of
from millpond.spark.frames.joinstreams import join_streams
from millpond.spark.frames.loopframes import LoopFrame
from millpond.spark.frames.looprows import LoopRows
from millpond.spark.frames.windowcolumns import column_results
from millpond.spark.frames.windowjoins import JoinSide, join_frames, join_of, quoted
from millpond.spark.frames.windowplan import (
    TIME_COLUMN,
    WINDOW,
    WindowPlan,
    has_column_form,
    key_column,
    result_type,
    value_column,
)
from millpond.spark.frames.windowrecords import record_results
from millpond.spark.frames.windowstreams import Arrival, Start, StreamedFrame
from millpond.spark.interpreter import check_hash_seed
from millpond.spark.job import Job
from millpond.spark.placement.placement import checked_host
from millpond.spelling import check_call
from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.kinds.kinds import Window
from millpond.windowing.kinds.periodic import COUNT, Periodic, sliding, tumbling
from millpond.windowing.kinds.userdefined import Viewed

Frame: TypeAlias = DataFrame
Expression: TypeAlias = str | Column

_KEYS = (
    *(T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType, T.DecimalType),
    *(T.StringType, T.BinaryType, T.DateType, T.TimestampType, T.TimestampNTZType),
)
_TIMES = (T.TimestampType, T.TimestampNTZType)
_UNSORTED = (T.MapType, T.VariantType)
"""Types that Spark can't sort by."""


_AGGREGATES = "aggregate(...) gives a DataFrame of a batch, job(..., to=, checkpoint=) a job over a stream"
_ITERATES = "iterate(...) gives a DataFrame of a batch, iterate_job(..., to=, checkpoint=) a job over a stream"
_JOIN_TAKES = ("other", "window", "to", "within", "how")
_JOINS = "join(...) gives a DataFrame of two batches, join_job(..., to=, checkpoint=) a job over two streams"


class WindowedFrame:
    """A DataFrame with the key and the time of its rows.

    `aggregate` says what is wanted of them, and gives a DataFrame. For a streaming DataFrame, `job` gives a job. `join`
    and `join_job` do the same for two frames; `tumbling`, `sliding` and `over` give windows that loops iterate over.
    """

    def __init__(
        self,
        frame: DataFrame,
        key: Expression | Sequence[Expression],
        time: Expression | EventTime,
        partitions: int | None = None,
        order_by: str | None = None,
    ) -> None:
        given: object = frame
        if not isinstance(given, DataFrame):
            raise _wrong("a DataFrame", type(given).__name__, "windows(df, key=..., time=...)")
        keys = [key] if isinstance(key, str | Column) or not isinstance(key, Iterable) else list(key)
        if not keys:
            raise _wrong("at least one column as `key`", "none", "for windows over all rows: `key=lit(0).alias('all')`")
        arrival = _arrival(time, order_by, streaming=frame.isStreaming)
        if partitions is not None and (type(partitions) is not int or partitions < 1):
            raise _wrong("`partitions` of at least 1", repr(partitions)[:60], "leave it out, and Spark chooses")
        checked_host(frame.sparkSession)
        self._frame = frame
        self._arrival = arrival
        self._keys = [self._column(each) for each in keys]
        self._time = self._column(time.column if isinstance(time, EventTime) else time)
        self._partitions = partitions
        *self._key_fields, timed = self._fields([*self._keys, self._time])
        for field in self._key_fields:
            if type(field.dataType) not in _KEYS or _collated(field.dataType):
                raise _unfit(field, "key", "numbers, text, bytes, booleans, dates or timestamps")
        if type(timed.dataType) not in _TIMES:
            raise _unfit(timed, "time", "a timestamp, e.g. `timestamp_micros(at)` of a number")
        self._time_type = timed.dataType

    def aggregate(
        self,
        window: Window | Viewed | Mapping[str, Window | Viewed],
        *,
        types: Mapping[str, Any] | None = None,
        **aggregates: Aggregate,
    ) -> DataFrame:
        """Make a row per key and window, with a column per aggregate; several windows share one pass, each by its name.

        `types` are the types of results that can't be known, such as `{"vwap": float}`.
        """
        self._check_streaming(_AGGREGATES, wanted=False)
        plan = self._plan(window, types or {}, aggregates)
        return self._routed(plan).mapInArrow(_work(plan), self._schema(plan))

    def job(
        self,
        window: Window | Viewed | Mapping[str, Window | Viewed],
        *,
        to: Sink,
        checkpoint: str | Path,
        types: Mapping[str, Any] | None = None,
        local_root: str | Path | None = None,
        progress: bool | None = None,
        durability: Durability | None = None,
        tuning: Tuning | None = None,
        **aggregates: Aggregate,
    ) -> Job:
        """Make a job that sends the rows which `aggregate` gives to a sink, exactly once, when their windows are over.

        It is a job like that of any program: `start()` it, or `run()` it until nothing is left. Its state is in
        `checkpoint`; that and all behind `types` are those of `Program.on`.
        """
        _check_spelling("job", aggregates)
        arrival = self._stream(_AGGREGATES)
        plan = self._plan(window, types or {}, aggregates)
        keys = list(zip(self._key_fields, self._keys, strict=True))
        columns = [(self._field(quoted(name)), quoted(name)) for name, _ in plan.columns]
        start = Start(checkpoint, self._partitions, local_root, progress, durability, tuning)
        return StreamedFrame(self._frame, keys, self._time, columns, arrival).job(plan, to, start)

    def tumbling(self, length: Length) -> LoopFrame:
        """Cut time into windows of one length, for a loop: `.tumbling("1 minute").iterate(...)`."""
        return self.over(tumbling(length))

    def sliding(self, length: Length, every: Length) -> LoopFrame:
        """Lay windows of a length over time, one beginning `every` so often, for a loop."""
        return self.over(sliding(length, every))

    def over(self, window: Window) -> LoopFrame:
        """Lay windows over time, for a loop: `.over(days("Europe/Berlin")).iterate_job(...)`."""
        if isinstance(self._time_type, T.TimestampNTZType):
            raise _unfit(self._field(self._time), "time of a loop", "a timestamp with time zone")
        keys = list(zip(self._key_fields, self._keys, strict=True))
        own = {field.name for field in self._key_fields}
        columns = [(self._field(quoted(name)), quoted(name)) for name in self._frame.columns if name not in own]

        def arrival(streaming: bool) -> Arrival | None:
            if streaming:
                return self._stream(_ITERATES)
            self._check_streaming(_ITERATES, wanted=False)
            return None

        return LoopFrame(LoopRows(self._frame, keys, self._time, columns), window, self._partitions, arrival)

    def _check_streaming(self, hint: str, *, wanted: bool) -> None:
        if self._frame.isStreaming is not wanted:
            kinds = ("a batch DataFrame", "a streaming DataFrame")
            raise _wrong(kinds[wanted], kinds[not wanted], hint)

    def _stream(self, hint: str) -> Arrival:
        """Return how the rows come, which must be those of a stream."""
        self._check_streaming(hint, wanted=True)
        if isinstance(self._time_type, T.TimestampNTZType):
            raise _unfit(self._field(self._time), "time of a stream", "a timestamp with time zone")
        assert self._arrival is not None
        return self._arrival

    def _plan(
        self,
        window: Window | Viewed | Mapping[str, Window | Viewed],
        types: Mapping[str, Any],
        aggregates: Mapping[str, Aggregate],
    ) -> WindowPlan:
        queries = dict(window) if isinstance(window, Mapping) else {WINDOW: window}
        _check(queries, aggregates, types)
        columns = self._read_columns(queries, aggregates)
        kinds = {name: arrow_of(self._field(quoted(name)).dataType) for name in columns}
        return WindowPlan(
            keys=tuple((field.name, arrow_of(field.dataType)) for field in self._key_fields),
            time=arrow_of(self._time_type),
            columns=tuple(kinds.items()),
            queries=queries,
            single=not isinstance(window, Mapping),
            aggregates=aggregates,
            results=tuple(result_type(name, each, kinds, types.get(name)) for name, each in aggregates.items()),
            corrects=self._arrival is not None and self._arrival.time.lateness_us > 0,
        )

    def join(
        self,
        other: WindowedFrame,
        window: Window | None = None,
        *,
        within: tuple[Length, Length] | None = None,
        how: str = "inner",
    ) -> DataFrame:
        """Pair rows of one key: `other` within two distances in time of a row of this frame, or in the same window.

        With `how="left"` rows of this frame without a partner are there too, with nulls, with `"right"` those of the
        other, with `"full"` both. Keys have the same names on both sides, all other columns names of their own.
        """
        _check_other(other)
        return join_frames(self.side, other.side, join_of(within, window, how), how, self._partitions)

    def join_job(
        self,
        other: WindowedFrame,
        window: Window | None = None,
        *,
        to: Sink,
        checkpoint: str | Path,
        within: tuple[Length, Length] | None = None,
        how: str = "inner",
        local_root: str | Path | None = None,
        progress: bool | None = None,
        durability: Durability | None = None,
        tuning: Tuning | None = None,
        **old: Never,
    ) -> Job:
        """Make a job that sends the rows which `join` gives to a sink, exactly once, for two streaming DataFrames.

        A pair within distances is emitted when the watermark has passed both its rows, one of a window when that is
        over, and a row alone when no partner can come. `checkpoint` and all behind `how` are those of `Program.on`.
        """
        _check_spelling("join_job", old)
        check_call("join_job", old, (*_JOIN_TAKES, *(field.name for field in fields(Start))), {})
        _check_other(other)
        sides = [(each._side, each._stream(_JOINS)) for each in (self, other)]  # noqa: SLF001
        start = Start(checkpoint, self._partitions or other._partitions, local_root, progress, durability, tuning)
        return join_streams(sides[0], sides[1], within, window, how, to, start)

    @property
    def side(self) -> JoinSide:
        """The frame as one side of a join."""
        self._check_streaming(_JOINS, wanted=False)
        return self._side

    @property
    def _side(self) -> JoinSide:
        names = zip(self._key_fields, self._keys, strict=True)
        return JoinSide(self._frame, [(field.name, _as_key(key, field.dataType)) for field, key in names], self._time)

    def _routed(self, plan: WindowPlan) -> DataFrame:
        """Return the columns that are needed, rows of a key in one task."""
        keys = [key_column(place) for place in range(len(self._keys))]
        values = [value_column(place) for place in range(len(plan.columns))]
        rows = self._frame.select(
            *(_as_key(key, field.dataType).alias(name) for key, field, name in
              zip(self._keys, self._key_fields, keys, strict=True)),
            self._time.alias(TIME_COLUMN),
            *(quoted(name).alias(value) for (name, _), value in zip(plan.columns, values, strict=True)),
        )  # fmt: skip
        routed = rows.repartition(*keys) if self._partitions is None else rows.repartition(self._partitions, *keys)
        kinds = {field.name: field.dataType for field in rows.schema.fields}
        # Rows of one time stay in an order that depends on nothing but their values.
        sorted_by = [name for name in (TIME_COLUMN, *values) if not isinstance(kinds[name], _UNSORTED)]
        if not plan.columnar:
            return routed.sortWithinPartitions(*keys, *sorted_by)
        if any(each.columns is not None and each.columns.ordered for each in plan.aggregates.values()):
            return routed.sortWithinPartitions(*sorted_by)
        return routed

    def _read_columns(self, queries: Mapping[str, Window | Viewed], aggregates: Mapping[str, Aggregate]) -> list[str]:
        """Return the columns that are read: those that aggregates name, or all if functions see whole records."""
        there = self._frame.columns
        named = [each.named for each in aggregates.values()]
        wanted = {name for names in named for name in names or ()}
        missing = sorted(wanted.difference(there))
        if missing:
            raise _no_column(", ".join(missing), there)
        shown = any(names is None for names in named) or any(map(_sees_records, queries.values()))
        return [name for name in there if shown or name in wanted]

    def _schema(self, plan: WindowPlan) -> T.StructType:
        known = {field.name: field.dataType for field in self._key_fields}
        return T.StructType(
            [T.StructField(each.name, known.get(each.name) or spark_of(each.type)) for each in plan.schema]
        )

    def _column(self, given: object) -> Column:
        if isinstance(given, Column):
            return given
        if not isinstance(given, str):
            raise _wrong("columns, by their names or as expressions", repr(given)[:60], "e.g. key='user', time='at'")
        if given in self._frame.columns:
            return quoted(given)
        try:
            return F.expr(given)
        except ParseException as error:
            raise _no_column(given, self._frame.columns) from error

    def _field(self, column: Column) -> T.StructField:
        return self._fields([column])[0]

    def _fields(self, columns: Sequence[Column]) -> list[T.StructField]:
        try:
            found = self._frame.select(*columns).schema.fields
        except AnalysisException as error:
            raise _no_column(str(error).partition("\n")[0][:160], self._frame.columns) from error
        if len(found) != len(columns):
            raise _wrong(
                "expressions of one column each", ", ".join(field.name for field in found)[:60], "name them all"
            )
        return found


def _arrival(time: Expression | EventTime, order_by: str | None, *, streaming: bool) -> Arrival | None:
    """Return how the rows of a stream come; a batch has them all, and its time is a column alone."""
    if isinstance(time, EventTime) is not streaming:
        wanted = 'time=EventTime("at", disorder="10 s") for a stream, time="at" for a batch'
        found = f"time={time!r:.60} for {'a stream' if streaming else 'a batch'}"
        raise _wrong(wanted, found, "of a stream say how its rows come; all rows of a batch are there")
    if order_by is not None and not streaming:
        raise _wrong("a streaming DataFrame", "order_by= for a batch one", "all rows of a batch are there")
    return Arrival(time, order_by) if isinstance(time, EventTime) else None


def _check_other(other: object) -> None:
    if not isinstance(other, WindowedFrame):
        raise _wrong(
            "millpond.windows(other, key=..., time=...)", type(other).__name__, "both sides have keys and times"
        )


def _check_spelling(call: str, given: Mapping[str, object]) -> None:
    """Refuse a mapping of what `Program.on` takes, and show how it is written now."""
    on = given.get("on")
    if isinstance(on, Mapping):
        raise FeedError(
            "MP526",
            f"{call} does not take `on=`: what `Program.on` takes has its own names here, too",
            expected=", ".join(f"{name}={value!r:.60}" for name, value in on.items()),
            found=f"on={on!r:.80}",
        )


def _work(plan: WindowPlan) -> Any:
    results = column_results if plan.columnar else record_results

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        check_hash_seed()
        return results(plan, batches)

    return run


def _as_key(column: Column, kind: T.DataType) -> Column:
    # Zero is one key, with either sign, as it is for Spark.
    return column + F.lit(0).cast(kind) if isinstance(kind, T.FloatType | T.DoubleType) else column


def _sees_records(window: Window | Viewed) -> bool:
    return not has_column_form(window) and not (isinstance(window, Periodic) and window.measure == COUNT)


def _collated(kind: T.DataType) -> bool:
    return isinstance(kind, T.StringType) and kind.collation != "UTF8_BINARY"


def _check(queries: Mapping[str, Any], aggregates: Mapping[str, Any], types: Mapping[str, Any]) -> None:
    example = "e.g. aggregate(tumbling('1 hour'), total=sum_of('amount'))"
    if not queries or not all(isinstance(name, str) for name in queries):
        raise _wrong("a window, or windows by their names", repr(list(queries))[:60], example)
    for window in queries.values():
        if not hasattr(window, "needs_time"):
            raise _wrong("a window of millpond.windowing", repr(window)[:60], example)
    if not aggregates:
        raise _wrong("at least one aggregate by its name", "none", example)
    for name, each in aggregates.items():
        if not isinstance(each, Aggregate):
            raise _wrong(f"an aggregate as `{name}`", repr(each)[:60], example)
    strangers = sorted(set(types).difference(aggregates))
    if strangers:
        raise _wrong("types of aggregates that are computed", ", ".join(strangers), "check the spelling")


def _wrong(expected: str, found: str, hint: str) -> WindowError:
    return WindowError("MP640", "windows can't be computed like this", expected=expected, found=found, hint=hint)


def _unfit(field: T.StructField, what: str, expected: str) -> WindowError:
    return WindowError(
        "MP642",
        f"the column `{field.name}` can't be a {what}",
        expected=expected,
        found=field.dataType.simpleString(),
        hint="convert it first, or give an expression",
    )


def _no_column(found: str, there: Sequence[str]) -> WindowError:
    return WindowError(
        "MP648",
        "there is no such column",
        expected=", ".join(there),
        found=found,
        hint="check the spelling",
    )
