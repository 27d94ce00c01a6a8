"""Timers and windows for rows in sequence: what orders them by their moments is changed with them."""

from __future__ import annotations

from typing import Any

from millpond.state.changes import Changes
from millpond.state.overlay import Base
from millpond.state.sequence.overlay import SequenceOverlay
from millpond.state.timers import TimersType, due_changes


class SequenceTimers(SequenceOverlay):
    """Timers by key; `soonest_us` is as that of `TimersOverlay`."""

    def __init__(self, element: TimersType, index: int, due_index: int, base: Base, key_groups: int) -> None:
        super().__init__(element, index, base, key_groups)
        self._timers = element
        self._due_index = due_index
        self.soonest_us: int | None = None

    def changes(self) -> Changes:
        """Return what differs from the base, unordered."""
        keys, values = super().changes()
        held = self.entries.held
        moments = (self._timers.moment(value) for value in held.values())
        at = min((at for at in moments if at is not None), default=None)
        if at is not None:
            # What was put down before may still be there.
            waits = self._timers.waits_until(at)
            self.soonest_us = waits if self.soonest_us is None else min(self.soonest_us, waits)
        changed = [(unit, self._before.get(unit), held.get(unit)) for unit in self._touched_units(held)]
        places, marks = due_changes(self._timers, self._due_index, self._key_groups, changed)
        return Changes(keys + places, values + marks)

    def _touched_units(self, held: dict[Any, Any]) -> list[Any]:
        return list(dict.fromkeys((*self._before, *held)))
