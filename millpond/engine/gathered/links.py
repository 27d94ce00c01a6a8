"""Which rows of a task touch which entries, and so which of them have to do with each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from millpond.engine.gathered.keysets import TouchedKeys
from millpond.engine.task.columns import Rows
from millpond.state.overlay import KeyedOverlay

Ints = npt.NDArray[np.int64]
Entry = tuple[KeyedOverlay, Any]
"""An element and a key."""


class Whole(Protocol):
    """State that is brought back as a whole."""

    def begin(self) -> None:
        """From now on, know what entries were before they are touched."""
        ...

    def undo(self) -> None:
        """Make all entries what they were when it began; what they were first, if it never did."""
        ...


@dataclass(frozen=True, slots=True)
class Reach:
    """What the rows of a work may touch: keys that follow from each of them, and whatever else is there as a whole."""

    keyed: Sequence[tuple[KeyedOverlay, TouchedKeys]]
    whole: Sequence[Whole]


class Links:
    """The entries that rows touch by their keys; rows are known by their positions in the order in which they run."""

    def __init__(self, reaches: Sequence[Reach], owners: Rows, rows: Rows) -> None:
        self.entries: list[Entry] = []
        numbers: dict[tuple[int, Any], int] = {}
        places: list[Ints] = [np.empty(0, dtype=np.int64)]
        entries: list[Ints] = [np.empty(0, dtype=np.int64)]
        for at, reach in enumerate(reaches):
            own = np.flatnonzero(owners == at)
            for overlay, found in reach.keyed:
                numbered = self._number(numbers, overlay, found.units)
                position, code = _pairs(found, own, rows[own])
                places.append(position)
                entries.append(numbered[code])
        place, entry = np.concatenate(places), np.concatenate(entries)
        by_row, by_entry = np.argsort(place, kind="stable"), np.lexsort((place, entry))
        self._of_row = entry[by_row]
        self._row_starts = np.searchsorted(place[by_row], np.arange(len(owners) + 1))
        self._rows = place[by_entry]
        self._entry_starts = np.searchsorted(entry[by_entry], np.arange(len(self.entries) + 1))
        # Then rows that touch one entry have to do with no other one.
        self._one_each = bool((np.diff(self._row_starts) <= 1).all())

    def _number(self, numbers: dict[tuple[int, Any], int], overlay: KeyedOverlay, units: Iterable[Any]) -> Ints:
        numbered = []
        for unit in units:
            number = numbers.setdefault((id(overlay), unit), len(numbers))
            if number == len(self.entries):
                self.entries.append((overlay, unit))
            numbered.append(number)
        return np.array(numbered, dtype=np.int64)

    def touched(self, start: int, end: int) -> list[Entry]:
        """Return the entries that rows from `start` to `end` touch."""
        found = np.unique(self._of_row[self._row_starts[start] : self._row_starts[end]])
        return [self.entries[number] for number in found.tolist()]

    def needed_again(self, start: int, end: int) -> list[Entry]:
        """Return the entries that rows from `start` to `end` touch, and later ones too."""
        # Mostly a few rows of fewer entries: that is no work for NumPy.
        found = sorted(set(self._of_row[self._row_starts[start] : self._row_starts[end]].tolist()))
        return [self.entries[number] for number in found if self._rows[self._entry_starts[number + 1] - 1] >= end]

    def joined(self, start: int, first: int, last: int) -> tuple[list[Entry], list[int]]:
        """Find what rows from `first` to `last` touch, and the rows since `start` that touch it, and so on."""
        entries: set[int] = set()
        rows: set[int] = set()
        waiting = list(range(first, last))
        while waiting:
            row = waiting.pop()
            for number in self._of_row[self._row_starts[row] : self._row_starts[row + 1]].tolist():
                if number not in entries:
                    entries.add(number)
                    touching = self._rows[self._entry_starts[number] : self._entry_starts[number + 1]]
                    since, until = touching.searchsorted((start, first)).tolist()
                    fresh = set(touching[since:until].tolist()) - rows
                    rows |= fresh
                    if not self._one_each:
                        waiting += fresh
        return [self.entries[number] for number in entries], sorted(rows)


def _pairs(found: TouchedKeys, positions: Rows, rows: Rows) -> tuple[Ints, Ints]:
    """Positions of rows, and the places of the units that they touch."""
    if found.one_each:
        return positions, found.codes[rows]
    at = np.full(max(int(found.rows.max(initial=-1)), int(rows.max(initial=-1))) + 1, -1, dtype=np.int64)
    at[rows] = positions
    place = at[found.rows]
    there = place >= 0
    return place[there], found.codes[there]
