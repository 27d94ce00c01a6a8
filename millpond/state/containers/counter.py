"""The counter: whole numbers by key, zero where nothing was counted.

>>> seen = Counter()
>>> seen["mill"] += 2
>>> seen["mill"], seen["pond"], len(seen)
(2, 0, 1)
>>> seen["pond"] += 3
>>> seen.most_common(1), seen.total()
([('pond', 3)], 5)
>>> seen.update(["mill", "mill", "heron"])  # as that of collections.Counter, it adds
>>> seen
Counter({'heron': 1, 'mill': 4, 'pond': 3})
"""

from __future__ import annotations

import collections
from operator import itemgetter
from typing import Any, ClassVar, TypeVar

from millpond.state.containers.access import MAP_OPERATIONS, READ_ALL, Operation
from millpond.state.containers.map import DefaultMap

K = TypeVar("K")


class Counter(DefaultMap[K, int]):
    """Counts by key: `self.seen[word] += 1`; a key never counted reads as 0."""

    kind: ClassVar[str] = "counter"
    default: ClassVar[int] = 0
    OPERATIONS: ClassVar[dict[str, Operation]] = {**MAP_OPERATIONS, "most_common": READ_ALL, "total": READ_ALL}

    __slots__ = ()

    def most_common(self, n: int | None = None) -> list[tuple[K, int]]:
        """Return the `n` keys that were counted most (all of them by default), those of equal counts in key order."""
        counted = sorted(self.items(), key=itemgetter(1), reverse=True)
        return counted if n is None else counted[: max(n, 0)]

    def update(self, *others: Any, **named: Any) -> None:
        """Add the counts of a mapping, or one for each item of anything else."""
        for key, count in collections.Counter(*others, **named).items():
            self[key] += count

    def __ior__(self, other: Any) -> Any:
        for key, count in other.items():
            self[key] = max(self[key], count)
        for key in [key for key, count in self.items() if count <= 0]:
            del self[key]
        return self

    def total(self) -> int:
        """Return the sum of all counts."""
        return sum(self.values())
