"""The overlay: an epoch's working state of one element over its frozen base.

Reads fall through to the base, writes and deletions stay on top; what differs from the base at the end is the delta.
Differences are found by comparing bytes, so that a value changed in place is seen like any other.

>>> counts = ElementType.parse(Map[str, int], None)
>>> base = DictBase({store_prefix(0, 0) + b"mill": counts.values.encode(4)})
>>> overlay = KeyedOverlay(counts, index=0, base=base, key_groups=1, owned=range(1))
>>> overlay.prefetch(["mill", "pond"]).tolist()
[0, 1]
>>> overlay.container["mill"] += 1
>>> [(key[PREFIX_BYTES:], counts.values.decode(value)) for key, value in zip(*overlay.changes(), strict=True)]
[(b'mill', 5)]
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress
from operator import is_not, ne
from typing import Any, Protocol

import numpy as np

from millpond.errors import EpochError
from millpond.state.changes import Changes
from millpond.state.containers.element import ElementType
from millpond.state.containers.map import Map
from millpond.state.containers.ondemand import JOURNALED, MISSING
from millpond.state.foreseen import Guard, foreseen_entries, unforeseen
from millpond.state.local.storekey import PREFIX_BYTES, store_prefix
from millpond.state.units import Ints, StoreUnits, in_store_order

CHUNK_ENTRIES = 4096

_IS_SOME = partial(is_not, None)


class Base(Protocol):
    """Committed state, frozen: the local store, or a dict in tests."""

    def get(self, key: bytes) -> bytes | None:
        """Return one entry, or None."""
        ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of different `keys`, None where there is none."""
        ...

    def scan(self, prefix: bytes) -> Iterable[tuple[bytes, bytes]]:
        """Return all entries whose key starts with `prefix`, in key order."""
        ...


class KeyedOverlay:
    """A partitioned element on one partition: the keys of a batch are loaded at once, then it is a plain dict.

    `growth` is by how many entries the element grew, known once `changes` was called. Entries are `in_order` of the
    store while all were loaded at once. `prefetched` are the store keys that were asked for last, in order, `groups`
    the key groups of their units, as these were given. A `guarded` one finds reads of keys that were not loaded.
    """

    def __init__(
        self,
        element: ElementType,
        index: int,
        base: Base,
        key_groups: int,
        owned: Sequence[int],
        *,
        guarded: bool = False,
    ) -> None:
        self._element = element
        self._guard = Guard(element.keys) if guarded else None
        self._index = index
        self._base = base
        self._key_groups = key_groups
        self._owned = owned
        # Parallel lists, so that the end of an epoch is a few passes at the speed of C.
        self._units: list[Any] = []
        self._keys: list[bytes] = []
        self._before: list[bytes | None] = []
        self.prefetched: list[bytes] = []
        self.groups: Ints = np.empty(0, dtype=np.int64)
        self.growth = 0
        self.in_order = True
        self.entries: dict[Any, Any] = (
            element.keyed() if self._guard is None else foreseen_entries(element.container, self._guard)
        )
        self.container = element.wrap(self.entries)

    def prefetch(self, units: Sequence[Any] | Ints) -> Ints:
        """Load the entries of distinct `units`, and return their places in the order of the store."""
        placed = in_store_order(self._index, self._element.keys, units, self._key_groups)
        self._check_owned(placed)
        ordered, keys = placed.units, placed.keys
        self.prefetched = keys
        self.groups = placed.groups
        if self._units:
            # Another entry point of the same step came first; what it loaded stays.
            self.in_order = False
            held = frozenset(self._units)
            fresh = [unit not in held for unit in ordered]
            ordered, keys = list(compress(ordered, fresh)), list(compress(keys, fresh))
        if self._guard is not None:
            self._guard.foresee(ordered)
        self._before += self._load(ordered, self._base.get_many(keys))
        self._units += ordered
        self._keys += keys
        return placed.ranks()

    def _load(self, units: Sequence[Any], stored: list[bytes | None]) -> list[bytes | None]:
        """Make entries of what the base holds for units, and return what counts as held."""
        present = [value for value in stored if value is not None]
        if present:
            values = self._element.values.decode_many(present)
            known = units if len(present) == len(stored) else compress(units, map(_IS_SOME, stored))
            dict.update(self.entries, zip(known, values, strict=True))
        return stored

    def _check_owned(self, placed: StoreUnits) -> None:
        groups, owned = placed.groups, self._owned
        if not len(groups):
            return
        ends = int(groups.min()), int(groups.max())
        if isinstance(owned, range) and ends[0] in owned and ends[1] in owned:
            return
        if isinstance(owned, range) or not np.isin(groups, owned).all():
            raise EpochError(
                "MP432",
                "Spark sent rows to the wrong partition",
                expected=f"{len(owned)} key groups from {min(owned, default=0)} to {max(owned, default=0)}",
                found=f"key groups {ends[0]} to {ends[1]}",
                hint="switch off what re-arranges explicit repartitions in this session, and report it",
            )

    def remember(self, units: Iterable[Any]) -> dict[Any, bytes | None]:
        """Return the values of units as they are now, as bytes; None where there is none."""
        encode, entries = self._element.values.encode, self.entries
        return {
            unit: encode(dict.__getitem__(entries, unit)) if dict.__contains__(entries, unit) else None
            for unit in units
        }

    def restore(self, remembered: Mapping[Any, bytes | None]) -> None:
        """Give units the values that were remembered."""
        decode = self._element.values.decode
        for unit, value in remembered.items():
            if value is None:
                dict.pop(self.entries, unit, None)
            else:
                dict.__setitem__(self.entries, unit, decode(value))

    def committed(self) -> dict[Any, bytes | None]:
        """Return the values of all loaded units as the base has them, as bytes; None where there is none."""
        return dict(zip(self._units, self._before, strict=True))

    def changes(self) -> Changes:
        """Return what differs from the base, in the order in which it was loaded: that of the store if `in_order`."""
        if self._guard is not None:
            self._guard.check()
        units, keys, before = self._units, self._keys, self._before
        live: list[bool] | None = None
        if not self._holds_all(units):
            self._check_loaded(units)
            live = [dict.__contains__(self.entries, unit) for unit in units]
            units = list(compress(units, live))
        values: list[bytes | None] = []
        for start in range(0, len(units), CHUNK_ENTRIES):
            # Chunk by chunk, so that values are in the processor's cache when they are checked and then encoded.
            chunk = units[start : start + CHUNK_ENTRIES]
            values += self._element.values.encode_many([*map(self.entries.__getitem__, chunk)])
        if live is not None:
            encoded = iter(values)
            values = [next(encoded) if stays else None for stays in live]
        self.growth = before.count(None) - values.count(None)
        changed = list(map(ne, values, before))
        if all(changed):
            return Changes(list(keys), values)
        return Changes(list(compress(keys, changed)), list(compress(values, changed)))

    def _check_loaded(self, units: list[Any]) -> None:
        """Refuse entries under keys that were not loaded: None, or one that the compiler did not foresee."""
        loaded = frozenset(units)
        for unit in dict.__iter__(self.entries):
            if unit not in loaded:
                self._element.keys.check(unit)
                raise unforeseen(unit)

    def _holds_all(self, units: list[Any]) -> bool:
        """Return whether the entries are those of the loaded units, no more and no less."""
        return len(self.entries) == len(units) and all(map(self.entries.__contains__, units))


