"""Rows of many keys, added to the slices and sessions of their keys by columns: what is held is as if one by one.

What is held then is the same to the last bit, and so is when a key has something to emit. Times that are far off are
left to `KeySlices.add`, which defines it all; so are columns that are no numbers.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.aggregates.forms import Cells, Ints
from millpond.windowing.keyed.keycells import ByColumns, Columns, Folding, Keyed, Numbers, OneByOneError
from millpond.windowing.keyed.keysessions import Rows, Session, add_to_sessions, note_replaced
from millpond.windowing.kinds.cuts import FAR_US, NEVER_US, Cuts


class _Stretch(NamedTuple):
    """The cells of one key, from `first` up to `last`; `known` are its slices from place `low` up to `high`.

    No other slice lies between these cells.
    """

    first: int
    last: int
    low: int
    high: int
    known: Mapping[int, Any]


class _Sliced(NamedTuple):
    """Slices in which rows lie, sorted by key and begin: their keys, begins, first ends and partials then.

    `stretches` are those of each key.
    """

    places: Ints
    points: list[int]
    ends: Ints
    partials: list[Any]
    stretches: list[_Stretch]


class KeyColumns(ByColumns):
    """The rules by which columns of rows change what their keys hold.

    `cuts` says which slices there are, `gaps` which sessions, and `next_moment` when something of them is to be
    emitted.
    """

    def __init__(
        self,
        cuts: Cuts,
        gaps: Mapping[str, int],
        lateness: int,
        aggregate: Aggregate,
        next_moment: Callable[[tuple[Any, ...]], int | None],
    ) -> None:
        self._cuts = cuts
        self._gaps = gaps
        self._lateness = lateness
        self._folding = Folding(aggregate)
        self._next_moment = next_moment
        self._known = self._folding.can and max(lateness, *gaps.values(), 0) < FAR_US

    def _add(self, keyed: Sequence[Keyed], places: Ints, times: Ints, columns: Columns) -> list[int | None]:
        untils = _untils(keyed)
        if untils is not None:
            # As with one row: what is before that can't be emitted any more.
            times = np.maximum(times, (untils - self._lateness)[places])
        numbers = self._folding.numbers(columns)
        sliced = self._sliced(keyed, places, times, numbers)
        grown = {name: self._grown(name, keyed, Rows(places, times, numbers)) for name in self._gaps}
        # From here on nothing can be wrong with a row.
        _write(keyed, sliced, untils)
        if not grown:
            return _moments(keyed, sliced)
        for name, sessions in grown.items():
            for (_, held), mine in zip(keyed, sessions, strict=True):
                note_replaced(held[4], name, held[3].get(name, ()), mine)
                held[3][name] = mine
        return [self._next_moment(held) for _, held in keyed]

    def _sliced(self, keyed: Sequence[Keyed], places: Ints, times: Ints, numbers: Numbers) -> _Sliced:
        """Return the slices of rows, with what they hold then."""
        cut = self._cuts.columns(times)
        if cut is None:
            raise OneByOneError
        begins, ends = cut
        inside = np.flatnonzero(ends < NEVER_US)
        if len(inside) < len(times):
            places, begins, ends = places[inside], begins[inside], ends[inside]
            numbers = tuple(None if values is None else values[inside] for values in numbers)
        order = np.lexsort((begins, places))
        new = np.ones(len(order), np.bool_)
        new[1:] = (np.diff(places[order]) != 0) | (np.diff(begins[order]) != 0)
        first = np.flatnonzero(new)
        places, ends = places[order[first]], ends[order[first]]
        points: list[int] = begins[order[first]].tolist()
        stretches = list(_stretches(keyed, places, points))
        old = [at for one in stretches if one.known for at in range(one.first, one.last) if points[at] in one.known]
        before = [stretches[place].known[points[at]] for at, place in zip(old, places[old].tolist(), strict=True)]
        of_rows = np.empty(len(order), np.int64)
        of_rows[order] = np.cumsum(new) - 1
        cells = Cells(of_rows, np.diff(np.append(first, len(order))), order, first, old, before)
        return _Sliced(places, points, ends, self._folding.folded(cells, numbers), stretches)

    def _grown(self, name: str, keyed: Sequence[Keyed], rows: Rows) -> list[list[Session]]:
        """Return the sessions of each key after its rows; those that it holds stay as they are."""
        sessions = [list(held[3].get(name, ())) for _, held in keyed]
        add_to_sessions(sessions, self._gaps[name], rows, self._folding)
        return sessions


def _write(keyed: Sequence[Keyed], sliced: _Sliced, untils: Ints | None) -> None:
    """Put slices into what keys hold."""
    points, places = sliced.points, sliced.places
    for (_, held), one in zip(keyed, sliced.stretches, strict=True):
        fresh = zip(points[one.first : one.last], sliced.partials[one.first : one.last], strict=True)
        held[1][one.low : one.high] = sorted({**one.known, **dict(fresh)}.items()) if one.known else fresh
    if untils is not None:
        for at in np.flatnonzero(sliced.ends <= untils[places]).tolist():
            _note_late(keyed[places[at]], points[at], sliced.stretches[places[at]].known)


def _untils(keyed: Sequence[Keyed]) -> Ints | None:
    """Up to when windows of keys were emitted; None if none were."""
    untils = [held[0] for _, held in keyed]
    emitted = [until for until in untils if until is not None]
    if not emitted:
        return None
    if max(emitted) > FAR_US or min(emitted) < -FAR_US:
        raise OneByOneError
    return np.array([-FAR_US if until is None else until for until in untils], np.int64)


def _note_late(keyed: Keyed, begin: int, known: Mapping[int, Any]) -> None:
    """Note a slice of emitted windows that changed, and whether it began with that."""
    _, (_, _, late, _, _) = keyed
    if not marks(late, begin):
        insort(late, (begin, begin not in known))


def marks(marked: Sequence[tuple[int, Any]], begin: int) -> bool:
    """Say whether a slice is among some, which are sorted by their begins."""
    place = bisect_left(marked, (begin,))
    return place < len(marked) and marked[place][0] == begin


def _stretches(keyed: Sequence[Keyed], places: Ints, points: Sequence[int]) -> Iterator[_Stretch]:
    """Return the cells of each key, and what it holds there."""
    bounds = np.searchsorted(places, np.arange(len(keyed) + 1)).tolist()
    for (_, held), (first, last) in zip(keyed, pairwise(bounds), strict=True):
        slices = held[1]
        if first == last:
            yield _Stretch(first, last, 0, 0, {})
            continue
        low = bisect_left(slices, (points[first],))
        high = low if low == len(slices) else bisect_left(slices, (points[last - 1] + 1,), low)
        yield _Stretch(first, last, low, high, dict(slices[low:high]) if low < high else {})


def _moments(keyed: Sequence[Keyed], sliced: _Sliced) -> list[int | None]:
    """Return when keys have something to emit: not later than the end of the first window that has a new row."""
    moments = [moment for moment, _ in keyed]
    stretches = sliced.stretches
    touched = [place for place, one in enumerate(stretches) if one.first < one.last]
    if touched:
        soonest = np.minimum.reduceat(sliced.ends, [stretches[place].first for place in touched]).tolist()
        for place, end in zip(touched, soonest, strict=True):
            moment = moments[place]
            moments[place] = end if moment is None or end < moment else moment
    return moments
