"""Where slices wait until their windows end: three stores of one interface, and the rule that chooses.

A slice's id is the number of the record before which it ends; ids grow. `lookup(after)` combines, in order, the slices
whose ids are above `after`; `purge(through)` forgets those up to an id.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from millpond.errors import WindowError
from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.stores.counters import Counters
from millpond.windowing.stores.flatfat import FlatFat
from millpond.windowing.stores.ondemandstore import OnDemandStore
from millpond.windowing.stores.prefixes import PrefixStore

AUTO = "auto"
ON_DEMAND = "on_demand"
EAGER = "eager"
PREFIX = "prefix"
CHOICES = (AUTO, ON_DEMAND, EAGER, PREFIX)

_EXPORTED = {ON_DEMAND: "lazy"}
"""Kinds whose name in exported state is another one: checkpoints hold it."""


class Store(Protocol):
    """Keeps slices in order."""

    def __len__(self) -> int: ...

    def add(self, slice_id: int, partial: Any) -> None:
        """Append a slice; its id is above all others."""
        ...

    def lookup(self, after: int) -> Any:
        """Combine the slices with ids above `after`; the identity if there is none."""
        ...

    def purge(self, through: int) -> None:
        """Forget the slices with ids up to `through`."""
        ...

    def merge(self, ends: Sequence[int]) -> None:
        """Let each of these slices be one with the slice after it; none is the newest."""
        ...

    def slices(self) -> Iterator[tuple[int, Any]]:
        """All slices in order."""
        ...

    def layout(self) -> list[int]:
        """How the slices lie, as far as it decides in which order they are combined."""
        ...

    def arrange(self, slices: Sequence[tuple[int, Any]], layout: Sequence[int]) -> None:
        """Take up slices that another store kept; with its layout, if it was of the same kind."""
        ...


def make_store(kind: str, aggregate: Aggregate, counters: Counters) -> Store:
    """Make an empty store of a kind."""
    if kind == ON_DEMAND:
        return OnDemandStore(aggregate, counters)
    if kind == EAGER:
        return FlatFat(aggregate, counters)
    if kind == PREFIX and aggregate.inverse is not None:
        return PrefixStore(aggregate, counters)
    if kind == PREFIX:
        raise WindowError(
            "MP616",
            "this aggregate has no inverse, so sums of prefixes do not help",
            expected="an aggregate that is declared invertible",
            found=aggregate.name,
            hint="choose another store, or declare the inverse: `sum_of(..., integers=True)`",
        )
    raise WindowError(
        "MP615",
        "there is no such store of slices",
        expected=", ".join(CHOICES),
        found=repr(kind)[:60],
    )


def exported_kind(kind: str) -> str:
    """The name of a kind of store in exported state."""
    return _EXPORTED.get(kind, kind)


def kind_exported(name: str) -> str:
    """The kind of store that a name in exported state stands for."""
    return next((kind for kind, exported in _EXPORTED.items() if exported == name), name)


def choose_store(aggregate: Aggregate, live_slices: float, lookups_per_slice: float) -> str:
    """Choose the store that needs the fewest combinations per slice that is added.

    With n slices kept, the store on demand pays n per lookup. The eager one pays log n to add a slice, about as much to
    purge it, and up to 2 log n per lookup. With an inverse, one to add and one per lookup do, whatever n is.
    """
    if aggregate.inverse is not None:
        return PREFIX
    depth = math.log2(max(live_slices, 2.0))
    asked = lookups_per_slice * live_slices
    eager = 2 * depth + lookups_per_slice * min(2 * depth, live_slices)
    return EAGER if eager < asked else ON_DEMAND
