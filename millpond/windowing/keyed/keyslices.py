"""The open windows of one key, as plain values: rows in any order are combined into slices at once.

For tumbling, sliding and calendar windows, and sessions, whose aggregates do not depend on the order of rows. All
periodic windows of an element share their slices: one begins wherever some window begins or ends, so a slice lies in a
window as a whole or not at all. Slices that no open window tells apart any more are merged. Sessions have no grid, and
are kept by their first and last row.

>>> from millpond.windowing import several, sum_of, tumbling
>>> keys = KeySlices({"": tumbling("10 us")}, several(total=sum_of("v")), lateness=0)
>>> held, moment = keys.add(keys.start(), 12, {"v": 5}, None)
>>> held, moment = keys.add(held, 3, {"v": 2}, moment)
>>> emitted, held, moment = keys.close(held, until=moment)
>>> [(one.begin, one.end, one.value) for one in emitted], moment
([(0, 10, {'total': 2})], 20)

Windows that are emitted together are combined in blocks as long as a window. A block begins with every window whose
number is a multiple of how many slices a window has. So one block begins in each window: what lies before that is
combined from the last slice back to the first, what lies behind it from the first to the last, and then both (van Herk,
Gil and Werman). Windows that meet in one block share these sums: they cost one combination each, whatever their
overlap. Blocks follow from the grid alone, so a window has the same value, to the last bit of a float, whether it is
emitted alone or with others, again, or after a restart.

A long window beside short ones would keep the slices of all short ones that are over. They are merged, but only where
no window can have other bits by that. Floats are added in the order of blocks, whatever was merged when: so
sums of floats are merged only at the front of windows that do not overlap, where slices are added from the first to the
last in any case. Aggregates that declare partials without floats, and extremes, are merged wherever it may be.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import accumulate, groupby, pairwise
from operator import add, itemgetter
from types import NoneType
from typing import Any, Final, NamedTuple, cast, get_args

import numpy as np

from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.keyed.keycolumns import KeyColumns, marks
from millpond.windowing.keyed.keysessions import CHANGED, TOLD, Replaced, join, note_replaced, sessions_over, taken_back
from millpond.windowing.keyed.keysessions import Session as HeldSession
from millpond.windowing.kinds.cuts import Cuts, first_end
from millpond.windowing.kinds.driven import Session
from millpond.windowing.kinds.grids import Ints, SlicedGrid
from millpond.windowing.kinds.kinds import LAST_TIME, check_told
from millpond.windowing.kinds.periodic import TIME, Periodic

Held = tuple[Any, ...]
"""What a key holds, as it is stored."""


class Emitted(NamedTuple):
    """A window that is over: its name, its bounds, its value, and whether it was emitted before.

    One that is `retracted` was emitted like this, and no longer is a window.
    """

    window: str
    begin: Any
    end: Any
    value: Any
    corrected: bool = False
    retracted: bool = False


class Slices(NamedTuple):
    """What a key holds. Windows that end at `until` or before are emitted.

    Slices are pairs of begin and partial. `late` are those of emitted windows that changed since, and whether they
    began with that. Sessions, by window, have a first row, a last row, what is known of them, and a partial; those that
    were emitted, and changed since, are also among the replaced, as they were emitted. All are sorted.
    """

    until: int | None
    slices: list[tuple[int, Any]]
    late: list[tuple[int, bool]]
    sessions: dict[str, list[HeldSession]]
    replaced: list[Replaced]


class KeySlices:
    """The rules by which the slices of a key change; `lateness` is how long windows can be corrected.

    A window with a `since` does not know all rows up to that time, and is emitted only where none of them can lie in
    it. `columns` add many rows at once.
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
        self._merging = Merging(self._grids, self._first, self._cuts, aggregate)
        self.columns = KeyColumns(self._cuts, self._gaps, lateness, aggregate, lambda held: self._next(Slices(*held)))
        # A row up to that time would go on with a session that begins less than a gap after it.
        self._whole = {name: known[name] + gap for name, gap in self._gaps.items() if name in known}

    @staticmethod
    def suit(windows: Mapping[str, Any], aggregate: Aggregate) -> bool:
        """Say whether windows and their aggregate can be computed from rows in any order."""
        return aggregate.commutative and all(
            isinstance(window, Session) or over_time(window) for window in windows.values()
        )

    @staticmethod
    def stored_type(aggregate: Aggregate) -> Any:
        """Return the type of what a key holds, as a state element declares it."""
        partial = aggregate.partial_type
        slices, sessions = list[tuple[int, partial]], list[tuple[int, int, int, partial]]  # type: ignore[valid-type]
        replaced = list[tuple[str, int, int, partial]]  # type: ignore[valid-type]
        return tuple[int | None, slices, list[tuple[int, bool]], dict[str, sessions], replaced]  # type: ignore[valid-type]

    def start(self) -> Held:
        """Return what a key holds before its first row."""
        return tuple(Slices(None, [], [], {}, []))

    def add(self, held: Held, time: int, record: Any, moment: int | None) -> tuple[Held, int | None]:
        """Take a row in; what is held then, and the moment at which there is something to emit, which was `moment`."""
        until, slices, late, sessions, replaced = held
        if until is not None and time < until - self._lateness:
            # What is before that can't be emitted any more: such a row counts as the earliest that can.
            time = until - self._lateness
        lifted = self._aggregate.lift(record)
        if time < LAST_TIME < time + self._longest:
            check_told(time, time + self._longest)
        if self._grids:
            begin, end = self._cuts.place(time)
            if end is not None:
                fresh = self._combine(slices, begin, lifted)
                moment = end if moment is None or end < moment else moment
                if until is not None and end <= until and not marks(late, begin):
                    insort(late, (begin, fresh))
        if not self._gaps:
            return held, moment
        for name, gap in self._gaps.items():
            before = join(sessions.setdefault(name, []), gap, time, lifted, self._aggregate.combine)
            note_replaced(replaced, name, before)
        return held, self._next(Slices(*held))

    def close(self, held: Held, until: int) -> tuple[list[Emitted], Held | None, int | None]:
        """Return what is over at a time, in the order of ends; what is held then, if anything; and when there is more.

        Before that comes what was emitted and no longer holds.
        """
        now = Slices(*held)
        # A handler that waits for others may be held back longer than it was: what is emitted stays emitted.
        until = until if now.until is None else max(until, now.until)
        # Windows that are over hold no slice that begins later: with many moments, each looks at its own.
        over = now.slices[: bisect_left(now.slices, (until,))]
        begins, partials = [begin for begin, _ in over], [partial for _, partial in over]
        emitted = [one for name in self._grids for one in self._over(name, now, begins, partials, until)]
        emitted += self._taken_back(now)
        emitted += [one for name in self._gaps for one in self._sessions_over(name, now, until)]
        emitted.sort(key=lambda one: (not one.retracted, one.end, one.begin, self._places[one.window]))
        final = until - self._lateness
        # The later a slice, the later its last window.
        kept = now.slices[bisect_right(now.slices, final, key=lambda one: self._last_end(one[0])) :]
        slices = self._merging.merged(kept, final)
        sessions = {
            name: [one for one in found if one[1] + self._gaps[name] > final] for name, found in now.sessions.items()
        }
        left = Slices(until, slices, [], {name: found for name, found in sessions.items() if found}, [])
        empty = not left.slices and not left.sessions
        return emitted, None if empty else tuple(left), self._next(left)

    def current(self, held: Held, name: str, time: int) -> Emitted | None:
        """Return the window that a time lies in, of several the one that ends first, with the rows that it has so far.

        None if it has none, or is one that does not know all of its rows.
        """
        now = Slices(*held)
        if name in self._gaps:
            return self._current_session(now, name, time)
        grid = self._grids[name]
        number = grid.oldest(time)
        begin, end = int(grid.begin(number)), int(grid.end(number))
        own = now.slices[bisect_left(now.slices, (begin,)) : bisect_left(now.slices, (end,))]
        if not begin <= time < end or not own or number < self._first.get(name, number):
            return None
        whole = reduce(self._aggregate.combine, (partial for _, partial in own))
        return Emitted(name, begin, end, self._aggregate.result(whole))

    def _current_session(self, now: Slices, name: str, time: int) -> Emitted | None:
        gap = self._gaps[name]
        for first, last, _, partial in now.sessions.get(name, []):
            if first - gap < time < last + gap and first >= self._whole.get(name, first):
                return Emitted(name, first, last + gap, self._aggregate.result(partial))
        return None

    def moments(self, held: Held, moment: int, until: int) -> list[int]:
        """Return the moments up to a time at which `close` has something new to emit, if it is asked at each of them.

        `moment` is the first. What was emitted and has changed is emitted at it, but for a session that grew: that is
        over later.
        """
        now = Slices(*held)
        looked_at = now._replace(sessions={name: list(found) for name, found in now.sessions.items()})
        emitted, _, _ = self.close(tuple(looked_at), until)
        known = moment if now.until is None else max(moment, now.until)
        ends = {one.end for one in emitted if not one.retracted and (not one.corrected or one.end > known)}
        return sorted({moment, *ends})

    def earliest(self, time: int) -> int:
        """Return when a row of a time or a later one can have an effect at the earliest: at the first end after it."""
        ends = [int(grid.end(grid.oldest(time))) for grid in self._grids.values()]
        return min([*ends, *(time + gap for gap in self._gaps.values())])

    def carried(self, held: Held, names: Mapping[str, str], pick: Callable[[Any], Any]) -> Held:
        """Return what a key held under other windows, for these.

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
        replaced = sorted(
            ((names[name], *bounds, pick(partial)) for name, *bounds, partial in now.replaced if name in names),
            key=itemgetter(0, 1),
        )
        changed = [(place, fresh[place]) for place in late]
        return tuple(Slices(now.until, list(slices.items()), changed, sessions, replaced))

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

    def _over(
        self, name: str, now: Slices, begins: Sequence[int], partials: Sequence[Any], until: int
    ) -> Iterator[Emitted]:
        """Return the windows of a grid that late rows changed, then those that were not over before."""
        if not begins:
            return
        grid, aggregate = self._grids[name], self._aggregate
        fresh = [begin for begin, began in now.late if began]
        for spot, whole in whole_windows(grid, begins, partials, self._changed(name, now, begins), aggregate):
            # If all its slices began since it was over, it was not emitted before.
            new = bisect_left(fresh, spot.end) - bisect_left(fresh, spot.begin)
            yield Emitted(name, spot.begin, spot.end, aggregate.result(whole), new < spot.last - spot.first)
        after = self._unemitted(name, now.until)
        low, high = grid.oldest(begins[0]), grid.newest(begins[-1])
        ended = spots_over(grid, begins, low if after is None else max(low, after), high, until)
        for spot, whole in whole_windows(grid, begins, partials, ended, aggregate):
            yield Emitted(name, spot.begin, spot.end, aggregate.result(whole))

    def _changed(self, name: str, now: Slices, begins: Sequence[int]) -> Iterator[Spot]:
        """Return the windows of a grid that were over, and that late rows changed."""
        grid, first = self._grids[name], self._first.get(name)
        for begin, _ in now.late:
            assert now.until is not None
            low, high = grid.oldest(begin), grid.newest(begin)
            for spot in spots_over(grid, begins, low if first is None else max(low, first), high, now.until):
                yield spot
                first = spot.number + 1

    def _unemitted(self, name: str, until: int | None) -> int | None:
        """Return the number of the first window that is not emitted at a time; None if it is the first there is."""
        numbers = [] if until is None else [self._grids[name].oldest(until)]
        numbers += [self._first[name]] if name in self._first else []
        return max(numbers, default=None)

    def _ends_of(self, begin: int) -> list[int]:
        """Return when the last window of each grid is over that holds a slice."""
        found = ((grid, grid.newest(begin), self._first.get(name)) for name, grid in self._grids.items())
        ends = [int(grid.end(newest)) for grid, newest, first in found if first is None or newest >= first]
        return [end for end in ends if end > begin]

    def _last_end(self, begin: int) -> int:
        """Return when the last window is over that holds a slice."""
        return max(self._ends_of(begin))

    # --- sessions

    def _sessions_over(self, name: str, now: Slices, until: int) -> Iterator[Emitted]:
        gap = self._gaps[name]
        for first, last, known, partial in sessions_over(now.sessions.get(name, []), gap, until):
            if first >= self._whole.get(name, first):
                yield Emitted(name, first, last + gap, self._aggregate.result(partial), known == CHANGED)

    def _taken_back(self, now: Slices) -> Iterator[Emitted]:
        for name, first, last, partial in taken_back(now.replaced, now.sessions):
            if first >= self._whole.get(name, first):
                yield Emitted(name, first, last + self._gaps[name], self._aggregate.result(partial), retracted=True)

    # --- when

    def _next(self, now: Slices) -> int | None:
        """Return when there is something to emit; if there is nothing, when what is held can be given up."""
        unemitted: list[int | None] = []
        for name, grid in self._grids.items():
            unemitted.append(_earliest_end(grid, now.slices, self._unemitted(name, now.until)))
            unemitted.append(_earliest_end(grid, now.late, self._first.get(name)))
        for name, sessions in now.sessions.items():
            last = next((last for _, last, known, _ in sessions if known != TOLD), None)
            unemitted.append(None if last is None else last + self._gaps[name])
        unemitted += [last + self._gaps[name] for name, _, last, _ in now.replaced]
        ends = [end for end in unemitted if end is not None]
        if ends:
            return min(ends)
        kept = [self._last_end(begin) for begin, _ in now.slices[-1:]]
        kept += [sessions[-1][1] + self._gaps[name] for name, sessions in now.sessions.items() if sessions]
        return max(kept) + self._lateness if kept else None


def over_time(window: Any) -> bool:
    """Say whether windows lie at points of time that are known before any row comes."""
    return isinstance(window, Periodic) and window.measure == TIME


def _earliest_end(grid: SlicedGrid, slices: Sequence[tuple[int, Any]], first: int | None) -> int | None:
    """Return the earliest end of a window that holds one of the slices, of those from number `first` on."""
    place = 0 if first is None else bisect_left(slices, (grid.begin(first),))
    while place < len(slices):
        begin = slices[place][0]
        end = first_end(grid, begin, first)
        if end is not None:
            return end
        # It lies between two windows: all slices before the next one do.
        place = bisect_left(slices, (grid.begin(grid.newest(begin) + 1),), place + 1)
    return None


Combine = Callable[[Any, Any], Any]


class Spot(NamedTuple):
    """A window that has rows: its number and bounds, and which slices are in it, from `first` up to `last`."""

    number: int
    begin: int
    end: int
    first: int
    last: int


def spots_over(grid: SlicedGrid, begins: Sequence[int], low: int, high: int, until: int) -> Iterator[Spot]:
    """Find windows from number `low` to `high` that have rows and are over at a time; `begins` are of the slices."""
    number, first = low, 0
    while number <= high and (end := grid.end(number)) <= until:
        begin = grid.begin(number)
        first = bisect_left(begins, begin, first)
        last = bisect_left(begins, end, first)
        if first < last:
            yield Spot(number, begin, end, first, last)
            number += 1
        elif first < len(begins):
            number = max(number + 1, grid.oldest(begins[first]))
        else:
            return


def whole_windows(
    grid: SlicedGrid, begins: Sequence[int], partials: Sequence[Any], spots: Iterable[Spot], aggregate: Aggregate
) -> Iterator[tuple[Spot, Any]]:
    """Return the partials of windows, which come in the order of their numbers."""
    reach = grid.whole + grid.rest
    for block, together in groupby(spots, key=lambda spot: -(-spot.number // reach)):
        group = list(together)
        low, high = group[0].first, group[-1].last
        middle = bisect_left(begins, grid.begin(block * reach), low)
        fewest_back, fewest_ahead = max(middle - group[-1].first, 1), max(group[0].last - middle, 1)
        back = _running(partials[low:middle][::-1], aggregate, _swapped, fewest_back)
        ahead = _running(partials[middle:high], aggregate, _same, fewest_ahead)
        for spot in group:
            before, behind = middle - spot.first, spot.last - middle
            if not before:
                yield spot, ahead[behind - fewest_ahead]
            elif not behind:
                yield spot, back[before - fewest_back]
            else:
                yield spot, aggregate.combine(back[before - fewest_back], ahead[behind - fewest_ahead])


def _running(
    partials: Sequence[Any], aggregate: Aggregate, way: Callable[[Combine], Combine], fewest: int
) -> list[Any]:
    """Return the first `fewest` partials combined one after the other, then one more each time."""
    skipped = fewest - 1
    if len(partials) < 2:
        return list(partials[skipped:])
    if not aggregate.parts:
        return list(accumulate(partials, way(aggregate.combine)))[skipped:]
    # Part by part, so that sums are added up without a call of Python for each slice.
    columns = [
        list(accumulate([partial[place] for partial in partials], way(part.combine)))[skipped:]
        for place, (_, part) in enumerate(aggregate.parts)
    ]
    return list(zip(*columns, strict=True))


def _same(combine: Combine) -> Combine:
    return combine


def _swapped(combine: Combine) -> Combine:
    """Combine where the later partial comes first; of two numbers it can't be seen which was added to which."""
    return combine if combine is add else lambda later, earlier: combine(earlier, later)


