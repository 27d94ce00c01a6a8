"""The overlay: an epoch's working state of one element over its frozen base.

Reads fall through to the base, writes and deletions stay on top; what differs from the base at the end is the delta.
Differences are found by comparing bytes, so that a value changed in place is seen like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import compress
from operator import is_not, ne
from typing import Any, Protocol

from millpond.state.element import ElementType
from millpond.state.lazy import MISSING
from millpond.state.map import Map
from millpond.state.storekey import PREFIX_BYTES, store_prefix

CHUNK_ENTRIES = 4096

_IS_SOME = partial(is_not, None)

Changes = list[tuple[bytes, bytes | None]]
"""Store keys with their new value, or None for a deletion."""


class Base(Protocol):
    """Committed state, frozen: the local store, or a dict in tests."""

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The entries that exist among `keys`."""
        ...

    def scan(self, prefix: bytes) -> Iterable[tuple[bytes, bytes]]:
        """All entries whose key starts with `prefix`, in key order."""
        ...


class KeyedOverlay:
    """A partitioned element on one partition: the keys of a batch are loaded at once, then it is a plain dict.

    `growth` is by how many entries the element grew, known once `changes` was called.
    """

    def __init__(self, element: ElementType, index: int, base: Base) -> None:
        self._element = element
        self._index = index
        self._base = base
        # Parallel lists, so that the end of an epoch is a few passes at the speed of C.
        self._units: list[Any] = []
        self._keys: list[bytes] = []
        self._before: list[bytes | None] = []
        self._held: set[Any] = set()
        self.growth = 0
        self.entries: dict[Any, Any] = element.keyed()
        self.container = element.wrap(self.entries)

    def prefetch(self, units: Sequence[Any], groups: Sequence[int]) -> None:
        """Load the entries of distinct `units`, each with its key group; those that are held already stay."""
        if self._held:
            fresh = [at for at, unit in enumerate(units) if unit not in self._held]
            units, groups = [units[at] for at in fresh], [groups[at] for at in fresh]
        if not units:
            return
        prefixes = {group: store_prefix(self._index, group) for group in set(groups)}
        encoded = self._element.keys.encode_many(units)
        keys = [prefixes[group] + unit for group, unit in zip(groups, encoded, strict=True)]
        found = self._base.get_many(keys)
        before = list(map(found.get, keys))
        self._units += units
        self._keys += keys
        self._before += before
        self._held.update(units)
        if found:
            present = list(compress(units, map(_IS_SOME, before)))
            values = self._element.values.decode_many(list(filter(_IS_SOME, before)))  # type: ignore[arg-type]
            dict.update(self.entries, zip(present, values, strict=True))

    def changes(self) -> Changes:
        """What differs from the base, unordered."""
        assert self._held.issuperset(dict.__iter__(self.entries)), "a key was written that was never loaded"
        units, keys, before = self._units, self._keys, self._before
        gone: Changes = []
        if len(self.entries) != len(units):
            live = [dict.__contains__(self.entries, unit) for unit in units]
            gone = [
                (key, None) for key, old, stays in zip(keys, before, live, strict=True) if old is not None and not stays
            ]
            units, keys, before = (list(compress(column, live)) for column in (units, keys, before))
        values: list[bytes] = []
        for start in range(0, len(units), CHUNK_ENTRIES):
            # Chunk by chunk, so that values are in the processor's cache when they are checked and then encoded.
            chunk = units[start : start + CHUNK_ENTRIES]
            values += self._element.values.encode_many([*map(self.entries.__getitem__, chunk)])
        self.growth = before.count(None) - len(gone)
        changed = list(map(ne, values, before))
        return [*compress(zip(keys, values, strict=True), changed), *gone]


class LazyOverlay:
    """One instance of a partial element, or a single-key element: entries are loaded when touched."""

    def __init__(self, element: ElementType, index: int, group: int, base: Base) -> None:
        self._element = element
        self._prefix = store_prefix(index, group)
        self._base = base
        self._before: dict[Any, bytes | None] = {}
        self._all_loaded = False
        self.growth = 0
        self.entries: Map[Any, Any] = element.lazy(self)
        self.container = element.wrap(self.entries)

    def fetch(self, unit: Any) -> Any:
        """Load one entry, or MISSING if the base has none or it was fetched before."""
        if unit in self._before or self._all_loaded:
            return MISSING
        key = self._prefix + self._element.keys.encode(unit)
        value = self._base.get_many((key,)).get(key)
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

    def changes(self) -> Changes:
        """What differs from the base, unordered."""
        entries = self.entries
        live = list(dict.__iter__(entries))
        codec = self._element.keys
        keys = {unit: self._prefix + data for unit, data in zip(live, codec.encode_many(live), strict=True)}
        unknown = [unit for unit in live if unit not in self._before]
        found = self._base.get_many([keys[unit] for unit in unknown])
        self._before.update((unit, found.get(keys[unit])) for unit in unknown)
        values = self._element.values.encode_many([dict.__getitem__(entries, unit) for unit in live])
        before = self._before
        changed: Changes = [
            (keys[unit], value) for unit, value in zip(live, values, strict=True) if before[unit] != value
        ]
        gone = [unit for unit, old in before.items() if old is not None and not dict.__contains__(entries, unit)]
        self.growth = sum(before[unit] is None for unit in live) - len(gone)
        changed += [(self._prefix + codec.encode(unit), None) for unit in gone]
        return changed


class DictBase:
    """A base in memory."""

    def __init__(self, entries: Mapping[bytes, bytes] | None = None) -> None:
        self._entries = dict(entries or {})

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The entries that exist among `keys`."""
        entries = self._entries
        return {key: entries[key] for key in keys if key in entries}

    def scan(self, prefix: bytes) -> Iterable[tuple[bytes, bytes]]:
        """All entries whose key starts with `prefix`, in key order."""
        return [(key, self._entries[key]) for key in sorted(self._entries) if key.startswith(prefix)]
