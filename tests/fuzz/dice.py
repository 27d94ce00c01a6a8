"""Chance that can be repeated: every choice of the campaign comes from one seed."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Choices from a seed; equal seeds choose alike on every machine."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def chance(self, share: float) -> bool:
        """True in `share` of the cases."""
        return self._random.random() < share

    def between(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return self._random.randint(low, high)

    def one(self, choices: Sequence[T]) -> T:
        """One of several, all as likely."""
        return self._random.choice(choices)

    def weighted(self, choices: Sequence[tuple[float, T]]) -> T:
        """One of several, each with its weight."""
        (chosen,) = self._random.choices([item for _, item in choices], [weight for weight, _ in choices])
        return chosen

    def some(self, choices: Sequence[T], count: int) -> list[T]:
        """A few different ones, in their order."""
        places = sorted(self._random.sample(range(len(choices)), min(count, len(choices))))
        return [choices[place] for place in places]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All of them in another order."""
        return self._random.sample(list(items), len(items))


def derive(seed: int, *path: int | str) -> int:
    """A seed for one part of a campaign; parts do not influence each other."""
    text = ":".join(map(str, (seed, *path)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
