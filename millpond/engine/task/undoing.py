"""What rows may touch, as it was at some row before them: so that one of them can be undone.

Nothing is kept until a row raises: what entries were first is what the parent holds. From then on it is known what
they were at one row. Where rows touch entries by their keys, only those are brought back that the row to undo has to do
with. Where they may touch anything, all of it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from millpond.engine.gathered.links import Entry, Links, Reach
from millpond.engine.task.columns import Rows
from millpond.state.overlay import KeyedOverlay


class Memory:
    """The entries of all that some works may touch, as they were before the row at the position `since`.

    Rows are `apart` if they touch entries by their keys alone.
    """

    def __init__(self, reaches: Sequence[Reach], owners: Rows, rows: Rows) -> None:
        self._links = Links(reaches, owners, rows)
        self._whole = {id(overlay): overlay for reach in reaches for overlay in reach.whole}
        self._known: dict[int, dict[Any, bytes | None]] = {}
        self.apart = not self._whole
        self.since = 0

    def learn(self, at: int) -> None:
        """Know entries as they are now, before the row at a position."""
        for overlay, units in _by_element(self._links.needed_again(self.since, at)):
            self._known_of(overlay).update(overlay.remember(units))
        for whole in self._whole.values():
            whole.begin()
        self.since = at

    def go_back(self, first: int, last: int) -> Rows:
        """Undo the rows from `first` to `last`, which ran last: return those since the known point that must run again.

        Whatever these touch is as it was then.
        """
        if self.apart:
            entries, rows = self._links.joined(self.since, first, last)
        else:
            entries, rows = self._links.touched(self.since, last), list(range(self.since, first))
        for overlay, units in _by_element(entries):
            known = self._known_of(overlay)
            overlay.restore({unit: known[unit] for unit in units})
        for whole in self._whole.values():
            whole.undo()
        return np.array(rows, dtype=np.intp)

    def _known_of(self, overlay: KeyedOverlay) -> dict[Any, bytes | None]:
        known = self._known.get(id(overlay))
        if known is None:
            known = self._known[id(overlay)] = overlay.committed()
        return known


def _by_element(entries: Iterable[Entry]) -> Iterable[tuple[KeyedOverlay, list[Any]]]:
    found: dict[int, tuple[KeyedOverlay, list[Any]]] = {}
    for overlay, unit in entries:
        found.setdefault(id(overlay), (overlay, []))[1].append(unit)
    return found.values()
