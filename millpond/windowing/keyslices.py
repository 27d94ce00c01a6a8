"""The open windows of one key, as plain values: rows in any order are combined into slices at once.

For tumbling, sliding and calendar windows, and sessions, whose aggregates do not depend on the order of rows. All
periodic windows of an element share their slices: one begins wherever some window begins or ends, so a slice lies in a
window as a whole or not at all. Sessions have no grid, and are kept by their first and last row.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, Final, NamedTuple, cast

from millpond.windowing.aggregates import Aggregate
from millpond.windowing.driven import Session
from millpond.windowing.grids import SlicedGrid
from millpond.windowing.periodic import TIME, Periodic

OPEN: Final = 0
TOLD: Final = 1
CHANGED: Final = 2
"""What is known of a session: not told yet, told, or told and then changed by a late row."""

_FIRST = itemgetter(0)

Held = tuple[Any, ...]
"""What a key holds, as it is stored."""


class Told(NamedTuple):
    """A window that is over: its name, its bounds, its value, and whether it was told before."""

    window: str
    begin: Any
    end: Any
    value: Any
    corrected: bool = False


class Slices(NamedTuple):
    """What a key holds. Windows that end at `until` or before are told.

    Slices are pairs of begin and partial. `late` are those of told windows that changed since, and whether they began
    with that. Sessions, by window, have a first row, a last row, what is known of them, and a partial. All are sorted.
    """

    until: int | None
    slices: list[tuple[int, Any]]
    late: list[tuple[int, bool]]
    sessions: dict[str, list[tuple[int, int, int, Any]]]


class KeySlices:
    """The rules by which the slices of a key change; `lateness` is how long windows can be corrected."""

    def __init__(self, windows: Mapping[str, Any], aggregate: Aggregate, lateness: int) -> None:
        self._aggregate = aggregate
        self._lateness = lateness
        self._places = {name: place for place, name in enumerate(windows)}
        self._grids: dict[str, SlicedGrid] = {
            name: cast("SlicedGrid", window.grid) for name, window in windows.items() if isinstance(window, Periodic)
        }
        self._gaps = {name: window.gap for name, window in windows.items() if isinstance(window, Session)}

    @staticmethod
    def suit(windows: Mapping[str, Any], aggregate: Aggregate) -> bool:
        """Whether windows and their aggregate can be computed from rows in any order."""
        return aggregate.commutative and all(
            isinstance(window, Session) or over_time(window) for window in windows.values()
        )

    @staticmethod
    def stored_type(aggregate: Aggregate) -> Any:
        """The type of what a key holds, as a state element declares it."""
        partial = aggregate.partial_type
        slices, sessions = list[tuple[int, partial]], list[tuple[int, int, int, partial]]  # type: ignore[valid-type]
        return tuple[int | None, slices, list[tuple[int, bool]], dict[str, sessions]]  # type: ignore[valid-type]

    def start(self) -> Held:
        """What a key holds before its first row."""
        return tuple(Slices(None, [], [], {}))

    def add(self, held: Held, time: int, record: Any, moment: int | None) -> tuple[Held, int | None]:
        """Take a row in; what is held then, and the moment at which there is something to tell, which was `moment`."""
        now = Slices(*held)
        if now.until is not None:
            # What is before that can't be told any more: such a row counts as the earliest that can.
            time = max(time, now.until - self._lateness)
        lifted = self._aggregate.lift(record)
        ends = [end for grid in self._grids.values() if (end := _first_end(grid, time)) is not None]
        if ends:
            begin = self._cut(time)
            fresh = self._combine(now.slices, begin, lifted)
            moment = min([*ends, *([] if moment is None else [moment])])
            known = any(begin == late for late, _ in now.late)
            if now.until is not None and min(ends) <= now.until and not known:
                insort(now.late, (begin, fresh))
        for name, gap in self._gaps.items():
            self._join(now.sessions.setdefault(name, []), gap, time, lifted)
        return held, self._next(now) if self._gaps else moment

    def close(self, held: Held, until: int) -> tuple[list[Told], Held | None, int | None]:
        """What is over at a time, in the order of ends; what is held then, if anything; and when there is more."""
        now = Slices(*held)
        told = [one for name in self._grids for one in self._over(name, now, until)]
        told += [one for name in self._gaps for one in self._sessions_over(name, now, until)]
        told.sort(key=lambda one: (one.end, one.begin, self._places[one.window]))
        final = until - self._lateness
        slices = [one for one in now.slices if self._last_end(one[0]) > final]
        sessions = {
            name: [one for one in found if one[1] + self._gaps[name] > final] for name, found in now.sessions.items()
        }
        left = Slices(until, slices, [], {name: found for name, found in sessions.items() if found})
        empty = not left.slices and not left.sessions
        return told, None if empty else tuple(left), self._next(left)

    # --- periodic windows

    def _cut(self, time: int) -> int:
        """Where the slice of a time begins: the last point at which some window begins or ends."""
        cuts = [grid.begin(grid.newest(time)) for grid in self._grids.values()]
        cuts += [grid.end(grid.oldest(time) - 1) for grid in self._grids.values() if grid.rest]
        return int(max(cuts))

    def _combine(self, slices: list[tuple[int, Any]], begin: int, lifted: Any) -> bool:
        """Put a row into its slice; whether that begins with it."""
        place = bisect_left(slices, begin, key=_FIRST)
        if place < len(slices) and slices[place][0] == begin:
            slices[place] = begin, self._aggregate.combine(slices[place][1], lifted)
            return False
        slices.insert(place, (begin, lifted))
        return True

    def _over(self, name: str, now: Slices, until: int) -> Iterator[Told]:
        grid = self._grids[name]
        late = [number for begin, _ in now.late for number in _numbers(grid, begin, None, now.until)]
        fresh = frozenset(begin for begin, began in now.late if began)
        for number in dict.fromkeys(late):
            yield self._told(name, number, now.slices, fresh)
        after = None if now.until is None else grid.oldest(now.until)
        for begin, _ in now.slices:
            for number in _numbers(grid, begin, after, until):
                yield self._told(name, number, now.slices, None)
                after = number + 1

    def _told(self, name: str, number: int, slices: list[tuple[int, Any]], fresh: frozenset[int] | None) -> Told:
        """A window; if slices are `fresh` since it was over, it was told before if it has others too."""
        begin, end = self._grids[name].begin(number), self._grids[name].end(number)
        own = slices[bisect_left(slices, begin, key=_FIRST) : bisect_left(slices, end, key=_FIRST)]
        corrected = fresh is not None and not fresh.issuperset(map(_FIRST, own))
        # From the first to the last, whatever else is told: so sums of floats do not depend on when they are told.
        whole = own[0][1]
        for _, partial in own[1:]:
            whole = self._aggregate.combine(whole, partial)
        return Told(name, begin, end, self._aggregate.lower(whole), corrected)

    def _last_end(self, begin: int) -> int:
        """When the last window is over that holds a slice."""
        return max(int(grid.end(grid.newest(begin))) for grid in self._grids.values())

    # --- sessions

    def _join(self, sessions: list[tuple[int, int, int, Any]], gap: int, time: int, lifted: Any) -> None:
        """Let a row begin a session, go into one, or join several."""
        places = [place for place, one in enumerate(sessions) if one[0] - gap < time < one[1] + gap]
        near = sessions[places[0] : places[-1] + 1] if places else []
        known = CHANGED if any(one[2] != OPEN for one in near) else OPEN
        whole = lifted
        if near:
            whole = near[0][3]
            for one in near[1:]:
                whole = self._aggregate.combine(whole, one[3])
            whole = self._aggregate.combine(whole, lifted)
        first, last = min([time, *(one[0] for one in near)]), max([time, *(one[1] for one in near)])
        if places:
            del sessions[places[0] : places[-1] + 1]
        insort(sessions, (first, last, known, whole), key=_FIRST)

    def _sessions_over(self, name: str, now: Slices, until: int) -> Iterator[Told]:
        gap = self._gaps[name]
        sessions = now.sessions.get(name, [])
        for place, (first, last, known, partial) in enumerate(sessions):
            if known != TOLD and last + gap <= until:
                sessions[place] = first, last, TOLD, partial
                yield Told(name, first, last + gap, self._aggregate.lower(partial), known == CHANGED)

    # --- when

    def _next(self, now: Slices) -> int | None:
        """When there is something to tell; if there is nothing, when what is held can be given up."""
        untold: list[int] = []
        for grid in self._grids.values():
            first = None if now.until is None else grid.oldest(now.until)
            found = (_first_end(grid, begin, first) for begin, _ in now.slices)
            untold += [end for end in (next((end for end in found if end is not None), None),) if end is not None]
            untold += [end for begin, _ in now.late if (end := _first_end(grid, begin)) is not None]
        kept: list[int] = [self._last_end(begin) for begin, _ in now.slices[-1:]]
        for name, sessions in now.sessions.items():
            ends = [(one[1] + self._gaps[name], one[2]) for one in sessions]
            untold += [end for end, known in ends if known != TOLD]
            kept += [end for end, _ in ends]
        if untold:
            return min(untold)
        return max(kept) + self._lateness if kept else None


def over_time(window: Any) -> bool:
    """Whether windows lie at points of time that are known before any row comes."""
    return isinstance(window, Periodic) and window.measure == TIME


def _first_end(grid: SlicedGrid, time: int, first: int | None = None) -> int | None:
    """The end of the first window that holds a time, of those from number `first` on; None if there is none."""
    number = grid.oldest(time) if first is None else max(grid.oldest(time), first)
    return int(grid.end(number)) if number <= grid.newest(time) else None


def _numbers(grid: SlicedGrid, begin: int, first: int | None, until: int | None) -> Iterator[int]:
    """The windows that hold a slice, from number `first` on, and are over at a time."""
    number = grid.oldest(begin) if first is None else max(grid.oldest(begin), first)
    newest = grid.newest(begin)
    while until is not None and number <= newest and grid.end(number) <= until:
        yield number
        number += 1