class OnDemandOverlay:
    """One instance of a partial element, or a single-key element: entries are loaded when touched."""

    def __init__(self, element: ElementType, index: int, group: int, base: Base) -> None:
        self._element = element
        self._prefix = store_prefix(index, group)
        self._base = base
        self._before: dict[Any, bytes | None] = {}
        self._all_loaded = next(iter(base.scan(self._prefix)), None) is None
        # What entries were when a row began that may have to be undone, as bytes; None for none.
        self._first: dict[Any, bytes | None] = {}
        self.growth = 0
        self.entries: Map[Any, Any] = element.on_demand(self)
        self.container = element.wrap(self.entries)

    def fetch(self, unit: Any) -> Any:
        """Load one entry, or MISSING if the base has none or it was fetched before."""
        if unit in self._before or self._all_loaded:
            return MISSING
        key = self._prefix + self._element.keys.encode(unit)
        value = self._base.get(key)
        self._before[unit] = value
        return MISSING if value is None else self._element.values.decode(value)

    def fetch_all(self) -> Mapping[Any, Any]:
        """Load every entry that was not fetched before."""
        if self._all_loaded:
            return {}
        loaded = {}
        for key, value in self._base.scan(self._prefix):
            unit = self._element.keys.decode(key[PREFIX_BYTES:])
            if unit not in self._before:
                self._before[unit] = value
                loaded[unit] = self._element.values.decode(value)
        self._all_loaded = True
        return loaded

    def begin(self) -> None:
        """Know from now on what entries were before they are touched."""
        self._first.clear()
        if type(self.entries) in JOURNALED:
            # Its object stays the one that user code holds, whatever container is around it.
            self.entries.__class__ = JOURNALED[type(self.entries)]

    def undo(self) -> None:
        """Make all entries what they were when it began; what they were first, if it never did."""
        decode = self._element.values.decode
        first = self._first if type(self.entries) not in JOURNALED else self._committed()
        for unit, value in first.items():
            if value is None:
                dict.pop(self.entries, unit, None)
            else:
                dict.__setitem__(self.entries, unit, decode(value))
        self._first.clear()

    def _committed(self) -> dict[Any, bytes | None]:
        """Return what the base holds of all that was touched, or written without being read."""
        unknown = [unit for unit in dict.__iter__(self.entries) if unit not in self._before]
        if self._all_loaded:
            return {**dict.fromkeys(unknown), **self._before}
        keys = [self._prefix + data for data in self._element.keys.encode_many(unknown)]
        self._before.update(zip(unknown, self._base.get_many(keys), strict=True))
        return self._before

    def note(self, unit: Any) -> None:
        """Note what an entry is before it is touched."""
        if unit in self._first:
            return
        entries = self.entries
        if not dict.__contains__(entries, unit):
            value = self.fetch(unit)
            if value is MISSING:
                self._first[unit] = None
                return
            dict.__setitem__(entries, unit, value)
        self._first[unit] = self._element.values.encode(dict.__getitem__(entries, unit))

    def note_all(self) -> None:
        """Note what all entries are."""
        for unit, value in self.fetch_all().items():
            if not dict.__contains__(self.entries, unit):
                dict.__setitem__(self.entries, unit, value)
        for unit in list(dict.__iter__(self.entries)):
            self.note(unit)

    def changes(self) -> Changes:
        """Return what differs from the base, unordered."""
        entries = self.entries
        live = list(dict.__iter__(entries))
        codec = self._element.keys
        keys = [self._prefix + data for data in codec.encode_many(live)]
        self._find_overwritten(live, keys)
        before = list(map(self._before.get, live))
        values = self._element.values.encode_many([dict.__getitem__(entries, unit) for unit in live])
        changed = list(map(ne, values, before))
        gone = [unit for unit, old in self._before.items() if old is not None and not dict.__contains__(entries, unit)]
        self.growth = before.count(None) - len(gone)
        tombs = [self._prefix + codec.encode(unit) for unit in gone]
        return Changes([*compress(keys, changed), *tombs], [*compress(values, changed), *([None] * len(tombs))])

    def _find_overwritten(self, units: Sequence[Any], keys: Sequence[bytes]) -> None:
        """Look up what the base holds for units that were written without being read."""
        if not self._all_loaded:
            unknown = {key: unit for unit, key in zip(units, keys, strict=True) if unit not in self._before}
            found = self._base.get_many(list(unknown))
            self._before.update(
                (unit, value) for unit, value in zip(unknown.values(), found, strict=True) if value is not None
            )


