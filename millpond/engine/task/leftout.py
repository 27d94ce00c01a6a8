"""Which rows of a task are those that an earlier try of the epoch found to raise."""

from __future__ import annotations

import numpy as np

from millpond.engine.plan import EpochPlan, Excluded
from millpond.engine.task.intake import Work


def excluded_among(epoch: EpochPlan, work: Work) -> dict[int, Excluded]:
    """The rows of a work that are excluded, or the turns of their loops, by their numbers."""
    own = {(_numbers(row), row.source): row for row in epoch.excluded if row.feed == work.feed}
    if not own:
        return {}
    columns = (work.places.order, work.places.position, work.places.tie, work.places.duplicate)
    near = np.ones(len(work), dtype=bool)
    for at, column in enumerate(columns):
        near &= np.isin(column, [numbers[at] for numbers, _ in own])
    found: dict[int, Excluded] = {}
    for row in np.flatnonzero(near).tolist():
        numbers = tuple(int(column[row]) for column in columns)
        excluded = own.get((numbers, epoch.source_name(work.sources[row].as_py())))
        if excluded is not None:
            found[row] = excluded
    return found


def _numbers(row: Excluded) -> tuple[int, ...]:
    return row.order, row.position, row.tie, row.duplicate
