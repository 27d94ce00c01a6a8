"""Earlier techniques as rules for where slices are cut."""

from __future__ import annotations

import math
from collections.abc import Mapping

from benchmarks.baselines.plaintree import PlainFlatFat
from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.discretiser import Cut
from millpond.windowing.kinds.grids import Regular
from millpond.windowing.kinds.kinds import Moment, Window
from millpond.windowing.kinds.periodic import COUNT, Periodic
from millpond.windowing.shared import SharedWindows, StoreMaker
from millpond.windowing.stores.stores import ON_DEMAND


def pairs(aggregate: Aggregate, queries: Mapping[str, Window], *, store: str | StoreMaker = ON_DEMAND) -> SharedWindows:
    """Cut where any window begins or ends; combine when asked."""
    return SharedWindows(aggregate, queries, store=store, cutting=_at_begins_and_ends)


def pairs_plus(aggregate: Aggregate, queries: Mapping[str, Window]) -> SharedWindows:
    """Pairs over the tree as it was published."""
    return pairs(aggregate, queries, store=PlainFlatFat)


def reactive(aggregate: Aggregate, queries: Mapping[str, Window]) -> SharedWindows:
    """A leaf per record in the tree as it was published, no slicing (the reactive aggregator)."""
    return SharedWindows(aggregate, queries, store=PlainFlatFat, cutting=_always)


def panes(aggregate: Aggregate, queries: Mapping[str, Window], *, store: str = ON_DEMAND) -> SharedWindows:
    """Cut every greatest common divisor of range and slide; one query over counts or time."""
    window = next(iter(queries.values())) if len(queries) == 1 else None
    grid = window.grid if isinstance(window, Periodic) else None
    if not isinstance(window, Periodic) or not isinstance(grid, Regular) or not isinstance(window.measure, str):
        found = f"{len(queries)} queries" if window is None else window.describe()
        raise TypeError(f"panes are known for one tumbling or sliding query over counts or time, not for {found}")
    pane = math.gcd(grid.range, grid.slide)
    last: list[int] = []

    def cutting(_cut: Cut, moment: Moment) -> bool:
        point = moment.position if window.measure == COUNT else (moment.time or 0) - grid.origin
        number = point // pane
        changed = not last or last[0] != number
        last[:] = [number]
        return changed

    return SharedWindows(aggregate, queries, store=store, cutting=cutting)


def _at_begins_and_ends(cut: Cut, _moment: Moment) -> bool:
    return bool(cut.begun or cut.ended)


def _always(_cut: Cut, _moment: Moment) -> bool:
    return True
