"""Elements whose entries expire, for rows in sequence: read when they are touched, stamped by each row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import compress
from operator import ne
from typing import Any, Final

from millpond.state.aged import Aging, stored_values
from millpond.state.changes import Changes
from millpond.state.containers.counter import Counter
from millpond.state.containers.ondemand import MISSING
from millpond.state.containers.vector import Vector
from millpond.state.expiry import AgedType, Ages, Expiring, ExpiringCounter, ExpiringVector
from millpond.state.journal import Journal
from millpond.state.overlay import Base
from millpond.state.sequence.entries import UNREAD, Entries
from millpond.state.sequence.overlay import SequenceOverlay


class AgingEntries(Expiring):
    """Entries that expire, over a base."""

    source: SequenceAged
    touched: dict[Any, None]

    __slots__ = ("source", "touched")

    def _at_hand(self, key: Any) -> None:
        """Let an entry be held that is about to be touched, and noted if somebody wants to know."""
        self.ages.element.keys.check(key)
        self.source.hold(key)
        self.touched[key] = None

    def _finds(self, key: Any) -> bool:
        self._at_hand(key)
        return super()._finds(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._at_hand(key)
        super().__setitem__(key, value)

    def live(self, now: int) -> list[Any]:
        """Return the keys of the entries that are there at a time, unordered."""
        self.source.hold_all()
        return super().live(now)

    def clear(self) -> None:
        """Remove all entries."""
        self.source.hold_all()
        super().clear()

    def _ordered(self) -> dict[Any, Any]:
        found = super()._ordered()
        self.touched.update(dict.fromkeys(found))
        return found

    def end_row(self) -> None:
        """Make values of what was touched."""
        renew = self.ages.element.values.renew
        try:
            for key in self.touched:
                if dict.__contains__(self, key):
                    dict.__setitem__(self, key, renew(dict.__getitem__(self, key)))
        finally:
            self.touched.clear()


class AgingCounts(AgingEntries, ExpiringCounter):
    """The entries of a counter that expire."""

    __slots__ = ()


class AgingNumbers(AgingEntries, ExpiringVector):
    """The entries of a vector that expire."""

    __slots__ = ()


_KINDS: Final[Mapping[type, type[AgingEntries]]] = {Counter: AgingCounts, Vector: AgingNumbers}


class SequenceAged(SequenceOverlay):
    """An element whose entries expire; they are not counted, since they go by themselves."""

    entries: AgingEntries  # type: ignore[assignment]

    def __init__(
        self,
        element: AgedType,
        index: int,
        base: Base,
        key_groups: int,
        group: int | None,
        aging: Aging,
        journal: Journal,
    ) -> None:
        self._aged = element
        self._aging = aging
        self._journal = journal
        self._begun = False
        super().__init__(element, index, base, key_groups, group)

    def _make(self) -> Entries:
        aging, bare = self._aging, self._aged.bare_type
        entries = _KINDS.get(bare.container, AgingEntries)()
        clock, turn, watched = (aging.now, None, False) if aging.rows is None else (aging.rows, aging.turn, True)
        entries.ages = Ages(aging.ttl, clock, turn, bare, self._journal, checked=True, watched=watched)
        entries.source, entries.touched = self, {}
        return entries  # type: ignore[return-value]

    def _wrap(self) -> Any:
        return self._element.wrap(self.entries)

    @property
    def ending(self) -> tuple[Any, Any] | None:
        """What is touched, and what makes values of it when a row ends."""
        return self.entries.touched, self.entries.end_row

    def _known(self, stored: list[bytes | None]) -> list[bytes | None]:
        return self._aging.known(stored)

    def hold(self, unit: Any) -> None:
        """Read an entry unless it is held, and note what it is if somebody wants to know."""
        if unit not in self._before:
            self._take(unit, self.fetch(unit))
        self.note(unit)

    def hold_all(self) -> None:
        """Read all entries that were not touched before."""
        for unit, pair in self.fetch_all().items():
            self._take(unit, pair)
        for unit in list(self.entries.ages.stamps):
            self.note(unit)

    def _take(self, unit: Any, pair: Any) -> None:
        if pair is not MISSING and unit not in self.entries.ages.stamps:
            self.entries.put(unit, *pair)

    def ask_all(self) -> None:
        """Read all entries that were not asked for."""
        for unit, pair in self.fetch_all().items():
            self._take(unit, pair)

    # --- undoing

    def begin(self) -> None:
        """Know entries as they are now."""
        self._begun = True
        super().begin()

    def undo(self) -> None:
        """Make all entries what they were when it began; what they were first, if it never did."""
        if not self._begun:
            first = {unit: MISSING if data is None else data for unit, data in self._before.items()}
            self._noted.update({**dict.fromkeys(self.entries.ages.stamps, MISSING), **first})
        self._bring_back(self._noted)
        self._noted.clear()
        self.entries.touched.clear()

    def note(self, unit: Any) -> None:
        """Note what an entry is before it is touched, once that is not what it was first."""
        if self._begun or self._frames:
            super().note(unit)

    @property
    def _logs(self) -> bool:
        return False

    def _now(self, unit: Any) -> Any:
        self.entries.settle()
        stamp = self.entries.ages.stamps.get(unit)
        if stamp is None:
            return MISSING if unit in self._before or self._all_loaded else UNREAD
        return self._aged.values.encode((stamp, dict.__getitem__(self.entries, unit)))

    def _bring_back(self, noted: Mapping[Any, Any]) -> None:
        for unit, was in noted.items():
            self.entries.drop(unit)
            data = self._before.get(unit) if was is UNREAD else None if was is MISSING else was
            if data is not None:
                self.entries.put(unit, *self._aged.values.decode(data))

    # --- what changed

    def changes(self) -> Changes:
        """Return what differs from the base, unordered."""
        units: Sequence[Any] = list(self._before.keys() | self.entries.ages.stamps.keys())
        keys = self._keys(units)
        before = list(map(self._before.get, units))
        values = stored_values(self._aged, self._aging, self.entries, units, before)
        changed = list(map(ne, values, before))
        return Changes(list(compress(keys, changed)), list(compress(values, changed)))

    # --- memory

    @property
    def size_bytes(self) -> int:
        """About what the entries that are held take in memory."""
        return self._size_of(len(self.entries.ages.stamps), self._before.values())

    def forget(self, *, held: float = math.inf) -> None:
        """Hold nothing, between two rows and once the base has all that changed; it has about `held` entries then."""
        self.entries.settle()
        for unit in list(self.entries.ages.stamps):
            self.entries.drop(unit)
        self._forget_read(held)
