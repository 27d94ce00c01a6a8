"""The store on demand: slices in a circular array, combined when a window asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.stores.counters import Counters

CAPACITY_MIN = 4


class OnDemandStore:
    """Adds and purges in constant time, and pays for each lookup with a combination per slice."""

    def __init__(self, aggregate: Aggregate, counters: Counters) -> None:
        self._aggregate = aggregate
        self._counters = counters
        self._ids = [0] * CAPACITY_MIN
        self._partials: list[Any] = [aggregate.identity] * CAPACITY_MIN
        self._place: dict[int, int] = {}
        self._head = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, slice_id: int, partial: Any) -> None:
        """Append a slice."""
        if self._size == len(self._ids):
            self._resize(2 * self._size)
        place = (self._head + self._size) % len(self._ids)
        self._ids[place] = slice_id
        self._partials[place] = partial
        self._place[slice_id] = place
        self._size += 1

    def lookup(self, after: int) -> Any:
        """Combine the slices with ids above `after`."""
        capacity = len(self._ids)
        # An id that is not here was purged, or never added: then every slice comes after it.
        skipped = (self._place[after] - self._head) % capacity + 1 if after in self._place else 0
        if skipped == self._size:
            return self._aggregate.identity
        combine = self._aggregate.combine
        begin = (self._head + skipped) % capacity
        total = self._partials[begin]
        for step in range(1, self._size - skipped):
            total = combine(total, self._partials[(begin + step) % capacity])
        self._counters.merge_calls += self._size - skipped - 1
        return total

    def purge(self, through: int) -> None:
        """Forget the slices with ids up to `through`."""
        while self._size and self._ids[self._head] <= through:
            del self._place[self._ids[self._head]]
            self._partials[self._head] = self._aggregate.identity
            self._head = (self._head + 1) % len(self._ids)
            self._size -= 1
        if len(self._ids) > CAPACITY_MIN and 3 * self._size <= len(self._ids):
            self._resize(len(self._ids) // 2)

    def merge(self, ends: Sequence[int]) -> None:
        """Let each of these slices be one with the slice after it."""
        self._counters.update_calls += len(ends)
        self._take(list(merged_slices(self.slices(), ends, self._aggregate.combine)), len(self._ids))

    def slices(self) -> Iterator[tuple[int, Any]]:
        """All slices in order."""
        for step in range(self._size):
            place = (self._head + step) % len(self._ids)
            yield self._ids[place], self._partials[place]

    def layout(self) -> list[int]:
        """Slices are combined from the oldest to the newest, wherever they lie."""
        return []

    def arrange(self, slices: Sequence[tuple[int, Any]], layout: Sequence[int]) -> None:  # noqa: ARG002
        """Take up slices."""
        for slice_id, partial in slices:
            self.add(slice_id, partial)

    def _resize(self, capacity: int) -> None:
        self._take(list(self.slices()), capacity)

    def _take(self, held: list[tuple[int, Any]], capacity: int) -> None:
        free = capacity - len(held)
        self._ids = [slice_id for slice_id, _ in held] + [0] * free
        self._partials = [partial for _, partial in held] + [self._aggregate.identity] * free
        self._place = {slice_id: place for place, (slice_id, _) in enumerate(held)}
        self._head = 0
        self._size = len(held)


def merged_slices(
    slices: Iterable[tuple[int, Any]], ends: Sequence[int], combine: Callable[[Any, Any], Any]
) -> Iterator[tuple[int, Any]]:
    """The slices, those whose ids are in `ends` combined with their followers."""
    gone = set(ends)
    waiting: list[Any] = []
    for slice_id, partial in slices:
        whole = combine(waiting.pop(), partial) if waiting else partial
        if slice_id in gone:
            waiting.append(whole)
        else:
            yield slice_id, whole
