"""FlatFAT as it was published: every ancestor of a leaf that changes is combined anew, identities included."""

from __future__ import annotations

from typing import Any

from millpond.windowing.stores.flatfat import FlatFat


class PlainFlatFat(FlatFat):
    """The tree without our savings: free leaves are combined like others, and lookups end where the slices do."""

    def _update(self, left: Any, right: Any) -> Any:
        self._counters.update_calls += 1
        return self._aggregate.combine(left, right)

    def _far_end(self, end: int, free: int) -> int:  # noqa: ARG002
        return end
