"""The sessions of keys: how rows begin them, go into them and join them, one by one or by columns.

Which session a row ends up in does not depend on the order in which rows come, but how partials are combined does:
when a row joins two sessions, what they hold is combined first. By columns that is kept to. A session that grows from
one piece, whatever the order of its rows, is a cell to which its rows are added. Where rows join pieces, the earlier
half of them is taken first, then the other: by then most pieces are one. A few rows are left, and go one by one.

>>> sessions = [(1, 4, OPEN, 7), (9, 9, OPEN, 1)]
>>> joined = join(sessions, gap=5, time=6, lifted=10, combine=lambda one, other: one + other)
>>> sessions
[(1, 9, 0, 18)]
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np

from millpond.windowing.aggregates.forms import Bools, Cells, Ints
from millpond.windowing.keyed.keycells import Folding, Numbers, refusing

OPEN: Final = 0
TOLD: Final = 1
CHANGED: Final = 2
"""What is known of a session: not emitted yet, emitted, or emitted and then changed by a late row."""

HALVINGS_MAX: Final = 4
"""So often rows that join sessions are halved: if most rows do, each time costs as much as half of going one by one."""

ROWS_MIN: Final = 16
"""Sessions with fewer new rows that join pieces are not worth halving."""

Session = tuple[int, int, int, Any]
"""Its first row, its last row, what is known of it, and its partial."""

Replaced = tuple[str, int, int, Any]
"""A session as it was emitted and is no more: its window, its first row, its last row, and its partial then."""

_FIRST = itemgetter(0)
_LAST = itemgetter(1)


def join(
    sessions: list[Session], gap: int, time: int, lifted: Any, combine: Callable[[Any, Any], Any]
) -> list[Session]:
    """Let a row begin a session of a key, go into one, or join several; gives those that were there before."""
    low = bisect_right(sessions, time - gap, key=_LAST)
    high = bisect_left(sessions, time + gap, low, key=_FIRST)
    near = sessions[low:high]
    known = CHANGED if any(one[2] != OPEN for one in near) else OPEN
    whole = lifted
    if near:
        whole = near[0][3]
        for one in near[1:]:
            whole = combine(whole, one[3])
        whole = combine(whole, lifted)
    first, last = min([time, *(one[0] for one in near)]), max([time, *(one[1] for one in near)])
    sessions[low:high] = [(first, last, known, whole)]
    return near


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in the order of their arrival: the places of their keys, their times, and what aggregates read of them."""

    places: Ints
    times: Ints
    numbers: Numbers

    def take(self, some: Ints) -> Rows:
        """Return some of them."""
        numbers = tuple(None if values is None else values[some] for values in self.numbers)
        return Rows(self.places[some], self.times[some], numbers)


class _Near(NamedTuple):
    """The sessions of a key that new rows may lie in: those from `low` up to `high`, of all such ones from `first`."""

    place: int
    low: int
    high: int
    first: int


@dataclass(frozen=True, slots=True)
class _Pieces:
    """What old sessions and new rows make together, sorted by key and time: of each its key, and its bounds.

    `of_items` is the piece of each old session and then of each row. Those `in_parts` did not grow from one session, or
    from one row.
    """

    of_items: Ints
    places: Ints
    firsts: Ints
    lasts: Ints
    in_parts: Bools


def add_to_sessions(kept: Sequence[list[Session]], gap: int, rows: Rows, folding: Folding, halvings: int = 0) -> None:
    """Take rows into sessions of their keys, each into those at its place; `kept` are changed in place."""
    near, old = _near(kept, gap, rows)
    pieces = _pieces(near, old, gap, rows)
    of_old, of_rows = pieces.of_items[: len(old)], pieces.of_items[len(old) :]
    many = np.bincount(of_rows, minlength=len(pieces.places))
    whole = (many > 0) & ~pieces.in_parts
    fresh = _grown(old, of_old, of_rows, pieces, whole, rows, folding)
    places = pieces.places[whole]
    stays: list[bool] = (~whole[of_old]).tolist()
    for one, below, above in zip(
        near,
        np.searchsorted(places, [one.place for one in near]).tolist(),
        np.searchsorted(places, [one.place for one in near], side="right").tolist(),
        strict=True,
    ):
        mine = fresh[below:above]
        left = [old[at] for at in range(one.first, one.first + one.high - one.low) if stays[at]]
        kept[one.place][one.low : one.high] = sorted([*left, *mine], key=_FIRST) if left else mine
    if not pieces.in_parts.any():
        return
    worth = pieces.in_parts & (many >= ROWS_MIN) & (halvings < HALVINGS_MAX)
    _one_by_one(kept, gap, rows.take(np.flatnonzero((pieces.in_parts & ~worth)[of_rows])), folding)
    later = np.flatnonzero(worth[of_rows])
    for half in (later[: len(later) // 2], later[len(later) // 2 :]) if len(later) else ():
        add_to_sessions(kept, gap, rows.take(half), folding, halvings + 1)


def _one_by_one(kept: Sequence[list[Session]], gap: int, rows: Rows, folding: Folding) -> None:
    each = folding.lifted(len(rows.places), rows.numbers)
    with refusing():
        for place, time, lifted in zip(rows.places.tolist(), rows.times.tolist(), each, strict=True):
            join(kept[place], gap, time, lifted, folding.combine)


def _near(kept: Sequence[list[Session]], gap: int, rows: Rows) -> tuple[list[_Near], list[Session]]:
    """For each key that has rows, the sessions that these may lie in, or lie between; and all of them."""
    places, codes = np.unique(rows.places, return_inverse=True)
    lows, highs = np.full(len(places), np.iinfo(np.int64).max), np.full(len(places), np.iinfo(np.int64).min)
    np.minimum.at(lows, codes, rows.times)
    np.maximum.at(highs, codes, rows.times)
    near: list[_Near] = []
    old: list[Session] = []
    for place, first, last in zip(places.tolist(), lows.tolist(), highs.tolist(), strict=True):
        sessions = kept[place]
        low = bisect_right(sessions, first - gap, key=_LAST)
        high = bisect_left(sessions, last + gap, low, key=_FIRST)
        near.append(_Near(place, low, high, len(old)))
        old += sessions[low:high]
    return near, old


def _pieces(near: Sequence[_Near], old: Sequence[Session], gap: int, rows: Rows) -> _Pieces:
    held = np.repeat([one.place for one in near], [one.high - one.low for one in near])
    places = np.concatenate((held, rows.places))
    firsts = np.concatenate((np.array([one[0] for one in old], np.int64), rows.times))
    lasts = np.concatenate((np.array([one[1] for one in old], np.int64), rows.times))
    order = np.lexsort((firsts, places))
    sorted_places, begins, numbers = places[order], firsts[order], np.arange(len(order))
    # Old sessions lie apart: of those that began, the last one reaches farthest.
    ahead = np.maximum.accumulate(np.where(order < len(old), numbers, 0))
    reach = np.maximum(begins, np.where(sorted_places[ahead] == sorted_places, lasts[order][ahead], begins))
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(sorted_places) != 0) | (begins[1:] - reach[:-1] >= gap)
    of_items = np.empty(len(order), np.int64)
    of_items[order] = np.cumsum(new) - 1
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], len(order)) - 1
    in_parts = _in_parts(of_items, order, firsts, lasts, gap)
    return _Pieces(of_items, sorted_places[starts], begins[starts], reach[ends], in_parts)


