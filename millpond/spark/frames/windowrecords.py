"""Windows over the rows of one task, record by record: for what can't be computed over whole columns.

Rows come sorted by key, and within a key by time. One key is in memory at a time, with its open slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from millpond.engine.gathered.keycodes import KeyCodes
from millpond.errors import MillpondError, WindowError
from millpond.spark.frames.windowplan import (
    BEGIN,
    END,
    FROM,
    TIME_COLUMN,
    TO,
    WINDOW,
    WindowPlan,
    has_time_bounds,
    key_column,
)
from millpond.windowing.aggregates.aggregates import several
from millpond.windowing.columns.intake import TIME_MAX
from millpond.windowing.shared import Result, SharedWindows

BATCH_ROWS = 1 << 14
"""Windows that are held back before they go to Spark; each is a handful of Python objects."""

ROWS_AT_ONCE_MIN = 1 << 6
ROWS_AT_ONCE_MAX = 1 << 12
"""Rows of a key that are taken in at once, at first and at most."""

Key = tuple[Any, ...]


def record_results(plan: WindowPlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the windows of all rows, key by key, as they end."""
    emitted: list[tuple[Key, Result]] = []
    windows: SharedWindows | None = None
    key: Key = ()
    carried: list[pa.Array] = []
    rows_at_once = ROWS_AT_ONCE_MIN
    for batch in batches:
        table = plan.opened(batch)
        keys = [table[key_column(place)] for place in range(len(plan.keys))]
        rows = _rows(plan, table)
        for low, high, new in _stretches(carried, keys):
            if new:
                emitted += _ended(key, windows)
                windows = SharedWindows(several(plan.aggregates), plan.queries)
                key = tuple(column[low].as_py() for column in keys)
            assert windows is not None
            place = low
            while place < high:
                following = min(place + rows_at_once, high)
                with _functions_at(key):
                    results = windows.add_all(rows[place:following])
                # Windows that overlap much end in great numbers: then few rows are taken in at once.
                many = len(results) / (following - place)
                rows_at_once = max(1, min(2 * rows_at_once, ROWS_AT_ONCE_MAX, int(BATCH_ROWS / max(many, 1.0))))
                emitted += [(key, result) for result in results]
                place = following
                while len(emitted) >= BATCH_ROWS:
                    yield _batch(plan, emitted[:BATCH_ROWS])
                    del emitted[:BATCH_ROWS]
        carried = [column.slice(len(column) - 1).combine_chunks() for column in keys] if len(table) else carried
    emitted += _ended(key, windows)
    for begin in range(0, len(emitted), BATCH_ROWS):
        yield _batch(plan, emitted[begin : begin + BATCH_ROWS])


def _rows(plan: WindowPlan, table: pa.Table) -> list[tuple[int, dict[str, Any]]]:
    """Return the times and records of rows."""
    times = table[TIME_COLUMN].cast(pa.int64()).to_pylist()
    columns = plan.values(table)
    if not columns:
        return [(time, {}) for time in times]
    kinds = dict(plan.columns)
    values = zip(*(_plain(name, column, kinds[name]) for name, column in columns.items()), strict=True)
    return [(time, dict(zip(columns, row, strict=True))) for time, row in zip(times, values, strict=True)]


def _plain(name: str, column: pa.ChunkedArray, kind: pa.DataType) -> list[Any]:
    """Return values as records have them: moments in UTC, whatever the zone of the session, as in streams."""
    try:
        found: list[Any] = (column if column.type == kind else column.cast(kind)).to_pylist()
    except (ValueError, OverflowError) as error:
        raise WindowError(
            "MP609",
            f"the column `{name}` has a value that Python can't represent",
            expected="moments of the years 1 to 9999 in UTC",
            found=str(error).partition("\n")[0][:120],
            hint="leave such rows out, or select only the columns that functions need",
        ) from error
    return found


def _stretches(carried: list[pa.Array], keys: list[pa.ChunkedArray]) -> Iterator[tuple[int, int, bool]]:
    """Find ranges of rows of one key, and whether it is another one than before; `carried` is the last row's key."""
    before = 1 if carried else 0
    joined = [
        pa.chunked_array([last, *column.chunks]) for last, column in zip(carried, keys, strict=True)
    ] if carried else keys  # fmt: skip
    codes = KeyCodes(len(keys)).encode(joined)
    changes = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    begins = [before, *(int(place) for place in changes if place > before)]
    for begin, end in zip(begins, [*begins[1:], len(codes)], strict=True):
        if begin < end:
            yield begin - before, end - before, begin == 0 or bool(codes[begin] != codes[begin - 1])


def _ended(key: Key, windows: SharedWindows | None) -> list[tuple[Key, Result]]:
    """Return what ends when all rows of a key have come."""
    if windows is None:
        return []
    with _functions_at(key):
        return [(key, result) for result in windows.advance(TIME_MAX)]


@contextmanager
def _functions_at(key: Key) -> Iterator[None]:
    """Tell of which key the records are that a function of a window or an aggregate does not get along with."""
    try:
        yield
    except MillpondError:
        raise
    except Exception as error:
        said = str(error).partition("\n")[0][:120] or "no message"
        raise WindowError(
            "MP638",
            f"a function of a window or an aggregate raised {type(error).__name__}",
            expected="functions that answer for every record",
            found=f"{said}, at the key {', '.join(map(repr, key))[:80]}",
            hint="correct the function, its lines are in the traceback; or leave such rows out",
        ) from error


def _batch(plan: WindowPlan, emitted: list[tuple[Key, Result]]) -> pa.RecordBatch:
    columns = {name: [key[place] for key, _ in emitted] for place, (name, _) in enumerate(plan.keys)}
    columns[WINDOW] = [result.query for _, result in emitted]
    over_time = {name: has_time_bounds(window) for name, window in plan.queries.items()}
    for place, (time, measure) in enumerate(((BEGIN, FROM), (END, TO))):
        columns[time] = [result.bounds[place] if over_time[result.query] else None for _, result in emitted]
        columns[measure] = [None if over_time[result.query] else result.bounds[place] for _, result in emitted]
    arrays = {
        field.name: pa.array(columns[field.name], pa.int64()).cast(plan.time)
        if field.name in {BEGIN, END}
        else pa.array(columns[field.name], field.type)
        for field in plan.schema
        if field.name not in plan.aggregates
    }
    for name, kind in zip(plan.aggregates, plan.results, strict=True):
        arrays[name] = kind.column(name, [result.value[name] for _, result in emitted])
    return pa.RecordBatch.from_arrays([arrays[field.name] for field in plan.schema], schema=plan.schema)