class Layered:
    """A base with changes on top, which hide what is below them; None hides an entry altogether."""

    def __init__(self, below: Base, changes: Mapping[bytes, bytes | None]) -> None:
        self._below = below
        self._changes = changes
        self._ordered: list[bytes] | None = None

    def get(self, key: bytes) -> bytes | None:
        """Return one entry, or None."""
        return self._changes[key] if key in self._changes else self._below.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of different `keys`, None where there is none."""
        below = self._below.get_many(keys)
        return [self._changes.get(key, value) for key, value in zip(keys, below, strict=True)]

    def scan(self, prefix: bytes) -> Iterable[tuple[bytes, bytes]]:
        """Return all entries whose key starts with `prefix`, in key order."""
        entries: dict[bytes, bytes | None] = dict(self._below.scan(prefix))
        entries.update((key, self._changes[key]) for key in self._beginning(prefix))
        return [(key, value) for key in sorted(entries) if (value := entries[key]) is not None]

    def _beginning(self, prefix: bytes) -> Iterator[bytes]:
        """Return the changed keys that begin so: a walk over an element asks group by group."""
        if self._ordered is None:
            self._ordered = sorted(self._changes)
        ordered = self._ordered
        for at in range(bisect_left(ordered, prefix), len(ordered)):
            if not ordered[at].startswith(prefix):
                break
            yield ordered[at]


class DictBase:
    """A base in memory."""

    def __init__(self, entries: Mapping[bytes, bytes] | None = None) -> None:
        self._entries = dict(entries or {})

    def get(self, key: bytes) -> bytes | None:
        """Return one entry, or None."""
        return self._entries.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of different `keys`, None where there is none."""
        return list(map(self._entries.get, keys))

    def scan(self, prefix: bytes) -> Iterable[tuple[bytes, bytes]]:
        """Return all entries whose key starts with `prefix`, in key order."""
        return [(key, self._entries[key]) for key in sorted(self._entries) if key.startswith(prefix)]
