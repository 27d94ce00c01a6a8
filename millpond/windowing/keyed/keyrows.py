"""The windows of one key whose rows must be taken in order: rows wait until the watermark has passed them.

For windows that follow from records (count, marks, measures, functions of the user), and for aggregates that depend on
the order of rows. Waiting rows are sorted by time, then by arrival. When no earlier one can come, they go through
`SharedWindows`, whose state is kept as the plain values that it exports.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.keyed.judging import Judge
from millpond.windowing.keyed.keyslices import Emitted, Held, over_time
from millpond.windowing.keyed.keywaiting import WaitingColumns
from millpond.windowing.kinds.driven import Session
from millpond.windowing.kinds.periodic import Periodic
from millpond.windowing.kinds.userdefined import UserDefined, Viewed
from millpond.windowing.shared import SharedWindows, exported_type

_TIME = itemgetter(0)


class Waiting(NamedTuple):
    """What a key holds: up to when rows were taken, those that wait, and the state of the windows."""

    until: int | None
    rows: list[tuple[int, Any]]
    windows: Any


class KeyRows:
    """The rules by which rows of a key wait and are taken; `columns` let many rows wait at once.

    A window with a `since` does not know all rows up to that time. It is emitted only where none of them can lie in it,
    if it lies over time or a measure; one that follows from rows begins with the first that it sees.
    """

    def __init__(
        self, windows: Mapping[str, Any], aggregate: Aggregate, since: Mapping[str, int] | None = None
    ) -> None:
        known = since or {}
        self._windows = {name: _kept(window, joins=name in known) for name, window in windows.items()}
        self._aggregate = aggregate
        self._judge = Judge(windows, aggregate)
        self.columns = WaitingColumns(windows, aggregate, self._judge.cuts)
        # Where windows stand among those that end at one time; the others have no times to go by.
        self._timed = {
            name: place
            for place, (name, window) in enumerate(windows.items())
            if window.needs_time and not isinstance(window, Viewed)
        }
        self._whole = {name: _whole_from(windows[name], us) for name, us in known.items() if name in self._timed}
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
        # Rows before that were taken already: such a row comes right after them.
        time = time if now.until is None else max(time, now.until)
        self._judge.look(time, record, now.rows, now.windows)
        now.rows.insert(bisect_right(now.rows, time, key=_TIME), (time, record))
        return held, time if moment is None else min(time, moment)

    def close(self, held: Held, until: int) -> tuple[list[Emitted], Held | None, int | None]:
        """What is over at a time; what is held then; and when there is more to do, if that follows from time.

        Windows over time are emitted by their ends, then the others as rows ended them.
        """
        now = Waiting(*held)
        # A handler that waits for others may be held back longer than it was: what was taken stays so.
        until = until if now.until is None else max(until, now.until)
        windows = self._restored(now)
        ripe = bisect_right(now.rows, until, key=_TIME)
        results = windows.add_all(now.rows[:ripe])
        results += windows.advance(until)
        rows = now.rows[ripe:]
        moments = [*(time for time, _ in rows[:1]), *([] if (end := windows.ends_at()) is None else [end])]
        emitted = [
            Emitted(result.query, *result.bounds, result.value)
            for result in results
            if result.query not in self._whole or result.bounds[0] >= self._whole[result.query]
        ]
        emitted.sort(key=self._order)
        if self._forgets and not rows and not windows.open_windows:
            return emitted, None, None
        return emitted, tuple(Waiting(until, rows, windows.export())), min(moments, default=None)

    def moments(self, held: Held, moment: int, until: int) -> list[int]:
        """The moments up to a time at which `close` has something to tell, if it is asked at each of them.

        Those over time are emitted at their ends, the others at the time of the row that ends them. `moment` is the
        first at which there is something to do.
        """
        # What windows hold may be changed on the way.
        now = copy.deepcopy(Waiting(*held))
        windows = self._restored(now)
        found = {moment}
        for time, rows in groupby(now.rows[: bisect_right(now.rows, until, key=_TIME)], key=_TIME):
            found.update(_ended(windows, time - 1))
            results = windows.add_all(list(rows))
            results += windows.advance(time)
            found.update([time] if results else [])
        found.update(_ended(windows, until))
        return sorted(found)

    def earliest(self, time: int) -> int:
        """When a row of a time can have an effect at the earliest: in its turn."""
        return time

    def _restored(self, now: Waiting) -> SharedWindows:
        windows = SharedWindows(self._aggregate, self._windows)
        if now.windows is not None:
            windows.restore(now.windows)
        return windows

    def _order(self, emitted: Emitted) -> tuple[Any, ...]:
        return (0, emitted.end, emitted.begin, self._timed[emitted.window]) if emitted.window in self._timed else (1,)

    def carried(self, held: Held, names: Mapping[str, str], pick: Callable[[Any], Any]) -> Held:
        """What a key held under other windows, for these.

        `names` are the new names of those that stay, and `pick` takes what is still needed of a partial.
        """
        now = Waiting(*held)
        if now.windows is None:
            return held
        windows = SharedWindows(self._aggregate, {before: self._windows[name] for before, name in names.items()})
        views = {**now.windows["views"], "records": _picked(now.windows["views"]["records"], pick)}
        partials = {"running": list(map(pick, now.windows["running"])), "slices": _picked(now.windows["slices"], pick)}
        windows.restore({**now.windows, **partials, "views": views, "aggregate": self._aggregate.name})
        state = windows.export()
        for part, by_name in ((state["discretiser"], "queries"), (state["views"], "views")):
            part[by_name] = {names[before]: one for before, one in part[by_name].items()}
        return tuple(Waiting(now.until, now.rows, state))


def _ended(windows: SharedWindows, until: int) -> Iterator[int]:
    """Let time go on, and tell when windows end."""
    while (end := windows.ends_at()) is not None and end <= until:
        windows.advance(end)
        yield end


def _picked(slices: list[tuple[int, Any]], pick: Callable[[Any], Any]) -> list[tuple[int, Any]]:
    return [(place, pick(partial)) for place, partial in slices]


def _kept(window: Any, *, joins: bool) -> Any:
    """A window whose rows were added before; if it joins others, its measure may have come some way already."""
    if isinstance(window, UserDefined | Viewed):
        return replace(window, lenient=True)
    return (
        replace(window, joining=True) if joins and isinstance(window, Periodic) and callable(window.measure) else window
    )


def _whole_from(window: Any, since: int) -> int:
    """The first begin of which it is certain that no row up to a time lies behind it."""
    return since + (window.gap if isinstance(window, Session) else 1)
