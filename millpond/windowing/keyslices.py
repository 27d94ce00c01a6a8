"""The open windows of one key, as plain values: rows in any order are combined into slices at once.

For tumbling, sliding and calendar windows, and sessions, whose aggregates do not depend on the order of rows. All
periodic windows of an element share their slices: one begins wherever some window begins or ends, so a slice lies in a
window as a whole or not at all. Sessions have no grid, and are kept by their first and last row.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Any, Final, NamedTuple, cast

from millpond.windowing.aggregates import Aggregate
from millpond.windowing.cuts import Cuts, first_end
from millpond.windowing.driven import Session
from millpond.windowing.grids import SlicedGrid
from millpond.windowing.kinds import LAST_TIME, check_told
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
    """The rules by which the slices of a key change; `lateness` is how long windows can be corrected.

    A window with a `since` does not know all rows up to that time, and is told only where none of them can lie in it.
    """

    def __init__(
        self, windows: Mapping[str, Any], aggregate: Aggregate, lateness: int, since: Mapping[str, int] | None = None
    ) -> None:
        self._aggregate = aggregate
        self._lateness = lateness
        self._places = {name: place for place, name in enumerate(windows)}
        self._grids: dict[str, SlicedGrid] = {
            name: cast("SlicedGrid", window.grid) for name, window in windows.items() if isinstance(window, Periodic)
        }
        self._gaps = {name: window.gap for name, window in windows.items() if isinstance(window, Session)}
        self._longest = max(self._gaps.values(), default=0)
        known = since or {}
        self._first = {name: grid.newest(known[name]) + 1 for name, grid in self._grids.items() if name in known}
        self._cuts = Cuts(self._grids, self._first)
        # A row up to that time would go on with a session that begins less than a gap after it.
        self._whole = {name: known[name] + gap for name, gap in self._gaps.items() if name in known}

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
        until, slices, late, sessions = held
        if until is not None and time < until - self._lateness:
            # What is before that can't be told any more: such a row counts as the earliest that can.
            time = until - self._lateness
        lifted = self._aggregate.lift(record)
        if time < LAST_TIME < time + self._longest:
            check_told(time, time + self._longest)
        if self._grids:
            begin, end = self._cuts.place(time)
            if end is not None:
                fresh = self._combine(slices, begin, lifted)
                moment = end if moment is None or end < moment else moment
                if until is not None and end <= until and all(begin != one for one, _ in late):
                    insort(late, (begin, fresh))
        if not self._gaps:
            return held, moment
        for name, gap in self._gaps.items():
            self._join(sessions.setdefault(name, []), gap, time, lifted)
        return held, self._next(Slices(*held))

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

    def carried(self, held: Held, names: Mapping[str, str], pick: Callable[[Any], Any]) -> Held:
        """What a key held under other windows, for these.

        `names` are the new names of those that stay, and `pick` takes what is still needed of a partial.
        """
        now = Slices(*held)
        slices: dict[int, Any] = {}
        fresh: dict[int, bool] = {}
        began = {begin for begin, began in now.late if began}
        for begin, partial in now.slices:
            # A slice lies in all windows that stay in which its new begin lies. Those that came do not look at it.
            place = self._cuts.begin(begin) if self._grids else begin
            ends = self._ends_of(place)
            if not ends or (now.until is not None and max(ends) <= now.until - self._lateness):
                continue
            less = pick(partial)
            slices[place] = self._aggregate.combine(slices[place], less) if place in slices else less
            fresh[place] = fresh.get(place, True) and begin in began
        late = sorted({place for begin, _ in now.late if self._grids and (place := self._cuts.begin(begin)) in slices})
        sessions = {
            names[name]: [(first, last, known, pick(partial)) for first, last, known, partial in found]
            for name, found in now.sessions.items()
            if name in names
        }
        return tuple(Slices(now.until, list(slices.items()), [(place, fresh[place]) for place in late], sessions))

    # --- periodic windows

    def _combine(self, slices: list[tuple[int, Any]], begin: int, lifted: Any) -> bool:
        """Put a row into its slice; whether that begins with it."""
        # A tuple of one lies before all that begin with the same: so slices are found without a function per step.
        place = bisect_left(slices, (begin,))
        if place < len(slices):
            there, partial = slices[place]
            if there == begin:
                slices[place] = begin, self._aggregate.combine(partial, lifted)
                return False
        slices.insert(place, (begin, lifted))
        return True

    def _over(self, name: str, now: Slices, until: int) -> Iterator[Told]:
        grid = self._grids[name]
        first = self._first.get(name)
        late = [number for begin, _ in now.late for number in _numbers(grid, begin, first, now.until)]
        fresh = frozenset(begin for begin, began in now.late if began)
        for number in dict.fromkeys(late):
            yield self._told(name, number, now.slices, fresh)
        after = self._untold(name, now.until)
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

    def _untold(self, name: str, until: int | None) -> int | None:
        """The number of the first window that is not told at a time; None if it is the first there is."""
        numbers = [] if until is None else [self._grids[name].oldest(until)]
        numbers += [self._first[name]] if name in self._first else []
        return max(numbers, default=None)

    def _ends_of(self, begin: int) -> list[int]:
        """When the last window of each grid is over that holds a slice."""
        found = ((grid, grid.newest(begin), self._first.get(name)) for name, grid in self._grids.items())
        ends = [int(grid.end(newest)) for grid, newest, first in found if first is None or newest >= first]
        return [end for end in ends if end > begin]

    def _last_end(self, begin: int) -> int:
        """When the last window is over that holds a slice."""
        return max(self._ends_of(begin))

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
                if first >= self._whole.get(name, first):
                    yield Told(name, first, last + gap, self._aggregate.lower(partial), known == CHANGED)

    # --- when

    def _next(self, now: Slices) -> int | None:
        """When there is something to tell; if there is nothing, when what is held can be given up."""
        untold: list[int] = []
        for name, grid in self._grids.items():
            first = self._untold(name, now.until)
            found = (first_end(grid, begin, first) for begin, _ in now.slices)
            untold += [end for end in (next((end for end in found if end is not None), None),) if end is not None]
            of_all = self._first.get(name)
            untold += [end for begin, _ in now.late if (end := first_end(grid, begin, of_all)) is not None]
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


def _numbers(grid: SlicedGrid, begin: int, first: int | None, until: int | None) -> Iterator[int]:
    """The windows that hold a slice, from number `first` on, and are over at a time."""
    number = grid.oldest(begin) if first is None else max(grid.oldest(begin), first)
    newest = grid.newest(begin)
    while until is not None and number <= newest and grid.end(number) <= until:
        yield number
        number += 1