def _in_parts(of_items: Ints, order: Ints, firsts: Ints, lasts: Ints, gap: int) -> Bools:
    """Return which pieces had an item, as they came, that was not near what came of the piece before it.

    `order` are the items by key and time, and so by their pieces.
    """
    size = len(order)
    ranks = np.empty(size, np.int64)
    ranks[order] = np.arange(size)
    came = np.argsort(of_items, kind="stable")  # By pieces, and those of a piece as they came.
    pieces, ranks = of_items[came], ranks[came]
    same = pieces[1:] == pieces[:-1]
    # Ranks grow from piece to piece. So that the least ones begin anew with each, they are made to fall.
    least = np.minimum.accumulate(ranks - pieces * size) + pieces * size
    begins = np.flatnonzero(np.append(True, ~same))
    # An old session is the first item of its piece, if it is the only old one, and rows are as long as they are late.
    reach = np.maximum(firsts[order[np.maximum.accumulate(ranks)]], lasts[came[begins]][pieces])
    near = (firsts[came[1:]] - reach[:-1] < gap) & (firsts[order[least[:-1]]] - lasts[came[1:]] < gap)
    in_parts = np.zeros(len(begins), np.bool_)
    in_parts[pieces[1:][same & ~near]] = True
    return in_parts


def _grown(
    old: Sequence[Session], of_old: Ints, of_rows: Ints, pieces: _Pieces, whole: Bools, rows: Rows, folding: Folding
) -> list[Session]:
    """Return the pieces that are whole, as sessions with their new rows."""
    cells = np.cumsum(whole) - 1
    inside = np.flatnonzero(whole[of_rows])
    if len(inside) < len(of_rows):
        of_rows, rows = of_rows[inside], rows.take(inside)
    of_cells = cells[of_rows]
    many = np.bincount(of_cells, minlength=int(whole.sum()))
    grown = np.flatnonzero(whole[of_old]).tolist()
    held: list[int] = cells[of_old[grown]].tolist()
    first = np.cumsum(many) - many
    found = Cells(of_cells, many, np.argsort(of_cells, kind="stable"), first, held, [old[at][3] for at in grown])
    known = [OPEN] * len(many)
    for cell, at in zip(held, grown, strict=True):
        known[cell] = OPEN if old[at][2] == OPEN else CHANGED
    firsts, lasts = pieces.firsts[whole].tolist(), pieces.lasts[whole].tolist()
    return list(zip(firsts, lasts, known, folding.folded(found, rows.numbers), strict=True))


def note_replaced(
    replaced: list[Replaced], window: str, before: Iterable[Session], now: Iterable[Session] = ()
) -> None:
    """Note the sessions of a window that were emitted, and are not among those now; by windows, then by first rows."""
    stay = {one[0] for one in now if one[2] == TOLD}
    for first, last, known, partial in before:
        if known == TOLD and first not in stay:
            insort(replaced, (window, first, last, partial), key=itemgetter(0, 1))


def taken_back(replaced: Sequence[Replaced], sessions: Mapping[str, Sequence[Session]]) -> Iterator[Replaced]:
    """Find sessions that were emitted, and whose bounds are those of none now; others are only emitted anew."""
    bounds = {window: {one[:2] for one in sessions.get(window, ())} for window in {one[0] for one in replaced}}
    return (one for one in replaced if one[1:3] not in bounds[one[0]])


def sessions_over(sessions: list[Session], gap: int, until: int) -> Iterator[Session]:
    """Return the sessions that are over at a time and are not emitted as they are now; they are emitted then."""
    for place, one in enumerate(sessions):
        first, last, known, partial = one
        if known != TOLD and last + gap <= until:
            sessions[place] = first, last, TOLD, partial
            yield one
