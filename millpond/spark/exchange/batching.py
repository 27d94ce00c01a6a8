"""Batches of rows on their way to Python workers: Spark need not measure what can't grow large.

Spark sums up the buffers of a batch after each row to keep it under a limit of bytes: a third of what the JVM does in
an epoch of small rows. Rows whose widths are fixed reach their limit of rows first, so for them the other is lifted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_UNMEASURED = str(2**31 - 1)
"""The limit for which Spark does not measure."""

_WIDTHS: dict[type[T.DataType], int] = {
    T.BooleanType: 1,
    T.ByteType: 1,
    T.ShortType: 2,
    T.IntegerType: 4,
    T.FloatType: 4,
    T.DateType: 4,
    T.LongType: 8,
    T.DoubleType: 8,
    T.TimestampType: 8,
    T.TimestampNTZType: 8,
    T.DecimalType: 16,
}
_SOURCE = "src"
_SOURCE_WIDTH = 256
"""Names of source files come without what they have in common, and no user chooses them row by row."""

_VALIDITY = 1


@dataclass(slots=True)
class _Lifted:
    """A session whose limit is lifted, by how many jobs, and what it was before."""

    session: SparkSession
    before: str
    jobs: int = 0


_lifted: dict[int, _Lifted] = {}
_changing = threading.Lock()


@contextmanager
def unmeasured(rows: DataFrame) -> Iterator[None]:
    """While a job hands these rows to Python workers, leave out measuring batches that are small anyway."""
    session = rows.sparkSession
    width = row_width(rows.schema)
    if width is None:
        yield
        return
    with _changing:
        lifted = _lift(session, width)
    try:
        yield
    finally:
        if lifted is not None:
            with _changing:
                _put_back(lifted)


def row_width(schema: T.StructType) -> int | None:
    """Return the most bytes that a row takes in a batch; None if that is not known."""
    total = 0
    for column in schema.fields:
        width = _SOURCE_WIDTH if column.name == _SOURCE else _WIDTHS.get(type(column.dataType))
        if width is None:
            return None
        total += width + _VALIDITY
    return total


def _lift(session: SparkSession, width: int) -> _Lifted | None:
    lifted = _lifted.get(id(session))
    if lifted is None:
        before, rows_max = session.conf.get(_BYTES), session.conf.get(_ROWS)
        assert before is not None, "Spark has a default for both"
        assert rows_max is not None, "Spark has a default for both"
        if not 0 < int(rows_max) * width < _bytes(before):
            return None
        lifted = _lifted[id(session)] = _Lifted(session, before)
        session.conf.set(_BYTES, _UNMEASURED)
    lifted.jobs += 1
    return lifted


def _put_back(lifted: _Lifted) -> None:
    lifted.jobs -= 1
    if not lifted.jobs:
        del _lifted[id(lifted.session)]
        lifted.session.conf.set(_BYTES, lifted.before)


def _bytes(limit: str) -> int:
    """Get what Spark shows of a limit: a number and `b`; anything else counts as no limit that is known to be high."""
    number = limit.removesuffix("b")
    return int(number) if number.isdecimal() else 0
