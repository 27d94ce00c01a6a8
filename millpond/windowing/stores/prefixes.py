"""The store of invertible aggregates: totals of prefixes, so that a lookup is one subtraction."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from millpond.windowing.aggregates.aggregates import Aggregate
from millpond.windowing.stores.counters import Counters
from millpond.windowing.stores.ondemandstore import merged_slices


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
        """The order of combining can't be seen where there is an inverse."""
        return []

    def arrange(self, slices: Sequence[tuple[int, Any]], layout: Sequence[int]) -> None:  # noqa: ARG002
        """Take up slices."""
        for slice_id, partial in slices:
            self.add(slice_id, partial)

    def slices(self) -> Iterator[tuple[int, Any]]:
        """All slices in order."""
        for slice_id in self._ids:
            yield slice_id, self._slices[slice_id][0]
