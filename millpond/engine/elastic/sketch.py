"""Heavy hitters: the keys that most rows go to, in a fixed number of counters.

Space-Saving with weights: a key without a counter takes over the smallest one, and what that had counted is noted as
the error of the new count. So a key's count is never too low, and too high by at most its error. The same additions in
the same order give the same counters: of equal ones, the key that sorts last goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

COUNTERS = 64


@dataclass(slots=True)
class _Count:
    rows: float
    error: float


@dataclass(slots=True)
class Sketch:
    """Counts of keys, of which the heaviest are right within their errors; `total` is of all rows."""

    counters: int = COUNTERS
    total: float = 0.0
    _counts: dict[str, _Count] = field(default_factory=dict)

    def add(self, key: str, rows: float) -> None:
        """Count rows of a key."""
        self.total += rows
        held = self._counts.get(key)
        if held is not None:
            held.rows += rows
        elif len(self._counts) < self.counters:
            self._counts[key] = _Count(rows, 0.0)
        else:
            lightest = max(self._counts, key=lambda one: (-self._counts[one].rows, one))
            least = self._counts.pop(lightest).rows
            self._counts[key] = _Count(least + rows, least)

    def add_others(self, rows: float) -> None:
        """Count rows of keys that nobody names."""
        self.total += rows

    def fade(self, factor: float) -> None:
        """Let what was counted so far weigh less than what comes."""
        self.total *= factor
        for held in self._counts.values():
            held.rows *= factor
            held.error *= factor

    def heaviest(self, share: float) -> list[tuple[str, float]]:
        """Keys that surely have at least this share of all rows, and their share, the heaviest first."""
        sure = ((key, (held.rows - held.error) / self.total) for key, held in self._counts.items() if self.total)
        return sorted(((key, part) for key, part in sure if part >= share), key=lambda one: (-one[1], one[0]))

    @classmethod
    def of(cls, keys: Iterable[tuple[str, float]], counters: int = COUNTERS) -> Sketch:
        """Return the sketch of some additions."""
        sketch = cls(counters)
        for key, rows in keys:
            sketch.add(key, rows)
        return sketch
