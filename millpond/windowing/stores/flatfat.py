"""The eager store: a binary tree over the slices in one flat, circular array (FlatFAT).

Leaves are the last half of the array and are filled round and round; an inner node combines its two children in the
order of their places. Slices that wrap around the end are older on the right, so a lookup combines the places up to the
end before those from the beginning. Free leaves hold the identity, and the identity is never combined with anything.

>>> from millpond.windowing import collect
>>> tree = FlatFat(collect(), Counters())
>>> for slice_id, letter in enumerate("abcdef"):
...     tree.add(slice_id, (letter,))
>>> tree.lookup(after=2)
('d', 'e', 'f')
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.stores.counters import Counters

CAPACITY_MIN = 4


class FlatFat:
    """Pays log n combinations to add a slice and at most 2 log n for a lookup.

    The number of leaves doubles when a slice finds no room, and is halved when a purge leaves a third of them or less.
    A slice that was merged into its follower leaves a free leaf behind until the tree is made anew.
    """

    def __init__(self, aggregate: Aggregate, counters: Counters) -> None:
        self._aggregate = aggregate
        self._identity = aggregate.identity
        self._counters = counters
        self._capacity = CAPACITY_MIN
        self._tree: list[Any] = [self._identity] * (2 * CAPACITY_MIN)
        self._ids = [0] * CAPACITY_MIN
        self._place: dict[int, int] = {}
        self._head = 0
        self._size = 0  # Leaves between head and tail, those of merged slices included.

    def __len__(self) -> int:
        return len(self._place)

    def add(self, slice_id: int, partial: Any) -> None:
        """Append a slice, and bring its ancestors up to date."""
        if self._size == self._capacity:
            # Free leaves in between make room, if a tree of this size would not be full again at once.
            self._resize(self._capacity * (1 if 4 * len(self._place) <= 3 * self._capacity else 2))
        place = (self._head + self._size) % self._capacity
        self._ids[place] = slice_id
        self._place[slice_id] = place
        self._size += 1
        node = place + self._capacity
        self._tree[node] = partial
        while node > 1:
            node //= 2
            self._renew(node)

    def lookup(self, after: int) -> Any:
        """Combine the slices with ids above `after`, in their order."""
        # An id that is not here was purged, or never added: then every slice comes after it.
        skipped = (self._place[after] - self._head) % self._capacity + 1 if after in self._place else 0
        count = self._size - skipped
        if not count:
            return self._identity
        begin = (self._head + skipped) % self._capacity
        end = begin + count
        if end <= self._capacity:
            # Free leaves follow: those up to the end, or up to the head if slices wrapped around and all begin later.
            free = self._capacity if self._head <= begin else self._head
            return self._between(begin, self._far_end(end, free))
        if not skipped and self._aggregate.commutative:
            return self._tree[1]
        return self._merge(
            self._between(begin, self._capacity), self._between(0, self._far_end(end - self._capacity, self._head))
        )

    def purge(self, through: int) -> None:
        """Forget the slices with ids up to `through`; their leaves become identities, each ancestor is renewed once."""
        stale: set[int] = set()
        while self._size and self._ids[self._head] <= through:
            self._place.pop(self._ids[self._head], None)
            node = self._head + self._capacity
            self._tree[node] = self._identity
            stale.add(node // 2)
            self._head = (self._head + 1) % self._capacity
            self._size -= 1
        if self._capacity > CAPACITY_MIN and 3 * len(self._place) <= self._capacity:
            self._resize(self._capacity // 2)
            return
        self._renew_above(stale)

    def merge(self, ends: Sequence[int]) -> None:
        """Let each of these slices be one with the slice after it; each ancestor is renewed once."""
        gone = set(ends)
        waiting = self._identity
        stale: set[int] = set()
        for step in range(self._size):
            place = (self._head + step) % self._capacity
            slice_id, node = self._ids[place], self._capacity + place
            if slice_id in gone:
                waiting = self._update(waiting, self._tree[node])
                self._tree[node] = self._identity
                del self._place[slice_id]
                stale.add(node // 2)
            elif waiting is not self._identity and slice_id in self._place:
                self._tree[node] = self._update(waiting, self._tree[node])
                waiting = self._identity
                stale.add(node // 2)
        self._renew_above(stale)

    def slices(self) -> Iterator[tuple[int, Any]]:
        """Return all slices in order."""
        for step in range(self._size):
            place = (self._head + step) % self._capacity
            if self._ids[place] in self._place:
                yield self._ids[place], self._tree[self._capacity + place]

    def layout(self) -> list[int]:
        """Return the number of leaves, the first and the number of those in use, and the slices' places."""
        return [self._capacity, self._head, self._size, *self._place.values()]

    def arrange(self, slices: Sequence[tuple[int, Any]], layout: Sequence[int]) -> None:
        """Take up slices; in the places they had, so that they are combined in the same order."""
        if not layout:
            for slice_id, partial in slices:
                self.add(slice_id, partial)
            return
        self._capacity, self._head, self._size = layout[:3]
        self._tree = [self._identity] * (2 * self._capacity)
        self._ids = [0] * self._capacity
        for (slice_id, partial), place in zip(slices, layout[3:], strict=True):
            self._ids[place] = slice_id
            self._place[slice_id] = place
            self._tree[self._capacity + place] = partial
        for node in range(self._capacity - 1, 0, -1):
            self._renew(node)

    def _renew(self, node: int) -> None:
        self._tree[node] = self._update(self._tree[2 * node], self._tree[2 * node + 1])

    def _renew_above(self, stale: set[int]) -> None:
        while stale:
            for node in stale:
                self._renew(node)
            stale = {node // 2 for node in stale if node > 1}

    def _update(self, left: Any, right: Any) -> Any:
        if left is self._identity:
            return right
        if right is self._identity:
            return left
        self._counters.update_calls += 1
        return self._aggregate.combine(left, right)

    def _between(self, begin: int, end: int) -> Any:
        """Combine the leaves of the places from `begin` up to, not including, `end`: bottom up, two nodes per level."""
        left, right = self._identity, self._identity
        low, high = begin + self._capacity, end + self._capacity
        while low < high:
            if low & 1:
                left = self._merge(left, self._tree[low])
                low += 1
            if high & 1:
                high -= 1
                right = self._merge(self._tree[high], right)
            low //= 2
            high //= 2
        return self._merge(left, right)

    def _far_end(self, end: int, free: int) -> int:
        """Find where a lookup may end as well: up to `free` are identities, and a round number ends fewest nodes."""
        return _roundest(end, free)

    def _merge(self, left: Any, right: Any) -> Any:
        if left is self._identity:
            return right
        if right is self._identity:
            return left
        self._counters.merge_calls += 1
        return self._aggregate.combine(left, right)

    def _resize(self, capacity: int) -> None:
        held = list(self.slices())
        free = capacity - len(held)
        self._capacity = capacity
        self._ids = [slice_id for slice_id, _ in held] + [0] * free
        self._place = {slice_id: place for place, (slice_id, _) in enumerate(held)}
        self._head = 0
        self._size = len(held)
        self._tree = [self._identity] * capacity + [partial for _, partial in held] + [self._identity] * free
        for node in range(capacity - 1, 0, -1):
            self._renew(node)


def _roundest(low: int, high: int) -> int:
    """Return the number between two, both included, that the largest power of two divides."""
    step = 1
    while step <= high and -(-low // (2 * step)) * 2 * step <= high:
        step *= 2
    return -(-low // step) * step