_WHOLE: Final = (bool, int, str, bytes, NoneType)

_STORED: Final = range(-(2**63), 2**64)
"""The integers that state can hold; a window may be emitted larger ones, which its slices do not reach."""

Slice = tuple[int, Any]
"""Where a slice begins, and its partial."""


class Merging:
    """The rules by which slices become one; of a grid with a first window, those before it do not count."""

    def __init__(
        self, grids: Mapping[str, SlicedGrid], first: Mapping[str, int], cuts: Cuts, aggregate: Aggregate
    ) -> None:
        self._grids = [(grid, first.get(name)) for name, grid in grids.items()]
        self._cuts = cuts
        self._aggregate = aggregate
        self._exact = _exact(aggregate)
        # Otherwise every slice begins with a window that is open for as long as the slice is kept.
        self._some = len(self._grids) > 1 or any(grid.rest for grid, _ in self._grids)

    def merged(self, slices: list[Slice], final: int) -> list[Slice]:
        """Return the slices that are left of some, if windows that end at a time or before are never emitted again.

        All these slices lie in windows that end later. No row will happen before that time.
        """
        if not self._some or len(slices) < 2 or slices[1][0] >= (running := self._cuts.last(final)):
            return slices
        begins = np.array([begin for begin, _ in slices if begin < running], np.int64)
        if not self._cuts.near(np.append(begins, final)):
            return slices
        kept_apart = self._kept_apart(begins, final)
        if kept_apart.all():
            return slices
        edges = [*np.flatnonzero(kept_apart).tolist(), len(begins)]
        ahead = self._added_ahead(begins, final)
        found: list[Slice] = []
        for low, high in pairwise(edges):
            together = slices[low:high]
            if len(together) > 1 and (self._exact or ahead[low]):
                whole = reduce(self._aggregate.combine, [partial for _, partial in together])
                together = [(together[0][0], whole)] if _storable(whole) else together
            found += together
        return found + slices[len(begins) :]

    def _kept_apart(self, begins: Ints, final: int) -> Any:
        """Say whether some open window begins after the slice before, and not after this one."""
        found = np.zeros(len(begins), np.bool_)
        found[0] = True
        for grid, first in self._grids:
            newest, _ = grid.slices(begins)
            is_open = _from(newest, first) & (grid.ends(newest) > final)
            found[1:] |= (is_open & (grid.begins(newest) > np.roll(begins, 1)))[1:]
        return found

    def _added_ahead(self, begins: Ints, final: int) -> Any:
        """Say whether in all open windows that hold it a slice is the first, to which the others are added."""
        found = np.ones(len(begins), np.bool_)
        for grid, first in self._grids:
            newest, _ = grid.slices(begins)
            holds = _from(newest, first) & (grid.ends(newest) > np.maximum(begins, final))
            leads = grid.begins(newest) > np.roll(begins, 1)
            leads[0] = True
            found &= ~holds | (leads if grid.whole + grid.rest == 1 else False)
        return found


def _from(numbers: Ints, first: int | None) -> Any:
    return np.ones(len(numbers), np.bool_) if first is None else numbers >= first


def _exact(aggregate: Aggregate) -> bool:
    """Say whether the order of combining can't be seen: nothing is rounded, whatever rows will come."""
    if aggregate.parts:
        return all(_exact(part) for _, part in aggregate.parts)
    form = aggregate.columns
    return (form is not None and form.exact) or _without_floats(aggregate.partial_type)


def _without_floats(declared: Any) -> bool:
    parts = [part for part in get_args(declared) if part is not ...]
    return all(map(_without_floats, parts)) if parts else declared in _WHOLE


def _storable(partial: Any) -> bool:
    if isinstance(partial, tuple | list):
        return all(map(_storable, partial))
    return type(partial) is not int or partial in _STORED
