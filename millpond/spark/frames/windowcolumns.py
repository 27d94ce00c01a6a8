"""Windows over the rows of one task, whole columns at a time, in any order.

Rows wait until there are as many as slices, so that adding them costs no more than a few passes over all rows, however
small the batches are. What is kept is the slices; at the end they are closed in pieces of some keys each, so that the
results are never in memory all at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from millpond.engine.gathered.keycodes import KeyCodes
from millpond.spark.frames.windowplan import BEGIN, END, TIME_COLUMN, WINDOW, WindowPlan, key_column
from millpond.windowing.aggregates.forms import Array
from millpond.windowing.columns.columnsessions import ColumnSessions
from millpond.windowing.columns.intake import Closed
from millpond.windowing.columns.vectorised import ColumnWindows
from millpond.windowing.kinds.driven import Session
from millpond.windowing.kinds.periodic import Periodic

ROWS_ADDED_MIN = 1 << 18
"""So many rows at least are added at once."""

WINDOWS_CLOSED = 1 << 18
"""So many windows are closed at once, about: those of one key are not taken apart."""

BATCH_ROWS = 1 << 16
"""Rows of a batch that goes back to Spark."""


def column_results(plan: WindowPlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the windows of all rows, query by query, sorted by keys as they came first, and by begin."""
    codes = KeyCodes(len(plan.keys))
    queries = {name: _Query(plan, name) for name in plan.queries}
    waiting: list[pa.Table] = []
    rows = 0
    for batch in batches:
        waiting.append(plan.opened(batch))
        rows += batch.num_rows
        if rows >= max(ROWS_ADDED_MIN, *(query.live for query in queries.values())):
            _add(plan, codes, queries, waiting)
            waiting, rows = [], 0
    if waiting:
        _add(plan, codes, queries, waiting)
    del waiting
    for query in queries.values():
        for closed in query.closed():
            whole = _batch(plan, query.name, closed, codes)
            for begin in range(0, whole.num_rows, BATCH_ROWS):
                yield whole.slice(begin, BATCH_ROWS)


def _add(plan: WindowPlan, codes: KeyCodes, queries: Mapping[str, _Query], waiting: list[pa.Table]) -> None:
    table = pa.concat_tables(waiting)
    keys = codes.encode([table[key_column(place)] for place in range(len(plan.keys))])
    times = table[TIME_COLUMN].cast(pa.int64()).to_numpy()
    columns = plan.values(table)
    for query in queries.values():
        query.add(keys, times, columns)


class _Query:
    """The windows of one query, and the last moment at which one of them ends."""

    def __init__(self, plan: WindowPlan, name: str) -> None:
        self._plan = plan
        self.name = name
        self._windows = self._start()
        self._last: int | None = None

    @property
    def live(self) -> int:
        """How many slices or sessions are kept."""
        return self._windows.live

    def add(self, keys: Array, times: Array, columns: Mapping[str, Any]) -> None:
        """Add rows."""
        self._windows.add(keys, times, columns)
        if len(times):
            last = int(times.max())
            self._last = last if self._last is None else max(self._last, last)

    def closed(self) -> Iterator[Closed]:
        """Return all windows, some keys at a time."""
        if self._last is None:
            return
        last = self._windows.last_end(self._last)
        state = self._windows.export()
        arrays = state["arrays"]
        for low, high in _pieces(arrays["keys"], self._windows.closing(arrays)):
            piece = self._start()
            piece.restore({**state, "arrays": {name: array[low:high] for name, array in arrays.items()}})
            yield piece.close(last)

    def _start(self) -> ColumnWindows | ColumnSessions:
        window = self._plan.queries[self.name]
        assert isinstance(window, Session | Periodic), "what else has a form over columns"
        make = ColumnSessions if isinstance(window, Session) else ColumnWindows
        return make(window, self._plan.aggregates)


def _pieces(keys: Array, weights: Array) -> Iterator[tuple[int, int]]:
    """Return ranges of entries that weigh about so much; entries of one key stay together."""
    begins = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.zeros(0, np.int64)
    ends = np.append(begins[1:], len(keys))
    total = np.cumsum(weights)[ends - 1] if len(begins) else begins
    first = 0
    while first < len(begins):
        spent = int(total[first - 1]) if first else 0
        following = max(first + 1, int(np.searchsorted(total, spent + WINDOWS_CLOSED, side="right")))
        yield int(begins[first]), int(ends[following - 1])
        first = following


def _batch(plan: WindowPlan, query: str, closed: Closed, codes: KeyCodes) -> pa.RecordBatch:
    # Spark may have sent them in another form: with the zone of its session, or with longer offsets.
    keys = zip(plan.keys, codes.decode(closed.keys), strict=True)
    columns = {name: column.cast(kind) for (name, kind), column in keys}
    if not plan.single:
        columns[WINDOW] = pa.array([query]).take(pa.array(np.zeros(len(closed), np.int64)))
    columns[BEGIN], columns[END] = (pa.array(points).cast(plan.time) for points in (closed.begins, closed.ends))
    for (name, aggregate), emitted in zip(plan.aggregates.items(), plan.results, strict=True):
        values = closed.values[name]
        if values.dtype == object:
            columns[name] = emitted.column(name, values.tolist())
            continue
        absent = None if aggregate.columns is None else aggregate.columns.absent(closed.rows)
        columns[name] = pa.array(values, mask=absent).cast(emitted.kind)
    return pa.RecordBatch.from_arrays([columns[field.name] for field in plan.schema], schema=plan.schema)
