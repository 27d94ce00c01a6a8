"""Windows over streaming DataFrames: a program with one entry point and one handler of windows, as a job.

First what windows and joins of streams share: how rows come, and columns as a program takes them. The program is an
ordinary one. Its class is made here, since the types of keys, rows and results follow from the DataFrame. So all that
holds for `@on_window` holds for it: what is kept, when windows are emitted, and what may change at a restart.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from millpond.engine.options import Durability, Tuning
from millpond.engine.time.declared import EventTime
from millpond.errors import WindowError
from millpond.lengths import Length
from millpond.program.entries import HANDLER, entry
from millpond.program.program import ProgramBase
from millpond.program.windows import on_window
from millpond.sinks.protocol import Sink
from millpond.spark.frames.windowplan import WindowPlan, has_time_bounds
from millpond.spark.job import Job
from millpond.windowing.element import ClosedWindow

Casts = dict[type[T.DataType], tuple[str, Any]]
Hints = list[tuple[str, Any]]
"""Spark types to which columns are cast, and what they are in Python."""

_CASTS: Casts = {
    T.ByteType: ("bigint", int),
    T.ShortType: ("bigint", int),
    T.IntegerType: ("bigint", int),
    T.LongType: ("bigint", int),
    T.BooleanType: ("boolean", bool),
    T.StringType: ("string", str),
    T.BinaryType: ("binary", bytes),
}
KEYS: Casts = {**_CASTS, T.DateType: ("date", datetime.date)}
VALUES: Casts = {
    **_CASTS,
    T.FloatType: ("double", float),
    T.DoubleType: ("double", float),
    T.TimestampType: ("timestamp", datetime.datetime),
}
# A decimal travels as text: of its digits none is lost, whatever its scale.
CARRIED: Casts = {**VALUES, T.DateType: ("date", datetime.date), T.DecimalType: ("string", str)}
"""Columns that are carried along as they are."""

Fields = Sequence[tuple[T.StructField, Column]]
_TUPLE: Any = tuple


@dataclass(frozen=True, slots=True)
class Arrival:
    """How rows of a stream come: when they happened, and the column that orders them, if one does."""

    time: EventTime
    order_by: str | None

    def feed(self, job: Job, entry: str, frame: DataFrame, time: str | Column) -> None:
        """Feed a stream to an entry point of a job, with the column of it that has the event time."""
        job.feed(entry, frame, time=replace(self.time, column=time), order_by=self.order_by)


@dataclass(frozen=True, slots=True)
class Start:
    """What a job is started with, as `Program.on` takes it."""

    checkpoint: str | Path
    partitions: int | None
    local_root: str | Path | None
    progress: bool | None
    durability: Durability | None
    tuning: Tuning | None

    def job(self, program: type[ProgramBase], spark: SparkSession) -> Job:
        """Make the job of a program."""
        return Job(program, spark, **{field.name: getattr(self, field.name) for field in fields(self)})


def hints_of(fields: Fields, what: str, casts: Casts) -> Hints:
    """Return what columns are cast to, and what they are in Python; others than those that can be are refused."""
    unfit = [field for field, _ in fields if type(field.dataType) not in casts]
    if unfit:
        raise WindowError(
            "MP642",
            f"the column `{unfit[0].name}` can't be a {what} of a stream",
            expected=", ".join(sorted({kind for kind, _ in casts.values()})),
            found=unfit[0].dataType.simpleString(),
            hint="cast it, or select only the columns that are needed, before windows(...)",
        )
    return [casts[type(field.dataType)] for field, _ in fields]


def key_hint(hints: Hints) -> Any:
    """Return the type of keys of one column or several."""
    return hints[0][1] if len(hints) == 1 else _TUPLE[tuple(hint for _, hint in hints)]


def as_key(fields: Fields, hints: Hints) -> Column:
    """Return the columns of a key as a program takes them."""
    columns = _cast(fields, hints)
    return columns[0] if len(columns) == 1 else _struct(columns)


def as_row(fields: Fields, hints: Hints) -> Column:
    """Return columns as a tuple; a program takes no empty one."""
    return _struct(_cast(fields, hints) or [F.lit(True)])


def _cast(fields: Fields, hints: Hints) -> list[Column]:
    return [column.cast(kind) for (_, column), (kind, _) in zip(fields, hints, strict=True)]


def _struct(columns: Sequence[Column]) -> Column:
    return F.struct(*(column.alias(f"_{place}") for place, column in enumerate(columns, 1)))


KEY, ROW, TIME = "window_key", "window_row", "window_time"
"""The columns that the program is fed, beside those of the DataFrame."""

TOLD = "told"
"""The handler. Its name is in checkpoints."""

_LIST: Any = list


@dataclass(frozen=True, slots=True)
class StreamedFrame:
    """A streaming DataFrame with the keys, time and columns that its windows are computed of."""

    frame: DataFrame
    keys: Fields
    time: Column
    columns: Fields
    arrival: Arrival

    def job(self, plan: WindowPlan, to: Sink, start: Start) -> Job:
        """Make a job that computes the windows of a plan, and sends them to a sink."""
        key, row = hints_of(self.keys, "key", KEYS), hints_of(self.columns, "column of windows", VALUES)
        program = _program(plan, key, row, self.arrival.time.lateness)
        fed = self.frame.withColumns({KEY: as_key(self.keys, key), ROW: as_row(self.columns, row), TIME: self.time})
        job = start.job(program, self.frame.sparkSession)
        self.arrival.feed(job, "add", fed, TIME)
        return job.on_window(TOLD, to=to, rows=plan.schema)


def _program(plan: WindowPlan, key: Hints, row: Hints, lateness: Length) -> type[ProgramBase]:
    """Make the program of a plan: rows are added as they come, and a row is emitted for each window that is over."""
    names = tuple(name for name, _ in plan.columns)
    over_time = {name: has_time_bounds(window) for name, window in plan.queries.items()}
    single, corrects, kinds = plan.single, plan.corrects, set(over_time.values())
    windows = next(iter(plan.queries.values())) if single else plan.queries

    def row_of(one: ClosedWindow) -> tuple[Any, ...]:
        timed = kinds == {True} or (len(kinds) == 2 and over_time[one.name])
        bounds: list[Any] = []
        for shape in (True, False):
            if shape in kinds:
                bounds += (one.begin, one.end) if timed is shape else (None, None)
        named = () if single else (one.name,)
        return (*named, *bounds, *one.values.values(), *((one.change,) if corrects else ()))

    class Windowed(ProgramBase):
        @entry
        def add(self, window_key: Any, window_row: Any) -> None:
            # The compiler knows this form, so that rows are added by columns.
            self.told.add(window_key, **dict(zip(names, window_row, strict=False)))

        @on_window(windows, lateness=lateness, **plan.aggregates)
        def told(self, window_key: Any, closed: list[ClosedWindow]) -> Any:  # noqa: ARG002 - replies go with it
            return [row_of(one) for one in closed]

    own = key_hint(key)
    hints = dict(zip(plan.aggregates, (kind.hint for kind in plan.results), strict=True))
    parts = [field for field in plan.schema if field.name not in dict(plan.keys)]
    reply: Any = _LIST[_TUPLE[tuple((hints.get(field.name) or _python(field.type)) | None for field in parts)]]
    Windowed.add.__annotations__.update({KEY: own, ROW: _TUPLE[tuple(hint for _, hint in row) or (bool,)]})
    getattr(vars(Windowed)[TOLD], HANDLER).__annotations__.update({KEY: own, "return": reply})
    return Windowed


def _python(kind: pa.DataType) -> Any:
    """Return what a column of results is in Python."""
    tests: tuple[tuple[Any, Any], ...] = (
        (pa.types.is_integer, int),
        (pa.types.is_floating, float),
        (pa.types.is_boolean, bool),
        (pa.types.is_string, str),
        (pa.types.is_binary, bytes),
        (pa.types.is_timestamp, datetime.datetime),
    )
    found = next((hint for test, hint in tests if test(kind)), None)
    if found is None:
        raise WindowError(
            "MP643",
            "a column of results can't be emitted by a stream",
            expected="numbers, text, bytes, booleans or timestamps",
            found=str(kind),
            hint="declare the type of the aggregate: types={...}, or let it give something else",
        )
    return found
