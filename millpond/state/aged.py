"""Overlays of elements whose entries expire: what is over when it is loaded is as absent as in plain Python.

What was over at the committed parent already is never loaded at all: a store may have dropped it or not, and nothing
that an epoch computes or writes may depend on that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import ne
from typing import Any

from millpond.state.changes import Changes
from millpond.state.containers.value import THE_KEY
from millpond.state.expiry import AgedType, Clock, Expiring, Ttl, expiring_entries, stamp_of
from millpond.state.overlay import Base, KeyedOverlay, OnDemandOverlay


@dataclass(frozen=True, slots=True)
class Aging:
    """How an element ages in an epoch: its time to live, the epoch's time, and what was over before it.

    Entries with a stamp up to `floor_us` were over at the parent: they are gone, also if the time to live is longer
    now than it was. If each row has a time of its own, `rows` tells it, and `turn` tells rows apart.
    """

    ttl: Ttl
    now_us: int
    floor_us: int
    rows: Clock | None = None
    turn: Clock | None = None

    def entries(self, element: AgedType) -> Expiring:
        """Return entries that expire, at the time of the epoch or of each row."""
        if self.rows is None:
            return expiring_entries(element, self.ttl, self.now)
        return expiring_entries(element, self.ttl, self.rows, turn=self.turn, watched=True)

    @property
    def cutoff_us(self) -> int:
        """Entries with a stamp up to this one are not stored: the epoch is over, or no row before it comes any more."""
        return self.ttl.cutoff(self.now_us) if self.rows is None else self.floor_us

    def now(self) -> int:
        """Return the time of the epoch."""
        return self.now_us

    def known(self, stored: Sequence[bytes | None]) -> list[bytes | None]:
        """Return entries as the base has them, without those that were over at the parent."""
        floor = self.floor_us
        return [None if value is None or stamp_of(value) <= floor else value for value in stored]


def stored_values(
    element: AgedType, aging: Aging, entries: Expiring, units: Sequence[Any], before: Sequence[bytes | None]
) -> list[bytes | None]:
    """Return entries as they are to be stored; None where there is none, or its time is over."""
    entries.settle()
    stamps = list(map(entries.ages.stamps.get, units))
    cutoff = aging.cutoff_us
    live = [(unit, stamp) for unit, stamp in zip(units, stamps, strict=True) if stamp is not None and stamp > cutoff]
    pairs = iter(element.values.encode_many([(stamp, dict.__getitem__(entries, unit)) for unit, stamp in live]))
    stored = [None if stamp is None or stamp <= cutoff else next(pairs) for stamp in stamps]
    if aging.rows is not None:
        return stored
    for at, (value, old, stamp) in enumerate(zip(stored, before, stamps, strict=True)):
        if value is not None and value != old and stamp != aging.now_us:
            # Nobody wrote it, and yet it is another: it was changed in place.
            stored[at] = element.values.encode((aging.now_us, dict.__getitem__(entries, units[at])))
    return stored


def _stored(element: AgedType, entries: Expiring, unit: Any) -> bytes | None:
    """Return an entry as it would be stored now, whether its time is over or not."""
    stamp = entries.ages.stamps.get(unit)
    return None if stamp is None else element.values.encode((stamp, dict.__getitem__(entries, unit)))


class AgedOverlay(KeyedOverlay):
    """A partitioned element whose entries expire; its entries are not counted, since they go by themselves."""

    entries: Expiring

    def __init__(
        self,
        element: AgedType,
        index: int,
        base: Base,
        key_groups: int,
        owned: Sequence[int],
        aging: Aging,
        *,
        guarded: bool = False,
    ) -> None:
        super().__init__(element, index, base, key_groups, owned, guarded=guarded)
        self._aged = element
        self._aging = aging
        self.entries = aging.entries(element)
        self.entries.ages.guard = self._guard
        self.container = element.wrap(self.entries)

    def _load(self, units: Sequence[Any], stored: list[bytes | None]) -> list[bytes | None]:
        known = self._aging.known(stored)
        there = [value for value in known if value is not None]
        present = compress(units, [value is not None for value in known])
        for unit, (stamp, value) in zip(present, self._aged.values.decode_many(there), strict=True):
            self.entries.put(unit, stamp, value)
        return known

    def remember(self, units: Iterable[Any]) -> dict[Any, bytes | None]:
        """Return the stamps and values of units as they are now, as bytes; None where there are none."""
        self.entries.settle()
        return {unit: _stored(self._aged, self.entries, unit) for unit in units}

    def restore(self, remembered: Mapping[Any, bytes | None]) -> None:
        """Give units the stamps and values that were remembered."""
        for unit, stored in remembered.items():
            # Also forgets what the value was when it was handed out.
            self.entries.drop(unit)
            if stored is not None:
                self.entries.put(unit, *self._aged.values.decode(stored))

    def changes(self) -> Changes:
        """Return what differs from the base, in the order in which it was loaded."""
        if self._guard is not None:
            self._guard.check()
        self._check_loaded(self._units)
        values = stored_values(self._aged, self._aging, self.entries, self._units, self._before)
        changed = list(map(ne, values, self._before))
        return Changes(list(compress(self._keys, changed)), list(compress(values, changed)))


class AgedValue(OnDemandOverlay):
    """An element of a single key whose entry expires."""

    entries: Expiring

    def __init__(self, element: AgedType, index: int, group: int, base: Base, aging: Aging) -> None:
        super().__init__(element, index, group, base)
        self._aged = element
        self._aging = aging
        self._key = self._prefix + element.keys.encode(THE_KEY)
        self._stored = aging.known([base.get(self._key)])[0]
        self.entries = aging.entries(element)
        self.container = element.wrap(self.entries)
        self._put(self._stored)
        self._first_stored = self._stored

    def _put(self, stored: bytes | None) -> None:
        self.entries.drop(THE_KEY)
        if stored is not None:
            self.entries.put(THE_KEY, *self._aged.values.decode(stored))

    def begin(self) -> None:
        """Know from now on what the entry was."""
        self.entries.settle()
        self._first_stored = _stored(self._aged, self.entries, THE_KEY)

    def undo(self) -> None:
        """Make the entry what it was when it began; what it was first, if it never did."""
        self._put(self._first_stored)

    def changes(self) -> Changes:
        """Return what differs from the base."""
        (value,) = stored_values(self._aged, self._aging, self.entries, [THE_KEY], [self._stored])
        return Changes([self._key], [value]) if value != self._stored else Changes([], [])
