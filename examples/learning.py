"""Learning as loops over windows: k-means until it settles, and logistic regression by gradients that may be stale.

Keys from 0 on are workers, with the rows that they hold; the key -1 has the model. Workers tell it what follows from
their rows, and it tells them what it has become.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

from millpond.loops import Loop, persistent, state

MODEL = -1
"""The key that has the model."""


class Centre(NamedTuple):
    """The middle of a cluster, and how many points are in it."""

    x: float
    y: float
    points: int


class KMeans(Loop):
    """Clusters points, rows of `x` and `y`, around `count` centres; run it until `within(1e-9, of="moved")`."""

    count: ClassVar[int] = 2
    aggregators: ClassVar = {"moved": sum}
    points: list[tuple[float, float]] = state(factory=list)
    centres: list[tuple[float, float, int]] = state(factory=list)

    def entry(self, rows: list[Any]) -> None:
        """Take the points; those of the first worker are where the centres begin."""
        self.points = [(row.x, row.y) for row in rows]
        self.send(MODEL, (self.key, [(x, y, 1) for x, y in self.points[: self.count]]))

    def step(self, messages: list[tuple[int, list[tuple[float, float, int]]]]) -> None:
        """As the model, move the centres; as a worker, add up the points around each."""
        if self.key != MODEL:
            self.send(MODEL, (self.key, self._sums(messages[0][1])))
            return
        parts = dict(messages)
        fresh = self._means(list(parts.values())) if self.centres else parts[min(parts)]
        old = self.centres or fresh
        self.report(
            "moved", sum(math.dist(a[:2], b[:2]) for a, b in zip(old, fresh, strict=True)) if old != fresh else 0.0
        )
        if not self.centres:
            self.report("moved", math.inf)
        self.centres = fresh
        for worker in sorted(parts):
            self.send(worker, (self.key, fresh))

    def _sums(self, centres: list[tuple[float, float, int]]) -> list[tuple[float, float, int]]:
        found = [(0.0, 0.0, 0)] * len(centres)
        for point in self.points:
            near = min(range(len(centres)), key=lambda one: math.dist(point, centres[one][:2]))
            x, y, many = found[near]
            found[near] = (x + point[0], y + point[1], many + 1)
        return found

    def _means(self, parts: list[list[tuple[float, float, int]]]) -> list[tuple[float, float, int]]:
        fresh = []
        for place, old in enumerate(self.centres):
            x, y, many = (sum(part[place][axis] for part in parts) for axis in range(3))
            fresh.append((x / many, y / many, int(many)) if many else (old[0], old[1], 0))
        return fresh

    def finalize(self) -> list[Centre] | None:
        """Give the centres."""
        return [Centre(*one) for one in self.centres] if self.key == MODEL else None


class Weights(NamedTuple):
    """A model: the chance of a 1 at x is 1 / (1 + exp(-(bias + slope * x)))."""

    bias: float
    slope: float


class Logistic(Loop):
    """Learns the chance of a 1, of rows of `x` and `label`; the model goes on from window to window.

    Under `stale(n)` workers need not wait for each other: a gradient may be of a model that is a few rounds old.
    """

    rate: ClassVar[float] = 0.5
    samples: list[tuple[float, float]] = state(factory=list)
    workers: list[int] = state(factory=list)
    model: list[float] = persistent(factory=lambda: [0.0, 0.0])

    def entry(self, rows: list[Any]) -> None:
        """Take the samples, and ask for the model."""
        self.samples = [(row.x, row.label) for row in rows]
        self.send(MODEL, (self.key, [0.0, 0.0]))

    def step(self, messages: list[tuple[int, list[float]]]) -> None:
        """As the model, go down the gradients that are there; as a worker, give the gradient of its samples."""
        if self.key != MODEL:
            self.send(MODEL, (self.key, self._gradient(messages[-1][1])))
            return
        self.workers = sorted({*self.workers, *(worker for worker, _ in messages)})
        self.model = [
            weight - self.rate * sum(part[place] for _, part in messages) / len(self.workers)
            for place, weight in enumerate(self.model)
        ]
        for worker, _ in messages:
            self.send(worker, (self.key, self.model))

    def _gradient(self, model: list[float]) -> list[float]:
        errors = [(1 / (1 + math.exp(-(model[0] + model[1] * x))) - label, x) for x, label in self.samples]
        return [sum(error for error, _ in errors) / len(errors), sum(error * x for error, x in errors) / len(errors)]

    def finalize(self) -> Weights | None:
        """Give the model."""
        return Weights(*self.model) if self.key == MODEL else None
