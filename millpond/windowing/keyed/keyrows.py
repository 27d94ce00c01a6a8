"""The windows of one key whose rows must be taken in order: rows wait until the watermark has passed them.

For windows that follow from records (count, marks, measures, functions of the user), and for aggregates that depend on
the order of rows. Waiting rows are sorted by time, then by arrival. When no earlier one can come, they go through
`SharedWindows`, whose state is kept as the plain values that it exports.

In its turn a row is long committed, and an error would stop a job for good. So what windows and aggregates do with a
row is tried when it is added, as far as it does not depend on rows that may still come before it: then what is wrong is
reported of that row. Of numbers that windows and aggregates without functions of the user read nothing can be wrong,
unless what they meet is none: such rows begin to wait by columns, many at once.

>>> from millpond.windowing import collect, count_tumbling, several
>>> keys = KeyRows({"": count_tumbling(2)}, several(all=collect("v")))
>>> held, moment = keys.start(), None
>>> for time, value in ((12, "b"), (3, "a")):
...     held, moment = keys.add(held, time, {"v": value}, moment)
>>> [one.value for one in keys.close(held, until=20)[0]]
[{'all': ['a', 'b']}]
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, NamedTuple, cast

import numpy as np

from millpond.windowing.aggregates.aggregates import ANY, Aggregate
from millpond.windowing.aggregates.forms import Ints
from millpond.windowing.keyed.keycells import ByColumns, Columns, Keyed, OneByOneError, refusing
from millpond.windowing.keyed.keyslices import Emitted, Held, over_time
from millpond.windowing.kinds.cuts import FAR_US, Cuts
from millpond.windowing.kinds.driven import Landmark, Session, Varying
from millpond.windowing.kinds.grids import SlicedGrid
from millpond.windowing.kinds.kinds import LAST_TIME, Moment, check_told
from millpond.windowing.kinds.periodic import COUNT, TIME, Periodic
from millpond.windowing.kinds.userdefined import UserDefined, Viewed, asked_cut, asked_view
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
        self._validator = Validator(windows, aggregate)
        self.columns = WaitingColumns(windows, aggregate, self._validator.cuts)
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
        """Return the type of what a key holds, as a state element declares it."""
        state: Any = exported_type(aggregate) | None
        return tuple[int | None, list[tuple[int, Any]], state]

    def start(self) -> Held:
        """Return what a key holds before its first row."""
        return tuple(Waiting(None, [], None))

    def add(self, held: Held, time: int, record: Any, moment: int | None) -> tuple[Held, int | None]:
        """Let a row wait; what is held then, and the moment at which there is something to do, which was `moment`."""
        now = Waiting(*held)
        # Rows before that were taken already: such a row comes right after them.
        time = time if now.until is None else max(time, now.until)
        self._validator.validate(time, record, now.rows, now.windows)
        now.rows.insert(bisect_right(now.rows, time, key=_TIME), (time, record))
        return held, time if moment is None else min(time, moment)

    def close(self, held: Held, until: int) -> tuple[list[Emitted], Held | None, int | None]:
        """Return what is over at a time; what is held then; and when there is more to do, if that follows from time.

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
        """Return the moments up to a time at which `close` has something to emit, if it is asked at each of them.

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
        """Return when a row of a time can have an effect at the earliest: in its turn."""
        return time

    def _restored(self, now: Waiting) -> SharedWindows:
        windows = SharedWindows(self._aggregate, self._windows)
        if now.windows is not None:
            windows.restore(now.windows)
        return windows

    def _order(self, emitted: Emitted) -> tuple[Any, ...]:
        return (0, emitted.end, emitted.begin, self._timed[emitted.window]) if emitted.window in self._timed else (1,)

    def carried(self, held: Held, names: Mapping[str, str], pick: Callable[[Any], Any]) -> Held:
        """Return what a key held under other windows, for these.

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
    """Let time go on, and say when windows end."""
    while (end := windows.ends_at()) is not None and end <= until:
        windows.advance(end)
        yield end


def _picked(slices: list[tuple[int, Any]], pick: Callable[[Any], Any]) -> list[tuple[int, Any]]:
    return [(place, pick(partial)) for place, partial in slices]


