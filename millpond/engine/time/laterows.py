"""Rows of feeds with event time that come too late, or say no time at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond.engine.publish.deadletters import row_text
from millpond.engine.task.badrows import Mask
from millpond.engine.time.eventtime import FIRST_US, LAST_US, ParentWatermark

TIME: Final = "time"
"""The column of event times among the columns of all feeds, in microseconds since 1970."""

EVENT_TIME: Final = "event_time"
LATE_BY: Final = "late_by"
"""The columns that late rows have besides their own: when they happened, and how many seconds before the watermark."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LateRows:
    """Late rows of a feed as they are written, and the highest of their event times."""

    feed: int
    table: pa.Table
    highest_us: int


def untimed(times: pa.Array, bad: Mask, reasons: list[str]) -> tuple[Mask, list[str]]:
    """Add the rows whose event time is null, or no moment of a calendar, to those that do not fit."""
    null = times.is_null().to_numpy(zero_copy_only=False)
    known = pc.fill_null(times, 0)
    outside = pc.or_(pc.less(known, FIRST_US), pc.greater(known, LAST_US)).to_numpy(zero_copy_only=False)
    if not (null.any() or outside.any()):
        return bad, reasons
    if not len(bad):
        # Rows without any parameter fit, and are not even counted.
        bad = np.zeros(len(times), dtype=bool)
    why = dict(zip(np.flatnonzero(bad).tolist(), reasons, strict=True))
    for row in np.flatnonzero((null | outside) & ~bad).tolist():
        why[row] = "the event time is null" if null[row] else f"the event time is out of range: {times[row]} us"
    return bad | null | outside, [why[row] for row in sorted(why)]


def late_table(
    columns: Mapping[str, pa.Array], happened: Ints, parent: ParentWatermark, places: tuple[Ints, ...]
) -> pa.Table:
    """Late rows in input order, with how late they are; rows of one place by what they say, so that retries agree."""
    order = _in_order(columns, happened, places)
    # Rows can be late without a watermark if it was taken back by other settings: then the horizon tells.
    watermark = parent.floor_us if parent.watermark_us is None else parent.watermark_us
    own = {name: column.take(pa.array(order)) for name, column in columns.items()}
    own[EVENT_TIME] = pa.array(happened[order], pa.timestamp("us", tz="UTC"))
    own[LATE_BY] = pa.array((watermark - happened[order]) / 1e6, pa.float64())
    return pa.table(own)


def _in_order(columns: Mapping[str, pa.Array], happened: Ints, places: tuple[Ints, ...]) -> npt.NDArray[np.intp]:
    keys = (*places, happened)
    order = np.lexsort(keys[::-1])
    tied = np.ones(max(len(order) - 1, 0), dtype=bool)
    for key in keys:
        tied &= key[order][1:] == key[order][:-1]
    if not tied.any():
        return order
    texts = [row_text(dict(columns), row) for row in range(len(happened))]
    rows = sorted(range(len(happened)), key=lambda row: (*(key[row] for key in keys), texts[row]))
    return np.array(rows, dtype=np.intp)
