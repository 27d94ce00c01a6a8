"""Detectors: a figure that is beyond a threshold for several reports in a row, and only then, means something."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Detector(Protocol):
    """Says of each report whether there is reason to act."""

    def met(self, value: float) -> bool:
        """Take a figure, and say if it is time."""
        ...

    def reset(self) -> None:
        """Begin anew, since the world has changed."""
        ...


@dataclass(slots=True)
class Consecutive:
    """Met when so many `reports` in a row are above a threshold, or below it."""

    threshold: float
    reports: int
    below: bool = False
    seen: int = 0

    def met(self, value: float) -> bool:
        """Take a figure, and say if it is the last of so many."""
        beyond = value < self.threshold if self.below else value > self.threshold
        self.seen = self.seen + 1 if beyond else 0
        return self.seen >= self.reports

    def reset(self) -> None:
        """Count from the next report on."""
        self.seen = 0
