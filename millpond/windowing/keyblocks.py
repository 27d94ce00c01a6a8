"""The windows of one key that are told together, from its slices, in blocks as long as a window.

A block begins with every window whose number is a multiple of how many slices a window has. So one block begins in each
window: what lies before that is combined from the last slice back to the first, what lies behind it from the first to
the last, and then both (van Herk, Gil and Werman). Windows that meet in one block share these sums: they cost one
combination each, whatever their overlap. Blocks follow from the grid alone, so a window has the same value, to the last
bit of a float, whether it is told alone or with others, again, or after a restart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from operator import add
from typing import Any, NamedTuple

from millpond.windowing.aggregates import Aggregate
from millpond.windowing.grids import SlicedGrid


class Spot(NamedTuple):
    """A window that has rows: its number and bounds, and which slices are in it, from `first` up to `last`."""

    number: int
    begin: int
    end: int
    first: int
    last: int


def spots_over(grid: SlicedGrid, begins: Sequence[int], low: int, high: int, until: int) -> Iterator[Spot]:
    """The windows from number `low` to `high` that have rows and are over at a time; `begins` are of the slices."""
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
    """The partials of windows, which come in the order of their numbers."""
    reach = grid.whole + grid.rest
    for block, together in groupby(spots, key=lambda spot: -(-spot.number // reach)):
        group = list(together)
        low, high = group[0].first, group[-1].last
        middle = bisect_left(begins, grid.begin(block * reach), low)
        back = _combined_back(partials[low:middle], aggregate)
        ahead = _combined(partials[middle:high], aggregate)
        for spot in group:
            if spot.first >= middle:
                yield spot, ahead[spot.last - middle - 1]
            elif spot.last <= middle:
                yield spot, back[spot.first - low]
            else:
                yield spot, aggregate.combine(back[spot.first - low], ahead[spot.last - middle - 1])


def _combined(partials: Sequence[Any], aggregate: Aggregate) -> list[Any]:
    """Each slice combined with those before it."""
    return _running(partials, aggregate, lambda combine: combine)


def _combined_back(partials: Sequence[Any], aggregate: Aggregate) -> list[Any]:
    """Each slice combined with those behind it."""
    return _running(partials[::-1], aggregate, _swapped)[::-1]


def _running(
    partials: Sequence[Any], aggregate: Aggregate, way: Callable[[Callable[[Any, Any], Any]], Callable[[Any, Any], Any]]
) -> list[Any]:
    if len(partials) < 2:
        return list(partials)
    if not aggregate.parts:
        return list(accumulate(partials, way(aggregate.combine)))
    # Part by part, so that sums are added up without a call of Python for each slice.
    columns = zip(zip(*partials, strict=True), aggregate.parts, strict=True)
    return list(zip(*(accumulate(column, way(part.combine)) for column, (_, part) in columns), strict=True))


def _swapped(combine: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Combine where the later partial comes first; of two numbers it can't be seen which was added to which."""
    return combine if combine is add else lambda later, earlier: combine(earlier, later)
