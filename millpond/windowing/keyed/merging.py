"""Slices of one key that no open window tells apart any more become one.

A long window beside short ones would keep the slices of all short ones that are over. They are merged, but only where
no window can have other bits by that. Floats are added in the order that `keyblocks` says, whatever was merged when: so
sums of floats are merged only at the front of windows that do not overlap, where slices are added from the first to the
last in any case. Aggregates that declare partials without floats, and extremes, are merged wherever it may be.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from itertools import pairwise
from types import NoneType
from typing import Any, Final, get_args

import numpy as np

from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.kinds.cuts import Cuts
from millpond.windowing.kinds.grids import Ints, SlicedGrid

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
