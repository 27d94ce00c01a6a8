"""Slices of one key that no open window tells apart any more become one.

A long window beside short ones would keep the slices of all short ones that are over. They are merged, but only where
no window can have other bits by that. Floats are added in the order that `keyblocks` says, whatever was merged when: so
sums of floats are merged only at the front of windows that do not overlap, where slices are added from the first to the
last in any case. What has no floats in it is merged wherever it may be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, Final

import numpy as np

from millpond.windowing.aggregates import Aggregate
from millpond.windowing.columnar import ExtremeForm
from millpond.windowing.cuts import Cuts
from millpond.windowing.grids import Ints, SlicedGrid

_WHOLE: Final = (bool, int, str, bytes, type(None))

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
        # Otherwise every slice begins with a window that is open for as long as the slice is kept.
        self._some = len(self._grids) > 1 or any(grid.rest for grid, _ in self._grids)

    def merged(self, slices: list[Slice], final: int) -> list[Slice]:
        """The slices that are left of some, if windows that end at a time or before are never told again.

        All these slices lie in windows that end later. No row will happen before that time.
        """
        if not self._some or len(slices) < 2 or slices[1][0] >= (running := self._cuts.last(final)):
            return slices
        begins = np.array([begin for begin, _ in slices if begin < running], np.int64)
        if not self._cuts.near(np.append(begins, final)):
            return slices
        told_apart = self._told_apart(begins, final)
        if told_apart.all():
            return slices
        edges = [*np.flatnonzero(told_apart).tolist(), len(begins)]
        ahead = self._added_ahead(begins, final)
        found: list[Slice] = []
        for low, high in pairwise(edges):
            together = slices[low:high]
            if len(together) > 1 and (ahead[low] or self._whole(together)):
                partials = [partial for _, partial in together]
                together = [(together[0][0], reduce(self._aggregate.combine, partials))]
            found += together
        return found + slices[len(begins) :]

    def _told_apart(self, begins: Ints, final: int) -> Any:
        """Whether some open window begins after the slice before, and not after this one."""
        found = np.zeros(len(begins), np.bool_)
        found[0] = True
        for grid, first in self._grids:
            newest, _ = grid.slices(begins)
            is_open = _from(newest, first) & (grid.ends(newest) > final)
            found[1:] |= (is_open & (grid.begins(newest) > np.roll(begins, 1)))[1:]
        return found

    def _added_ahead(self, begins: Ints, final: int) -> Any:
        """Whether in all open windows that hold it a slice is the first, to which the others are added."""
        found = np.ones(len(begins), np.bool_)
        for grid, first in self._grids:
            newest, _ = grid.slices(begins)
            holds = _from(newest, first) & (grid.ends(newest) > np.maximum(begins, final))
            leads = grid.begins(newest) > np.roll(begins, 1)
            leads[0] = True
            found &= ~holds | (leads if grid.whole + grid.rest == 1 else False)
        return found

    def _whole(self, slices: Sequence[Slice]) -> bool:
        """Whether partials can be combined in any order without a difference."""
        parts = self._aggregate.parts
        if not parts:
            return all(_exact(self._aggregate, partial) for _, partial in slices)
        return all(_exact(part, one) for _, several in slices for (_, part), one in zip(parts, several, strict=True))


def _from(numbers: Ints, first: int | None) -> Any:
    return np.ones(len(numbers), np.bool_) if first is None else numbers >= first


def _exact(part: Aggregate, partial: Any) -> bool:
    """Whether the way in which such partials are combined can't be seen; of two zeros, one may be the negative one."""
    if isinstance(part.columns, ExtremeForm):
        return not any(isinstance(value, float) and (math.isnan(value) or value == 0) for value in partial)
    return _is_whole(partial)


def _is_whole(value: Any) -> bool:
    """Whether there is nothing in a value but what is combined without rounding."""
    if isinstance(value, tuple | list | set | frozenset):
        return all(map(_is_whole, value))
    if isinstance(value, dict):
        return all(map(_is_whole, value.items()))
    return type(value) in _WHOLE
