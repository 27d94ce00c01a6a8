"""What windows and joins over streaming DataFrames share: how rows come, and columns as a program takes them."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from millpond.engine.time.declared import EventTime
from millpond.errors import WindowError
from millpond.spark.job import Job

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


def hints_of(fields: Fields, what: str, casts: Casts) -> Hints:
    """What columns are cast to, and what they are in Python; others than those that can be are refused."""
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
    """The type of keys of one column or several."""
    return hints[0][1] if len(hints) == 1 else _TUPLE[tuple(hint for _, hint in hints)]


def as_key(fields: Fields, hints: Hints) -> Column:
    """The columns of a key as a program takes them."""
    columns = _cast(fields, hints)
    return columns[0] if len(columns) == 1 else _struct(columns)


def as_row(fields: Fields, hints: Hints) -> Column:
    """Columns as a tuple; a program takes no empty one."""
    return _struct(_cast(fields, hints) or [F.lit(True)])


def _cast(fields: Fields, hints: Hints) -> list[Column]:
    return [column.cast(kind) for (_, column), (kind, _) in zip(fields, hints, strict=True)]


def _struct(columns: Sequence[Column]) -> Column:
    return F.struct(*(column.alias(f"_{place}") for place, column in enumerate(columns, 1)))
