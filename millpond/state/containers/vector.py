"""The sparse vector: floats by index, zero where nothing was set.

>>> prices, basket = Vector({"ale": 2.5, "tea": 1.0}), Vector({"ale": 2.0})
>>> prices.dot(basket), basket.scaled(10)["ale"], basket["tea"]
(5.0, 20.0, 0.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from millpond.state.containers.access import MAP_OPERATIONS, READ_ALL, Operation
from millpond.state.containers.map import DefaultMap

K = TypeVar("K")


class Vector(DefaultMap[K, float]):
    """A sparse vector: `self.v[i] += x`, `v.dot(other)`, `v.add(other)`; sums run in the order of the indices."""

    kind: ClassVar[str] = "vector"
    default: ClassVar[float] = 0.0
    OPERATIONS: ClassVar[dict[str, Operation]] = {
        **MAP_OPERATIONS,
        "dot": READ_ALL,
        "add": READ_ALL,
        "scaled": READ_ALL,
    }

    __slots__ = ()

    def dot(self, other: Mapping[K, Any]) -> float:
        """Return the scalar product, summed in the order of the indices so that the result is always the same."""
        total = 0.0
        # Not sum(): from Python 3.12 on it compensates rounding, and the result would depend on the version.
        for index, value in self.items():
            if index in other:
                total += value * other[index]
        return total

    def add(self, other: Mapping[K, Any]) -> Vector[K]:
        """Return a new vector: the sum of both."""
        total: Vector[K] = Vector(self.items())
        for index, value in other.items():
            total[index] += value
        return total

    def scaled(self, factor: float) -> Vector[K]:
        """Return a new vector: each value times `factor`."""
        return Vector((index, value * factor) for index, value in self.items())
