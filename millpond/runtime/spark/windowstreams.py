"""Windows over streaming DataFrames: a program with one entry point and one handler of windows, as a job.

The program is an ordinary one. Its class is made here, since the types of keys, rows and results follow from the
DataFrame. So all that holds for `@on_window` holds for it: what is kept, when windows are told, and what may change at
a restart.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from millpond.errors import WindowError
from millpond.program.entries import HANDLER, entry
from millpond.program.program import ProgramBase
from millpond.program.sinks import Sink
from millpond.program.windows import on_window
from millpond.runtime.spark.job import Job
from millpond.runtime.windowplan import WindowPlan, has_time_bounds
from millpond.windowing.element import ClosedWindow

KEY, ROW, TIME = "window_key", "window_row", "window_time"
"""The columns that the program is fed, beside those of the DataFrame."""

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
_KEYS: Casts = {**_CASTS, T.DateType: ("date", datetime.date)}
_VALUES: Casts = {
    **_CASTS,
    T.FloatType: ("double", float),
    T.DoubleType: ("double", float),
    T.TimestampType: ("timestamp", datetime.datetime),
}
_TUPLE: Any = tuple
_LIST: Any = list


@dataclass(frozen=True, slots=True)
class StreamTimes:
    """How rows of a stream come: as `Job.feed` takes it; None where nothing was said."""

    disorder: datetime.timedelta | None = None
    lateness: datetime.timedelta | None = None
    idle: datetime.timedelta | None = None
    late: Sink | None = None
    order_by: str | None = None

    @property
    def said(self) -> list[str]:
        """The names of what was said."""
        return [name for name in type(self).__slots__ if getattr(self, name) is not None]


@dataclass(frozen=True, slots=True)
class StreamedFrame:
    """A streaming DataFrame with the keys, time and columns that its windows are computed of."""

    frame: DataFrame
    keys: Sequence[tuple[T.StructField, Column]]
    time: Column
    columns: Sequence[tuple[T.StructField, Column]]
    times: StreamTimes

    def job(self, plan: WindowPlan, to: Sink, options: Mapping[str, Any]) -> Job:
        """A job that computes the windows of a plan, and sends them to a sink."""
        key, row = self._hints(self.keys, "key", _KEYS), self._hints(self.columns, "column of windows", _VALUES)
        program = _program(plan, key, row, self.times.lateness or datetime.timedelta())
        fed = self.frame.withColumns(
            {
                KEY: _packed([column.cast(kind) for (_, column), (kind, _) in zip(self.keys, key, strict=True)]),
                ROW: _struct([column.cast(kind) for (_, column), (kind, _) in zip(self.columns, row, strict=True)]),
                TIME: self.time,
            }
        )
        times = self.times
        job = Job(program, self.frame.sparkSession, **options)
        job.feed(
            "add",
            fed,
            time=TIME,
            disorder=times.disorder,
            lateness=times.lateness,
            idle=times.idle,
            late=times.late,
            order_by=times.order_by,
        )
        return job.on_window("told", to=to, rows=plan.schema)

    def _hints(self, fields: Sequence[tuple[T.StructField, Column]], what: str, casts: Casts) -> Hints:
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


def _program(plan: WindowPlan, key: Hints, row: Hints, lateness: datetime.timedelta) -> type[ProgramBase]:
    """The program of a plan: rows are added as they come, and a row is told of each window that is over."""
    names = tuple(name for name, _ in plan.columns)
    over_time = {name: has_time_bounds(window) for name, window in plan.queries.items()}
    single, corrects, kinds = plan.single, plan.corrects, set(over_time.values())
    windows = next(iter(plan.queries.values())) if single else plan.queries

    def told_of(one: ClosedWindow) -> tuple[Any, ...]:
        timed = kinds == {True} or (len(kinds) == 2 and over_time[one.name])
        bounds: list[Any] = []
        for shape in (True, False):
            if shape in kinds:
                bounds += (one.begin, one.end) if timed is shape else (None, None)
        named = () if single else (one.name,)
        return (*named, *bounds, *one.values.values(), *((one.corrected,) if corrects else ()))

    class Windowed(ProgramBase):
        @entry
        def add(self, window_key: Any, window_row: Any) -> None:
            # The compiler knows this form, so that rows are added by columns.
            self.told.add(window_key, **dict(zip(names, window_row, strict=False)))

        @on_window(windows, lateness=lateness, **plan.aggregates)
        def told(self, window_key: Any, closed: list[ClosedWindow]) -> Any:  # noqa: ARG002 - replies go with it
            return [told_of(one) for one in closed]

    own = _hint_of([hint for _, hint in key])
    hints = dict(zip(plan.aggregates, (kind.hint for kind in plan.results), strict=True))
    parts = [field for field in plan.schema if field.name not in dict(plan.keys)]
    told: Any = _LIST[_TUPLE[tuple((hints.get(field.name) or _python(field.type)) | None for field in parts)]]
    Windowed.add.__annotations__.update({KEY: own, ROW: _TUPLE[tuple(hint for _, hint in row) or (bool,)]})
    getattr(vars(Windowed)["told"], HANDLER).__annotations__.update({KEY: own, "return": told})
    return Windowed


def _python(kind: pa.DataType) -> Any:
    """What a column of results is in Python."""
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
            "a column of results can't be told by a stream",
            expected="numbers, text, bytes, booleans or timestamps",
            found=str(kind),
            hint="tell the type of the aggregate: types={...}, or let it give something else",
        )
    return found


def _hint_of(hints: Sequence[Any]) -> Any:
    return hints[0] if len(hints) == 1 else _TUPLE[tuple(hints)]


def _packed(columns: Sequence[Column]) -> Column:
    return columns[0] if len(columns) == 1 else _struct(columns)


def _struct(columns: Sequence[Column]) -> Column:
    """Columns as a tuple; a program takes no empty one."""
    return F.struct(*(column.alias(f"_{place}") for place, column in enumerate(columns or [F.lit(True)], 1)))
