"""The rows of several works in one order."""

from __future__ import annotations

from typing import Any

import numpy as np

from millpond.engine.plan import BadRows, ProgramPlan
from millpond.engine.task.columns import Rows
from millpond.engine.task.intake import Work
from millpond.engine.task.ordering import Places, content_tie, join_places
from millpond.graph.model import Dispatch


def merge_order(plan: ProgramPlan, work: list[Work]) -> tuple[Rows | None, Rows, Rows]:
    """Return the rows of all works in one order: as an order of the concatenation, and as (work, row) pairs."""
    places = join_places([one.places for one in work])
    order = _sorted_with_ties(plan, work, places)
    if len(work) == 1:
        rows = np.arange(len(places)) if order is None else order
        return order, np.zeros(len(places), dtype=np.intp), rows
    owners = np.repeat(np.arange(len(work)), [len(one) for one in work])
    rows = np.concatenate([np.arange(len(one)) for one in work])
    if order is not None:
        owners, rows = owners[order], rows[order]
    return order, owners, rows


def _sorted_with_ties(plan: ProgramPlan, work: list[Work], places: Places) -> Rows | None:
    order = places.sorting()
    if all(plan.program.entries[one.task.entry].commutes for one in work):
        return order
    ordered = places if order is None else places.take(order)
    tied = ordered.tied()
    if not len(tied):
        return order
    rows = tied if order is None else order[tied]
    starts = np.cumsum([0, *(len(one) for one in work)])
    for row in rows.tolist():
        owner = int(np.searchsorted(starts, row, side="right")) - 1
        one = work[owner]
        if not plan.program.entries[one.task.entry].commutes:
            places.tie[row] = _tie_of(one, row - int(starts[owner]))
    return places.sorting()


def _tie_of(work: Work, row: int) -> int:
    at = np.array([row], dtype=np.intp)
    return content_tie(tuple(column.take(at)[0] for column in work.content()))


def mark_ties(plan: ProgramPlan, work: list[Work]) -> None:
    """Give every row that goes on to another step its tie, since rows of different partitions meet there.

    Rows that may raise in several places have one too, so that these agree on which row it was.
    """
    for one in work:
        told = one.task.dispatch is Dispatch.ONE_TO_ALL or plan.feeds[one.feed].bad_rows is BadRows.FAIL
        meets = not one.task.last or (plan.sifts and told)
        if one.task.index == 0 and meets:
            columns = [column.take(None) for column in one.content()]
            rows = zip(*columns, strict=True) if columns else iter([()] * len(one))
            one.places.tie = np.fromiter((content_tie(row) for row in rows), dtype=np.int64, count=len(one))
            one.places.duplicate = _duplicates(one.places)


def _duplicates(places: Places) -> Any:
    order = places.sorting()
    ordered = places if order is None else places.take(order)
    counts = np.zeros(len(places), dtype=np.int64)
    tied = ordered.tied()
    if len(tied):
        same = np.zeros(len(places), dtype=bool)
        pairs = np.ones(len(places) - 1, dtype=bool)
        for column in ordered.columns():
            pairs &= column[1:] == column[:-1]
        same[1:] = pairs
        starts = np.flatnonzero(~same)
        run = np.arange(len(places)) - np.repeat(starts, np.diff([*starts.tolist(), len(places)]))
        counts[np.arange(len(places)) if order is None else order] = run
    return counts
