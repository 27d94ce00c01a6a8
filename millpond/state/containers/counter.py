"""The counter: whole numbers by key, zero where nothing was counted.

>>> seen = Counter()
>>> seen["mill"] += 2
>>> seen["mill"], seen["pond"], len(seen)
(2, 0, 1)
"""

from __future__ import annotations

from typing import ClassVar, TypeVar

from millpond.state.containers.map import DefaultMap

K = TypeVar("K")


class Counter(DefaultMap[K, int]):
    """Counts by key: `self.seen[word] += 1`; a key never counted reads as 0."""

    kind: ClassVar[str] = "counter"
    default: ClassVar[int] = 0

    __slots__ = ()
