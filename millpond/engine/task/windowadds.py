"""The rows of a task that only adds them to windows, added at once instead of one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from millpond.engine.task.columns import numbers_of
from millpond.engine.task.rowbatch import RowBatch
from millpond.program.semantics.epoch_time import added_from_us

ROWS_MIN: Final = 64
"""So many more rows than keys there must be: others are added as fast one by one."""


def added_at_once(prepared: RowBatch, count: int, containers: Sequence[Any]) -> bool:
    """Add the next rows to windows, if all they do is that, and it can't be seen that they did it together.

    If not, nothing is changed: they run one by one, which also tells what is wrong with one of them.
    """
    work = prepared.work
    adds = work.task.adds
    if adds is None or count <= ROWS_MIN:
        return False
    found = {one.column: numbers_of(work.variables[one.input], one.part) for one in adds.values}
    rows = prepared.next_rows(count)
    columns = {column: values[rows] for column, values in found.items() if values is not None}
    if len(columns) < len(found):
        return False
    (windows,) = containers
    distinct, codes = work.coded_keys()
    here, places = np.unique(codes[rows], return_inverse=True)
    if count < ROWS_MIN + len(here):
        return False
    keys = distinct[here].tolist() if isinstance(distinct, np.ndarray) else [distinct[code] for code in here.tolist()]
    if work.times is None:
        times = np.full(count, windows.clock(), np.int64)
    else:
        told = added_from_us(windows.place)
        times = work.times[rows] if told is None else np.maximum(work.times[rows], told)
    if not windows.add_columns(keys, places, times, columns):
        return False
    prepared.ran([None] * count)
    return True
