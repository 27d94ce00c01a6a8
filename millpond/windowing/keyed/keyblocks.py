"""The windows of one key that are emitted together, from its slices, in blocks as long as a window.

A block begins with every window whose number is a multiple of how many slices a window has. So one block begins in each
window: what lies before that is combined from the last slice back to the first, what lies behind it from the first to
the last, and then both (van Herk, Gil and Werman). Windows that meet in one block share these sums: they cost one
combination each, whatever their overlap. Blocks follow from the grid alone, so a window has the same value, to the last
bit of a float, whether it is emitted alone or with others, again, or after a restart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from operator import add
from typing import Any, NamedTuple

from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.kinds.grids import SlicedGrid

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