def _kept(window: Any, *, joins: bool) -> Any:
    """Make a window for rows that were added before; if it joins others, its measure may have come some way already."""
    if isinstance(window, UserDefined | Viewed):
        return replace(window, lenient=True)
    return (
        replace(window, joining=True) if joins and isinstance(window, Periodic) and callable(window.measure) else window
    )


def _whole_from(window: Any, since: int) -> int:
    """Return the first begin of which it is certain that no row up to a time lies behind it."""
    return since + (window.gap if isinstance(window, Session) else 1)


Look = Callable[[int, Any, Any], None]
"""Looks at the time of a row, the row, and the state of the windows that earlier ones left; raises what is wrong."""


class Validator:
    """Tries rows on windows and an aggregate. The functions of the user are called here, and again in a row's turn.

    `cuts` are those of windows over time, if there are some.
    """

    def __init__(self, windows: Mapping[str, Any], aggregate: Aggregate) -> None:
        self._aggregate = aggregate
        grids = {
            name: cast("SlicedGrid", window.grid)
            for name, window in windows.items()
            if isinstance(window, Periodic) and window.measure == TIME
        }
        self.cuts = Cuts(grids, {}) if grids else None
        looks = (_look(name, window) for name, window in windows.items())
        self._looks = [look for look in looks if look is not None]

    def validate(self, time: int, record: Any, waiting: Sequence[tuple[int, Any]], state: Any) -> None:
        """Raise what is wrong with a row; `state` is what `SharedWindows` exported, if rows were taken already."""
        self._try_aggregate(time, record, waiting, state)
        if self.cuts is not None:
            self.cuts.place(time)
        for look in self._looks:
            look(time, record, state)

    def _try_aggregate(self, time: int, record: Any, waiting: Sequence[tuple[int, Any]], state: Any) -> None:
        """Lift a row, and combine it with what is before it: values that can't be added or compared show only then."""
        lift = self._aggregate.lift
        lifted = lift(record)
        place = bisect_right(waiting, time, key=_TIME)
        if place:
            self._aggregate.combine(lift(waiting[place - 1][1]), lifted)
        elif state is not None and state["running"]:
            self._aggregate.combine(state["running"][0], lifted)
        elif waiting:
            self._aggregate.combine(lifted, lift(waiting[0][1]))


def _look(name: str, window: Any) -> Look | None:
    """Return what is to be looked at for a window; None if nothing can be wrong, or all is known of its grid."""
    match window:
        case Session(gap=gap):
            return lambda time, _record, _state: _check(time, time, gap)
        case Landmark():
            return lambda time, record, _state: _look_at_landmark(window, time, record)
        case Varying():
            return lambda time, record, _state: _look_at_shape(window, time, record)
        case Periodic(measure=measure) if callable(measure):
            place = window.placing()
            return lambda _time, record, _state: _ignore(place(record))
        case UserDefined():
            return lambda time, record, state: _try_cut(name, window, time, record, state)
        case Viewed():
            return lambda time, record, state: _try_view(name, window, time, record, state)
        case _:
            return None


def _check(time: int, begin: int, length: int) -> None:
    if time < LAST_TIME:  # What handlers add at the end of time is not emitted.
        check_told(begin, time + length)


def _look_at_landmark(window: Landmark, time: int, record: Any) -> None:
    window.begins(record)
    if window.ends is not None:
        window.ends(record)
    if window.length is not None:
        _check(time, time, window.length)


def _look_at_shape(window: Varying, time: int, record: Any) -> None:
    wide, _ = window.shape_of(record)
    _check(time, time - wide + 1, wide)


def _try_cut(name: str, window: UserDefined, time: int, record: Any, state: Any) -> None:
    """Ask the function: how many windows are open in the row's turn is not known yet, but it must have an answer."""
    known = {} if state is None else state["discretiser"]["queries"]
    own = known[name]["state"][1] if name in known else window.initial
    asked_cut(window.cut, own, Moment(record, time, 0 if state is None else state["position"]))


def _try_view(name: str, window: Viewed, time: int, record: Any, state: Any) -> None:
    position = 0 if state is None else state["position"]
    known = {} if state is None else state["views"]["views"]
    head, own = known.get(name, (position, window.initial))
    asked_view(window.view, own, Moment(record, time, position), position - head)


def _ignore(_answer: Any) -> None:
    """Nothing to do with it: that there is one is all that counts."""


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
    """Return rows as `add` makes them: numbers without a name, or by their names."""
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
