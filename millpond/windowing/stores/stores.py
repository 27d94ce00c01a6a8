"""Where slices wait until their windows end: three stores of one interface, and the rule that chooses.

A slice's id is the number of the record before which it ends; ids grow. `lookup(after)` combines, in order, the slices
whose ids are above `after`; `purge(through)` forgets those up to an id.

>>> from millpond.windowing import sum_of
>>> store = make_store(ON_DEMAND, sum_of(), Counters())
>>> for slice_id, partial in ((1, 10), (2, 20), (3, 30)):
...     store.add(slice_id, partial)
>>> store.lookup(after=1)
50
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import Any, Protocol

from millpond.errors import WindowError
from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.stores.counters import Counters
from millpond.windowing.stores.flatfat import FlatFat

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
        """Return all slices in order."""
        ...

    def layout(self) -> list[int]:
        """Return how the slices lie, as far as it decides in which order they are combined."""
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
    """Return the name of a kind of store in exported state."""
    return _EXPORTED.get(kind, kind)


def kind_exported(name: str) -> str:
    """Return the kind of store that a name in exported state stands for."""
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


class OnDemandStore:
    """Adds in constant time, and pays for each lookup with a combination per slice."""

    def __init__(self, aggregate: Aggregate, counters: Counters) -> None:
        self._aggregate = aggregate
        self._counters = counters
        self._ids: list[int] = []
        self._partials: list[Any] = []

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, slice_id: int, partial: Any) -> None:
        """Append a slice."""
        self._ids.append(slice_id)
        self._partials.append(partial)

    def lookup(self, after: int) -> Any:
        """Combine the slices with ids above `after`."""
        wanted = self._partials[bisect_right(self._ids, after) :]
        if not wanted:
            return self._aggregate.identity
        self._counters.merge_calls += len(wanted) - 1
        return reduce(self._aggregate.combine, wanted)

    def purge(self, through: int) -> None:
        """Forget the slices with ids up to `through`."""
        gone = bisect_right(self._ids, through)
        del self._ids[:gone], self._partials[:gone]

    def merge(self, ends: Sequence[int]) -> None:
        """Let each of these slices be one with the slice after it."""
        self._counters.update_calls += len(ends)
        held = list(merged_slices(self.slices(), ends, self._aggregate.combine))
        self._ids, self._partials = [slice_id for slice_id, _ in held], [partial for _, partial in held]

    def slices(self) -> Iterator[tuple[int, Any]]:
        """Return all slices in order."""
        return zip(self._ids, self._partials, strict=True)

    def layout(self) -> list[int]:
        """Nothing to note: slices are combined from the oldest to the newest."""
        return []

    def arrange(self, slices: Sequence[tuple[int, Any]], layout: Sequence[int]) -> None:  # noqa: ARG002
        """Take up slices."""
        for slice_id, partial in slices:
            self.add(slice_id, partial)


def merged_slices(
    slices: Iterable[tuple[int, Any]], ends: Sequence[int], combine: Callable[[Any, Any], Any]
) -> Iterator[tuple[int, Any]]:
    """Return the slices, those whose ids are in `ends` combined with their followers."""
    gone = set(ends)
    waiting: list[Any] = []
    for slice_id, partial in slices:
        whole = combine(waiting.pop(), partial) if waiting else partial
        if slice_id in gone:
            waiting.append(whole)
        else:
            yield slice_id, whole


class PrefixStore:
    """Keeps with each slice the total of all slices up to it; taking an older total out gives what came between.

    The total goes on growing when slices are purged, and begins anew when none is left.
    """

    def __init__(self, aggregate: Aggregate, counters: Counters) -> None:
        assert aggregate.inverse is not None
        self._aggregate = aggregate
        self._inverse = aggregate.inverse
        self._counters = counters
        self._ids: deque[int] = deque()
        self._slices: dict[int, tuple[Any, Any]] = {}
        self._purged = aggregate.identity
        self._total = aggregate.identity

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, slice_id: int, partial: Any) -> None:
        """Append a slice."""
        if self._ids:
            self._counters.update_calls += 1
            self._total = self._aggregate.combine(self._total, partial)
        else:
            self._purged = self._aggregate.identity
            self._total = partial
        self._ids.append(slice_id)
        self._slices[slice_id] = (partial, self._total)

    def lookup(self, after: int) -> Any:
        """Take what is older out of the total."""
        if not self._ids:
            return self._aggregate.identity
        older = self._slices[after][1] if after in self._slices else self._purged
        if older is self._aggregate.identity:
            return self._total
        self._counters.merge_calls += 1
        return self._inverse(self._total, older)

    def purge(self, through: int) -> None:
        """Forget the slices with ids up to `through`."""
        while self._ids and self._ids[0] <= through:
            self._purged = self._slices.pop(self._ids.popleft())[1]

    def merge(self, ends: Sequence[int]) -> None:
        """Let each of these slices be one with the slice after it; the totals up to the others stay as they are."""
        self._counters.update_calls += len(ends)
        held = list(merged_slices(self.slices(), ends, self._aggregate.combine))
        self._slices = {slice_id: (partial, self._slices[slice_id][1]) for slice_id, partial in held}
        self._ids = deque(self._slices)

    def layout(self) -> list[int]:
        """Nothing to note: the order of combining can't be seen where there is an inverse."""
        return []

    def arrange(self, slices: Sequence[tuple[int, Any]], layout: Sequence[int]) -> None:  # noqa: ARG002
        """Take up slices."""
        for slice_id, partial in slices:
            self.add(slice_id, partial)

    def slices(self) -> Iterator[tuple[int, Any]]:
        """Return all slices in order."""
        for slice_id in self._ids:
            yield slice_id, self._slices[slice_id][0]
