"""Rows of many keys, added to the slices of their keys by columns: what is held then is as if they came one by one.

That is so to the last bit, and to the types of numbers: a sum of floats goes on from what a slice holds, row by row in
the order of arrival. Integers whose sum might not fit 64 bits, NaN and infinity, negative zeros among which one is to
be chosen, times that are far off, and numbers of another type than a slice holds are left to `KeySlices.add`, which
defines it all.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from millpond.windowing.aggregates import Aggregate
from millpond.windowing.columnar import Array, CountForm, ExtremeForm, MeanForm, SumForm
from millpond.windowing.cuts import FAR_US, NEVER_US, Cuts

Ints = npt.NDArray[np.int64]

Columns = Mapping[str | None, Array]
"""Values by the names of their columns; without a name, if they are the records themselves."""

Keyed = tuple[int | None, tuple[Any, ...]]
"""The moment at which a key has something to tell, and what it holds: see `keyslices.Slices`."""

_FORMS: Final = (CountForm, SumForm, MeanForm, ExtremeForm)
"""What gives the same bits by columns. Moments of a variance are combined row by row."""


class _OneByOneError(Exception):
    """These rows must be taken one by one."""


@dataclass(frozen=True, slots=True)
class _Cells:
    """The slices of keys that rows lie in, sorted by key and begin.

    `of_rows` is the cell of each row, `rows` how many a cell has. `order` are the rows by their cells, and those of a
    cell begin there at `first`. `old` are the cells whose slices held something before, which are `partials`.
    """

    of_rows: Ints
    rows: Ints
    order: Ints
    first: Ints
    old: list[int]
    partials: list[Any]


class _Stretch(NamedTuple):
    """The cells of one key, from `first` up to `last`; `known` are its slices from place `low` up to `high`.

    No other slice lies between these cells.
    """

    first: int
    last: int
    low: int
    high: int
    known: Mapping[int, Any]


class KeyColumns:
    """The rules by which columns of rows change the slices of their keys; `cuts` says which slices there are."""

    def __init__(self, cuts: Cuts, lateness: int, aggregate: Aggregate) -> None:
        self._cuts = cuts
        self._lateness = lateness
        self._parts = [part for _, part in aggregate.parts]
        known = bool(self._parts) and all(type(part.columns) in _FORMS for part in self._parts)
        self._known = known and lateness < FAR_US

    def add(self, keyed: Sequence[Keyed], places: Ints, times: Ints, columns: Columns) -> list[int | None] | None:
        """Take rows in, each into the key at its place; the moments of the keys then.

        None if rows must be taken one by one; nothing is changed then.
        """
        try:
            return self._add(keyed, places, times, columns) if self._known else None
        except _OneByOneError:
            return None

    def _add(self, keyed: Sequence[Keyed], places: Ints, times: Ints, columns: Columns) -> list[int | None]:
        untils = _untils(keyed)
        if untils is not None:
            # As with one row: what is before that can't be told any more.
            times = np.maximum(times, (untils - self._lateness)[places])
        cut = self._cuts.columns(times)
        if cut is None:
            raise _OneByOneError
        begins, ends = cut
        inside = np.flatnonzero(ends < NEVER_US)
        if len(inside) < len(times):
            places, begins, ends = places[inside], begins[inside], ends[inside]
            columns = {name: values[inside] for name, values in columns.items()}
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
        cells = _Cells(of_rows, np.diff(np.append(first, len(order))), order, first, old, before)
        by_part = (_partials(part, place, cells, columns) for place, part in enumerate(self._parts))
        partials = list(zip(*by_part, strict=True))
        for (_, held), one in zip(keyed, stretches, strict=True):
            fresh = zip(points[one.first : one.last], partials[one.first : one.last], strict=True)
            held[1][one.low : one.high] = sorted({**one.known, **dict(fresh)}.items()) if one.known else fresh
        if untils is not None:
            for at in np.flatnonzero(ends <= untils[places]).tolist():
                _note_late(keyed[places[at]], points[at], stretches[places[at]].known)
        return _moments(keyed, stretches, ends)


def _untils(keyed: Sequence[Keyed]) -> Ints | None:
    """Up to when windows of keys were told; None if none were."""
    untils = [held[0] for _, held in keyed]
    told = [until for until in untils if until is not None]
    if not told:
        return None
    if max(told) > FAR_US or min(told) < -FAR_US:
        raise _OneByOneError
    return np.array([-FAR_US if until is None else until for until in untils], np.int64)


def _note_late(keyed: Keyed, begin: int, known: Mapping[int, Any]) -> None:
    """Note a slice of told windows that changed, and whether it began with that."""
    _, (_, _, late, _) = keyed
    if not marks(late, begin):
        insort(late, (begin, begin not in known))


def marks(marked: Sequence[tuple[int, Any]], begin: int) -> bool:
    """Whether a slice is among some, which are sorted by their begins."""
    place = bisect_left(marked, (begin,))
    return place < len(marked) and marked[place][0] == begin


def _stretches(keyed: Sequence[Keyed], places: Ints, points: Sequence[int]) -> Iterator[_Stretch]:
    """The cells of each key, and what it holds there."""
    bounds = np.searchsorted(places, np.arange(len(keyed) + 1)).tolist()
    for (_, held), (first, last) in zip(keyed, pairwise(bounds), strict=True):
        slices = held[1]
        if first == last:
            yield _Stretch(first, last, 0, 0, {})
            continue
        low = bisect_left(slices, (points[first],))
        high = low if low == len(slices) else bisect_left(slices, (points[last - 1] + 1,), low)
        yield _Stretch(first, last, low, high, dict(slices[low:high]) if low < high else {})


def _moments(keyed: Sequence[Keyed], stretches: Sequence[_Stretch], ends: Ints) -> list[int | None]:
    """When keys have something to tell: not later than the end of the first window that has a new row."""
    moments = [moment for moment, _ in keyed]
    touched = [place for place, one in enumerate(stretches) if one.first < one.last]
    if touched:
        soonest = np.minimum.reduceat(ends, [stretches[place].first for place in touched]).tolist()
        for place, end in zip(touched, soonest, strict=True):
            moment = moments[place]
            moments[place] = end if moment is None or end < moment else moment
    return moments


# --- partials of aggregates


def _partials(part: Aggregate, place: int, cells: _Cells, columns: Columns) -> Iterable[Any]:
    """What cells hold of the aggregate at a place, after their rows."""
    before = [partial[place] for partial in cells.partials]
    form = part.columns
    if isinstance(form, CountForm):
        return _counts(cells, before)
    assert isinstance(form, SumForm | ExtremeForm)
    values = _values(part, form.column, columns)
    if not len(values):
        return ()
    if isinstance(form, MeanForm):
        counts = _counts(cells, [count for count, _ in before])
        return zip(counts, _sums(cells, values, [total for _, total in before]), strict=True)
    if isinstance(form, SumForm):
        return _sums(cells, values, before)
    return zip(_extremes(cells, values, [value for (value,) in before], largest=form.largest), strict=True)


def _values(part: Aggregate, column: str | None, columns: Columns) -> Array:
    """The numbers that an aggregate reads."""
    values = columns.get(column) if column is not None or part.itself else None
    if values is None or values.dtype.kind not in "if":
        raise _OneByOneError
    return values.astype(np.int64 if values.dtype.kind == "i" else np.float64, copy=False)


def _counts(cells: _Cells, before: list[int]) -> list[int]:
    counts = cells.rows.copy()
    counts[cells.old] += _as_held(before, counts)
    found: list[int] = counts.tolist()
    return found


def _sums(cells: _Cells, values: Array, before: list[Any]) -> list[Any]:
    """Sums that go on from what was held, row by row."""
    held = _as_held(before, values)
    whole = values.dtype.kind == "i"
    if whole and _largest(held) + len(values) * _largest(values) >= 2**63:
        raise _OneByOneError
    # Added to the negative zero, every float stays as it is, the negative zero too.
    sums = np.full(len(cells.first), 0 if whole else -0.0, values.dtype)
    sums[cells.old] = held
    with np.errstate(over="ignore", invalid="ignore"):
        np.add.at(sums, cells.of_rows, values)
    if not np.isfinite(sums).all():
        raise _OneByOneError
    found: list[Any] = sums.tolist()
    return found


def _extremes(cells: _Cells, values: Array, before: list[Any], *, largest: bool) -> list[Any]:
    """The smallest or largest numbers; of equal ones it can't be seen which it is."""
    held = _as_held(before, values)
    for numbers in (values, held):
        if numbers.dtype.kind == "f" and not (np.isfinite(numbers) & ~(np.signbit(numbers) & (numbers == 0))).all():
            raise _OneByOneError
    choose = np.maximum if largest else np.minimum
    chosen = choose.reduceat(values[cells.order], cells.first)
    chosen[cells.old] = choose(chosen[cells.old], held)
    found: list[Any] = chosen.tolist()
    return found


def _as_held(before: list[Any], values: Array) -> Array:
    """Numbers that were held, as those of a column to which they are added; they must be of its type."""
    if not {int if values.dtype.kind == "i" else float}.issuperset(map(type, before)):
        raise _OneByOneError
    try:
        return np.array(before, values.dtype)
    except OverflowError:
        raise _OneByOneError from None


def _largest(values: Array) -> int:
    return max(abs(int(values.max())), abs(int(values.min()))) if len(values) else 0
