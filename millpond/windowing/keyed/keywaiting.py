"""Rows of many keys that wait for their turn, let in by columns: what waits then is as if they came one by one.

Rows that come one by one are tried first (see `judging`). Of numbers that windows and aggregates without functions of
the user read nothing can be wrong, unless what they meet is none: then rows go one by one, and it is emitted of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from millpond.windowing.aggregates.aggregates import ANY, Aggregate
from millpond.windowing.aggregates.forms import Ints
from millpond.windowing.keyed.keycells import ByColumns, Columns, Keyed, OneByOneError, refusing
from millpond.windowing.kinds.cuts import FAR_US, Cuts
from millpond.windowing.kinds.driven import Session
from millpond.windowing.kinds.periodic import COUNT, TIME, Periodic

_TIME = itemgetter(0)


class WaitingColumns(ByColumns):
    """The rules by which columns of rows begin to wait."""

    def __init__(self, windows: Mapping[str, Any], aggregate: Aggregate, cuts: Cuts | None) -> None:
        self._aggregate = aggregate
        self._cuts = cuts
        parts = [part for _, part in aggregate.parts]
        # What is read by a name, or is the record itself, is read without a function of the user.
        ready = bool(parts) and all(ANY not in part.reads or part.itself for part in parts)
        self._known = ready and all(map(_without_functions, windows.values()))
        self._reads = {None if name == ANY else name for part in parts for name in part.reads}

    def _add(self, keyed: Sequence[Keyed], places: Ints, times: Ints, columns: Columns) -> list[int | None]:
        if not self._reads.issubset(columns) or any(values.dtype.kind not in "if" for values in columns.values()):
            raise OneByOneError
        untils = np.array([-FAR_US if held[0] is None else held[0] for _, held in keyed], np.int64)
        # As with one row: rows before that were taken already.
        times = np.maximum(times, untils[places])
        if not len(times) or max(abs(int(times.min())), abs(int(times.max()))) >= FAR_US:
            raise OneByOneError
        if self._cuts is not None and not self._cuts.near(times):
            raise OneByOneError
        records = _records(columns, len(times))
        rows = list(zip(times.tolist(), records, strict=True))
        order = np.argsort(places, kind="stable")
        bounds = np.searchsorted(places[order], np.arange(len(keyed) + 1)).tolist()
        numbers: list[int] = order.tolist()
        fresh = [[rows[at] for at in numbers[low:high]] for low, high in pairwise(bounds)]
        for (_, held), mine in zip(keyed, fresh, strict=True):
            self._try(held, mine)
        # From here on nothing can be wrong with a row.
        moments: list[int | None] = []
        for (moment, held), mine in zip(keyed, fresh, strict=True):
            held[1].extend(mine)
            held[1].sort(key=_TIME)  # Those of one time stay as they came.
            first = min(mine, key=_TIME)[0]
            moments.append(first if moment is None else min(first, moment))
        return moments

    def _try(self, held: tuple[Any, ...], mine: Sequence[tuple[int, Any]]) -> None:
        """See whether new rows can be combined with what a key holds; with each other they can."""
        _, waiting, state = held
        names = self._reads - {None}
        for _, record in waiting:
            found = (record,) if None in self._reads else [record[name] for name in names]
            if not all(map(_plain_number, found)):
                raise OneByOneError
        if state is None or not state["running"]:
            return
        # Those that come before all that wait meet what was taken last.
        first = waiting[0][0] if waiting else None
        with refusing():
            for time, record in mine:
                if first is None or time < first:
                    self._aggregate.combine(state["running"][0], self._aggregate.lift(record))
                    first = time


def _without_functions(window: Any) -> bool:
    if isinstance(window, Session):
        return window.gap < FAR_US
    return isinstance(window, Periodic) and window.measure in {TIME, COUNT}


def _plain_number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and -(2**63) <= value < 2**63)


def _records(columns: Columns, count: int) -> list[Any]:
    """Rows as `add` makes them: numbers without a name, or by their names."""
    if None in columns:
        records: list[Any] = columns[None].tolist()
        return records
    if not columns:
        return [{} for _ in range(count)]
    if len(columns) == 1:
        ((name, column),) = columns.items()
        return [{name: value} for value in column.tolist()]
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in values]
