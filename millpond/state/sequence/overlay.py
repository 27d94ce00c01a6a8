"""The overlay of an element for rows in sequence: all of it, wherever it lies, read when it is touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import compress
from operator import ne
from typing import Any, Final

from millpond.keygroups import stable_hash
from millpond.state.changes import Changes
from millpond.state.containers.counter import Counter
from millpond.state.containers.element import ElementType
from millpond.state.containers.matrix import Matrix
from millpond.state.containers.ondemand import MISSING
from millpond.state.containers.vector import Vector
from millpond.state.local.storekey import PREFIX_BYTES, store_prefix
from millpond.state.overlay import Base
from millpond.state.sequence.entries import HOLDING, NOTING, Counts, Entries, Hidden, Numbers, Objects, exact_type
from millpond.state.units import in_store_order, store_keys_of

_contains = dict.__contains__
_getitem = dict.__getitem__
_NOTHING: Final[frozenset[type]] = frozenset()


class SequenceOverlay:
    """A partitioned element, an element of a single key, or one instance of a partial one, whose `group` is known.

    If it is `small`, all of it is read at once when the first key is missed.
    """

    def __init__(
        self,
        element: ElementType,
        index: int,
        base: Base,
        key_groups: int,
        group: int | None = None,
        *,
        small: bool = False,
    ) -> None:
        self._element = element
        self._index = index
        self._base = base
        self._key_groups = key_groups
        self._group = group
        self._prefixes = [store_prefix(index, one) for one in (range(key_groups) if group is None else (group,))]
        self._before: dict[Any, bytes | None] = {}
        self._all_loaded = False
        self._small = small
        # What entries were, as bytes, None for none: since it began, and since each part of a row began inside.
        self._frames: list[dict[Any, bytes | None]] = []
        self._begun = False
        self._free = [True]
        self.growth = 0
        self.entries = self._make()
        self.container = self._wrap()

    def _make(self) -> Entries:
        element, values = self._element, self._element.values
        made: Entries
        if element.container is Counter:
            made = Counts()
        elif element.container is Vector:
            made = Numbers()
        elif values.immutable:
            made = Entries()
        else:
            made = Objects() if element.holds_objects else Hidden()
        made.source, made.keys_codec, made.values_codec = self, element.keys, values
        made.exact = tuple if element.single else exact_type(element.key_hint)
        # Of what the container itself makes nothing is looked at.
        made.allowed = values.scalars or _NOTHING
        made.touched, made.asked = {}, self._before
        made.empty()
        self._kind = type(made)
        return made

    def _wrap(self) -> Any:
        element = self._element
        if element.container is Matrix:
            zero = element.arguments[2]()
            return Matrix(by=element.by, zero=zero, entries=self.entries, check=element.values.check)
        return element.wrap(self.entries)

    @property
    def ending(self) -> tuple[Any, Any] | None:
        """What is touched, and what makes values of it when a row ends."""
        return None if self._kind is Hidden else (self.entries.touched, self.entries.end_row)

    @property
    def reached(self) -> dict[str, Any]:
        """What code uses that reaches entries directly; `free` is true while nothing has to be noted before a touch."""
        entries = self.entries
        return {
            "raw": entries,
            "get": dict.get.__get__(entries),
            "has": dict.__contains__.__get__(entries),
            "set": dict.__setitem__,
            "key": entries.exact,
            "allowed": entries.allowed,
            "asked": entries.asked,
            "mark": entries.touched.setdefault,
            "free": self._free,
        }

    # --- reading

    def _key(self, unit: Any) -> bytes:
        data = self._element.keys.encode(unit)
        return self._prefixes[0 if self._group is not None else stable_hash(unit) % self._key_groups] + data

    def _keys(self, units: Sequence[Any]) -> list[bytes]:
        if self._group is None:
            return store_keys_of(self._index, self._element.keys, units, self._key_groups)
        return [self._prefixes[0] + data for data in self._element.keys.encode_many(units)]

    def _known(self, stored: list[bytes | None]) -> list[bytes | None]:
        """Return entries of the base that count as there."""
        return stored

    def fetch(self, unit: Any) -> Any:
        """Load one entry, or MISSING if the base has none or it was fetched before."""
        if self._all_loaded or unit in self._before:
            return MISSING
        if self._small:
            self._load_all()
            return dict.get(self.entries, unit, MISSING)
        (value,) = self._known([self._base.get(self._key(unit))])
        self._before[unit] = value
        return MISSING if value is None else self._element.values.decode(value)

    def _load_all(self) -> None:
        self.entries.load_all()

    def fetch_all(self) -> Mapping[Any, Any]:
        """Load every entry that was not fetched before."""
        if self._all_loaded:
            return {}
        units, stored = self._scan()
        self._before.update(zip(units, stored, strict=True))
        self._all_loaded = True
        self._switch()
        return dict(zip(units, self._element.values.decode_many(stored), strict=True))

    def _scan(self) -> tuple[list[Any], list[bytes]]:
        """Return all entries of the base that were not fetched before."""
        found = [pair for prefix in self._prefixes for pair in self._base.scan(prefix)]
        units = self._element.keys.decode_many([key[PREFIX_BYTES:] for key, _ in found])
        known = self._known([value for _, value in found])
        fresh = [
            (unit, value)
            for unit, value in zip(units, known, strict=True)
            if value is not None and unit not in self._before
        ]
        return [unit for unit, _ in fresh], [value for _, value in fresh]

    # --- undoing

    def begin(self) -> None:
        """From now on, know what entries were before they are touched."""
        self._frames = [{}]
        self._begun = True
        self._switch()

    def undo(self) -> None:
        """Make all entries what they were when it began; what they were first, if it never did."""
        self._bring_back(self._frames[0] if self._begun else self._committed())
        self._frames = [{}] if self._begun else []
        self.entries.touched.clear()
        self._switch()

    def enter(self) -> None:
        """Begin a part of a row that may be undone by itself."""
        self._frames.append({})
        self._switch()

    def leave(self, *, keep: bool) -> None:
        """End such a part: keep what it did, or undo it."""
        frame = self._frames.pop()
        if not keep:
            self._bring_back(frame)
        elif self._frames:
            self._frames[-1] = frame | self._frames[-1]
        self._switch()

    def _switch(self) -> None:
        """Let entries tell what they were, or no longer; the object stays the one that user code holds."""
        kind = self._kind
        self._free[:] = [] if self._frames else [True]
        self.entries.__class__ = NOTING[kind] if self._frames else HOLDING[kind] if self._all_loaded else kind

    def note(self, unit: Any) -> None:
        """Note what an entry is before it is touched."""
        frame = self._frames[-1]
        if unit not in frame:
            frame[unit] = self._stored(unit)

    def _stored(self, unit: Any) -> bytes | None:
        """Return an entry as it would be stored now."""
        entries = self.entries
        if not dict.__contains__(entries, unit):
            value = self.fetch(unit)
            if value is MISSING:
                return None
            dict.__setitem__(entries, unit, value)
        return self._element.values.encode(dict.__getitem__(entries, unit))

    def _bring_back(self, stored: Mapping[Any, bytes | None]) -> None:
        decode = self._element.values.decode
        for unit, value in stored.items():
            if value is None:
                dict.pop(self.entries, unit, None)
            else:
                dict.__setitem__(self.entries, unit, decode(value))

    def _committed(self) -> dict[Any, bytes | None]:
        """Return what the base holds of all that was touched, or written without being read."""
        self._find_overwritten(list(self.entries.units()))
        return self._before

    def _find_overwritten(self, units: Sequence[Any]) -> None:
        """Look up what the base holds for units that were written without being read."""
        unknown = [unit for unit in units if unit not in self._before]
        found: list[bytes | None] = [None] * len(unknown)
        if not self._all_loaded and unknown:
            found = self._known(self._base.get_many(self._keys(unknown)))
        self._before.update(zip(unknown, found, strict=True))

    # --- what changed

    def changes(self) -> Changes:
        """Return what differs from the base, in store order; that of tombstones is behind it."""
        entries = self.entries
        held = list(entries.units())
        keys, live = self._in_store_order(held)
        self._find_overwritten(live)
        before = list(map(self._before.__getitem__, live))
        values: list[bytes | None] = [*self._element.values.encode_many(list(map(partial(_getitem, entries), live)))]
        changed = list(map(ne, values, before))
        gone = [unit for unit, old in self._before.items() if old is not None and not _contains(entries, unit)]
        self.growth = before.count(None) - len(gone)
        return Changes(
            [*compress(keys, changed), *self._keys(gone)], [*compress(values, changed), *([None] * len(gone))]
        )

    def _in_store_order(self, units: list[Any]) -> tuple[list[bytes], list[Any]]:
        if self._group is None:
            placed = in_store_order(self._index, self._element.keys, units, self._key_groups)
            return placed.keys, placed.units
        return self._keys(units), units
