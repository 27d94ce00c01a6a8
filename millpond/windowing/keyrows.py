"""The windows of one key whose rows must be taken in order: rows wait until the watermark has passed them.

For windows that follow from records (count, marks, measures, functions of the user), and for aggregates that depend on
the order of rows. Waiting rows are sorted by time, then by arrival. When no earlier one can come, they go through
`SharedWindows`, whose state is kept as the plain values that it exports.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from millpond.windowing.aggregates import Aggregate
from millpond.windowing.driven import Session
from millpond.windowing.keyslices import Held, Told, over_time
from millpond.windowing.shared import SharedWindows, exported_type

_TIME = itemgetter(0)


class Waiting(NamedTuple):
    """What a key holds: up to when rows were taken, those that wait, and the state of the windows."""

    until: int | None
    rows: list[tuple[int, Any]]
    windows: Any


class KeyRows:
    """The rules by which rows of a key wait and are taken."""

    def __init__(self, windows: Mapping[str, Any], aggregate: Aggregate) -> None:
        self._windows = windows
        self._aggregate = aggregate
        # Between two windows, those over time know nothing that a new key does not know.
        self._forgets = all(isinstance(window, Session) or over_time(window) for window in windows.values())

    @staticmethod
    def stored_type(aggregate: Aggregate) -> Any:
        """The type of what a key holds, as a state element declares it."""
        state: Any = exported_type(aggregate) | None
        return tuple[int | None, list[tuple[int, Any]], state]

    def start(self) -> Held:
        """What a key holds before its first row."""
        return tuple(Waiting(None, [], None))

    def add(self, held: Held, time: int, record: Any, moment: int | None) -> tuple[Held, int | None]:
        """Let a row wait; what is held then, and the moment at which there is something to do, which was `moment`."""
        now = Waiting(*held)
        self._aggregate.lift(record)  # What is wrong with a row is told of that row, not when its turn comes.
        # Rows before that were taken already: such a row comes right after them.
        time = time if now.until is None else max(time, now.until)
        now.rows.insert(bisect_right(now.rows, time, key=_TIME), (time, record))
        return held, time if moment is None else min(time, moment)

    def close(self, held: Held, until: int) -> tuple[list[Told], Held | None, int | None]:
        """What is over at a time; what is held then; and when there is more to do, if that follows from time."""
        now = Waiting(*held)
        windows = SharedWindows(self._aggregate, self._windows)
        if now.windows is not None:
            windows.restore(now.windows)
        ripe = bisect_right(now.rows, until, key=_TIME)
        results = [result for time, record in now.rows[:ripe] for result in windows.add(record, time)]
        results += windows.advance(until)
        rows = now.rows[ripe:]
        moments = [*(time for time, _ in rows[:1]), *([] if (end := windows.ends_at()) is None else [end])]
        told = [Told(result.query, *result.bounds, result.value) for result in results]
        if self._forgets and not rows and not windows.open_windows:
            return told, None, None
        return told, tuple(Waiting(until, rows, windows.export())), min(moments, default=None)
