"""Where periodic windows lie: the k-th window begins and ends at points that are known before any record comes.

>>> grid = Regular(range=10, slide=4)
>>> [(grid.begin(number), grid.end(number)) for number in range(grid.oldest(9), grid.newest(9) + 1)]
[(0, 10), (4, 14), (8, 18)]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Grid(Protocol):
    """Numbered windows; begins and ends grow with the number."""

    def begin(self, number: int) -> Any:
        """Return the first point of a window."""
        ...

    def end(self, number: int) -> Any:
        """Return the first point after a window."""
        ...

    def newest(self, point: Any) -> int:
        """Return the largest number of a window that has begun at a point."""
        ...

    def oldest(self, point: Any) -> int:
        """Return the smallest number of a window that has not ended at a point."""
        ...


class SlicedGrid(Grid, Protocol):
    """A grid over times that also cuts whole columns: slice k lies between the begins of windows k and k + 1.

    A window is `whole` slices, and, if `rest` says so, the part of the next one before the window's end.
    """

    @property
    def whole(self) -> int:
        """How many whole slices a window has."""
        ...

    @property
    def rest(self) -> bool:
        """Whether a window ends inside a slice."""
        ...

    def slices(self, times: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return the slices of times, and whether each lies behind the point where a window ends inside its slice."""
        ...

    def begins(self, numbers: Ints) -> Ints:
        """Return the begins of windows."""
        ...

    def ends(self, numbers: Ints) -> Ints:
        """Return the ends of windows."""
        ...


def windows_of(grid: SlicedGrid, times: Ints) -> tuple[Ints, Ints]:
    """Find the first and the last window that each time lies in; between two windows, the first is above the last."""
    newest, behind = grid.slices(times)
    # A time before the end inside its slice is also in the window that ends there.
    return newest - np.where(behind | (not grid.rest), grid.whole - 1, grid.whole), newest


@dataclass(frozen=True, slots=True)
class Regular:
    """Windows of one range, a slide apart; window 0 begins at the origin."""

    range: Any
    slide: Any
    origin: Any = 0

    def begin(self, number: int) -> Any:
        """Return the first point of a window."""
        return self.origin + number * self.slide

    def end(self, number: int) -> Any:
        """Return the first point after a window."""
        return self.origin + number * self.slide + self.range

    def newest(self, point: Any) -> int:
        """Return the largest number of a window that has begun at a point."""
        number: int = math.floor((point - self.origin) // self.slide)
        # Floating-point division may be one off; what counts is `begin`.
        while self.begin(number) > point:
            number -= 1
        while self.begin(number + 1) <= point:
            number += 1
        return number

    def oldest(self, point: Any) -> int:
        """Return the smallest number of a window that has not ended at a point."""
        number: int = math.floor((point - self.range - self.origin) // self.slide) + 1
        while self.end(number) <= point:
            number += 1
        while self.end(number - 1) > point:
            number -= 1
        return number

    @property
    def whole(self) -> int:
        """How many whole slices a window has."""
        return int(self.range // self.slide)

    @property
    def rest(self) -> bool:
        """Whether a window ends inside a slice."""
        return bool(self.range % self.slide)

    def slices(self, times: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return the slices of times, and whether each lies behind the point where a window ends inside its slice."""
        moved = times - self.origin if self.origin else times
        numbers = moved // self.slide
        if not self.rest:
            return numbers, np.zeros(len(times), np.bool_)
        return numbers, moved - numbers * self.slide >= self.range % self.slide

    def begins(self, numbers: Ints) -> Ints:
        """Return the begins of windows."""
        return np.asarray(numbers * self.slide + self.origin, np.int64)

    def ends(self, numbers: Ints) -> Ints:
        """Return the ends of windows."""
        return np.asarray(numbers * self.slide + (self.origin + self.range), np.int64)
