"""The overlay of an element for rows in sequence: all of it, wherever it lies, read when it is touched.

What entries were at the last known point is noted when they are first touched, so that rows can be undone at any time.
Until a row has raised, an overlay is `quick`: no row is noted by itself then, and all since that point are undone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress, islice
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
from millpond.state.sequence.entries import UNREAD, Counts, Entries, Hidden, Lists, Numbers, Objects, exact_type
from millpond.state.units import in_store_order, store_keys_of

_NOTHING: Final[frozenset[type]] = frozenset()

READ_BY_READ: Final = 4
"""To read an entry by itself costs about so many times what it costs in a walk over all of them."""

NUMBER_BYTES: Final = 80
"""What a number takes in a list and in the copy of it."""

_NUMBERS: Final = frozenset((int, float, bool, type(None)))

COPIED_MAX: Final = 1 << 20
"""So many entries are copied at most to know them."""

ENTRY_BYTES: Final = 400
OBJECTS_BY_BYTES: Final = 4
"""What an entry takes in memory: by itself, and by the bytes that its value has in a file."""


class SequenceOverlay:
    """A partitioned element, an element of a single key, or one instance of a partial one, whose `group` is known.

    When as many entries were read that to read all would have been cheaper, all are: the base has about `held`, of all
    elements.
    """

    def __init__(
        self,
        element: ElementType,
        index: int,
        base: Base,
        key_groups: int,
        group: int | None = None,
        *,
        held: float = math.inf,
    ) -> None:
        self._element = element
        self._index = index
        self._base = base
        self._key_groups = key_groups
        self._group = group
        self._prefixes = [store_prefix(index, one) for one in (range(key_groups) if group is None else (group,))]
        self._before: dict[Any, bytes | None] = {}
        self._all_loaded = False
        self._fetches_max = held / READ_BY_READ
        self._fetches = 0
        # What entries were, by parts of a row that may be undone by themselves; `_noted` is what they were before.
        self._frames: list[dict[Any, Any]] = []
        # Entries that are noted when they are read are noted once, those that can't be changed in place at each write.
        self._noted: dict[Any, Any] = {}
        self._log: list[tuple[Any, Any]] = []
        self._free = [True]
        # Of a quick overlay: what entries were at the known point, None if there was none. Of values that can change
        # in place, these are those that were met before it, as copies or bytes; some of them were gone by then.
        self.quick = False
        self._point: dict[Any, Any] | None = None
        self._asked_then = 0
        self._removed: set[Any] = set()
        self._copies = element.values.flat is not None and element.values.flat[2] <= _NUMBERS
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
            made = Hidden() if not element.holds_objects else Lists() if values.flat else Objects()
        if isinstance(made, Hidden):
            made.coded, made.met = {}, {}
        if isinstance(made, Lists) and values.flat is not None:
            made.flat = values.flat
        made.source, made.keys_codec, made.values_codec = self, element.keys, values
        made.exact = tuple if element.single else exact_type(element.key_hint)
        # Of what the container itself makes nothing is looked at.
        made.allowed = values.scalars or _NOTHING
        made.touched, made.asked, made.noted = {}, self._before, self._noted
        made.begin()
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
        return None if type(self.entries) is Hidden else (self.entries.touched, self.entries.end_row)

    @property
    def reached(self) -> dict[str, Any]:
        """What code uses that reaches entries directly; `free` is true while notes are those of no part of a row."""
        entries = self.entries
        return {
            "held": entries.held,
            "get": entries.held.get,
            "key": entries.exact,
            "allowed": entries.allowed,
            "asked": entries.asked,
            "noted": self._noted,
            "note": self._noted.setdefault,
            "coded": entries.coded if isinstance(entries, Objects) else {},
            "code": entries.coded.get if isinstance(entries, Objects) else None,
            "pop": entries.held.pop,
            "log": self._log.append,
            "mark": entries.touched.setdefault,
            "met": entries.met.setdefault if isinstance(entries, Hidden) else None,
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

    def ask(self, unit: Any) -> None:
        """Read an entry that was not asked for; one that was written since stays what it is."""
        value = self.fetch(unit)
        if value is not MISSING and unit not in self.entries.held:
            self.entries.held[unit] = value

    def read_ahead(self, units: Iterable[Any]) -> None:
        """Read entries at once that rows may touch, as far as they were not asked for."""
        fresh = [unit for unit in dict.fromkeys(units) if unit not in self._before]
        if not fresh:
            return
        self._fetches += len(fresh)
        if not self._all_loaded and self._fetches > self._fetches_max:
            self.ask_all()
            fresh = [unit for unit in fresh if unit not in self._before]
        if self._all_loaded:
            self._before.update(dict.fromkeys(fresh))
            return
        found = self._known(self._base.get_many(self._keys(fresh)))
        self._before.update(zip(fresh, found, strict=True))
        there = [(unit, value) for unit, value in zip(fresh, found, strict=True) if value is not None]
        held = self.entries.held
        values = self._element.values.decode_many([value for _, value in there])
        for (unit, _), value in zip(there, values, strict=True):
            held.setdefault(unit, value)

    def fetch(self, unit: Any) -> Any:
        """Load one entry, or MISSING if the base has none or it was fetched before."""
        if unit in self._before:
            return MISSING
        self._fetches += 1
        if not self._all_loaded and self._fetches > self._fetches_max:
            self.ask_all()
            if unit in self._before:
                return MISSING
        if self._all_loaded:
            self._before[unit] = None
            return MISSING
        (value,) = self._known([self._base.get(self._key(unit))])
        self._before[unit] = value
        return MISSING if value is None else self._element.values.decode(value)

    def ask_all(self) -> None:
        """Read all entries that were not asked for."""
        held = self.entries.held
        for unit, value in self.fetch_all().items():
            held.setdefault(unit, value)

    def fetch_all(self) -> Mapping[Any, Any]:
        """Load every entry that was not fetched before."""
        if self._all_loaded:
            return {}
        units, stored = self._scan()
        self._before.update(zip(units, stored, strict=True))
        self._all_loaded = True
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
        """Know entries as they are now."""
        self._noted.clear()
        self._log.clear()
        if self.quick:
            self._asked_then = len(self._before)
            if isinstance(self.entries, Hidden):
                self._point = self._point or {}
                self._keep_met(self.entries, self._point)
            else:
                self._point = self.entries.held.copy()

    def _keep_met(self, entries: Hidden, point: dict[Any, Any]) -> None:
        """Keep what entries are that were met since the known point."""
        held = entries.held
        there = [unit for unit in entries.met if unit in held]
        if self._copies:
            point.update((unit, held[unit].copy()) for unit in there)
        else:
            point.update(zip(there, self._encoded(there), strict=True))
        self._removed.difference_update(there)
        for unit in entries.met.keys() - there:
            point.pop(unit, None)
            self._removed.add(unit)
        entries.met.clear()

    def _encoded(self, units: Sequence[Any]) -> list[bytes]:
        return self._element.values.encode_many(list(map(self.entries.held.__getitem__, units)))

    @property
    def is_large(self) -> bool:
        """Whether to know entries anew costs more than to note what rows change."""
        return not isinstance(self.entries, Hidden) and len(self.entries.held) > COPIED_MAX

    def note_rows(self) -> None:
        """Be quick no more, at a point that is known."""
        entries, point = self.entries, self._point or {}
        if self.quick and isinstance(entries, Objects) and point:
            coded = zip(point, self._encoded(list(point)) if self._copies else point.values(), strict=True)
            entries.coded.update(coded)
        self.quick, self._point = False, None
        self._removed.clear()

    def _undo_all(self) -> None:
        """Make all entries what they were at the last known point, or first; from now on, rows are noted."""
        entries, point, before, decode = self.entries, self._point, self._before, self._element.values.decode
        if point is None:
            self.forget(held=READ_BY_READ * self._fetches_max)
        elif isinstance(entries, Hidden):
            for unit in entries.met:
                kept = point.get(unit)
                if kept is not None and self._copies:
                    entries.held[unit] = kept.copy()
                    continue
                data = before.get(unit) if kept is None and unit not in self._removed else kept
                if data is None:
                    entries.held.pop(unit, None)
                else:
                    entries.held[unit] = decode(data)
            entries.met.clear()
        else:
            read_since = islice(before.items(), self._asked_then, None)
            entries.held.clear()
            entries.held.update((unit, decode(data)) for unit, data in read_since if data is not None)
            entries.held.update(point)
        entries.touched.clear()
        self.note_rows()

    def undo(self) -> None:
        """Make all entries what they were when it began; what they were first, if it never did."""
        if self.quick:
            self._undo_all()
            return
        # Of several notes the first one counts.
        self._bring_back({**dict(reversed(self._log)), **self._noted})
        self.begin()
        self.entries.touched.clear()

    def enter(self) -> None:
        """Begin a part of a row that may be undone by itself."""
        self._frames.append({})
        self._free.clear()

    def leave(self, *, keep: bool) -> None:
        """End such a part: keep what it did, or undo it."""
        frame = self._frames.pop()
        if keep and not self._frames and self.quick:
            pass
        elif keep and not self._frames and self._logs:
            self._log += frame.items()
        elif keep:
            around = self._frames[-1] if self._frames else self._noted
            for unit, was in frame.items():
                around.setdefault(unit, was)
        else:
            self._bring_back(frame)
        if not self._frames:
            self._free[:] = [True]

    def note(self, unit: Any) -> None:
        """Note what an entry is before it is touched, if that is not known yet."""
        if self.quick:
            if isinstance(self.entries, Hidden):
                self.entries.met[unit] = None
            if not self._frames:
                return
        notes = self._frames[-1] if self._frames else self._noted
        if self._logs and not self._frames:
            self._log.append((unit, self._now(unit)))
        elif unit not in notes:
            notes[unit] = self._now(unit)

    @property
    def _logs(self) -> bool:
        """Whether values can't be changed in place."""
        return not isinstance(self.entries, Hidden)

    def _now(self, unit: Any) -> Any:
        """Return what brings an entry back: a value that can't be changed, or bytes; MISSING if there is none."""
        entries = self.entries
        if unit not in entries.held:
            return MISSING if unit in self._before or self._all_loaded else UNREAD
        if not isinstance(entries, Hidden):
            return entries.held[unit]
        if isinstance(entries, Objects) and not self.quick and unit not in entries.touched:
            data = entries.coded.get(unit) or self._before.get(unit)
            if data is not None:
                return data
        return self._element.values.encode(entries.held[unit])

    def _bring_back(self, noted: Mapping[Any, Any]) -> None:
        entries, decode = self.entries, self._element.values.decode
        for unit, was in noted.items():
            coded = entries.coded if isinstance(entries, Objects) and not self.quick else {}
            coded.pop(unit, None)
            value = was
            if was is UNREAD:
                # It may have been read since.
                data = self._before.get(unit)
                value = MISSING if data is None else decode(data)
            elif was is not MISSING and isinstance(entries, Hidden):
                value, coded[unit] = decode(was), was
            if value is MISSING:
                entries.held.pop(unit, None)
            else:
                entries.held[unit] = value

    def _find_overwritten(self, units: Sequence[Any]) -> None:
        """Look up what the base holds for units that were written without being read."""
        unknown = [unit for unit in units if unit not in self._before]
        found: list[bytes | None] = [None] * len(unknown)
        if not self._all_loaded and unknown:
            found = self._known(self._base.get_many(self._keys(unknown)))
        self._before.update(zip(unknown, found, strict=True))

    # --- what changed

    def changes(self) -> Changes:
        """Return what differs from the base, in store order; tombstones are behind it."""
        entries = self.entries
        entries.end_row()
        held = entries.held
        keys, live = self._in_store_order(list(held))
        self._find_overwritten(live)
        before = list(map(self._before.__getitem__, live))
        values: list[bytes | None]
        if self.quick and isinstance(entries, Hidden):
            met = entries.met.keys() | (self._point or {}).keys()
            changing = [unit for unit in live if unit in met]
            values = list(map(dict(zip(changing, self._encoded(changing), strict=True)).get, live, before))
        elif isinstance(entries, Objects):
            values = list(map(entries.coded.get, live, before))
        else:
            values = [*self._encoded(live)]
        changed = list(map(ne, values, before))
        gone = [unit for unit, old in self._before.items() if old is not None and unit not in held]
        self.growth += before.count(None) - len(gone)
        return Changes(
            [*compress(keys, changed), *self._keys(gone)], [*compress(values, changed), *([None] * len(gone))]
        )

    def _in_store_order(self, units: list[Any]) -> tuple[list[bytes], list[Any]]:
        if self._group is None:
            placed = in_store_order(self._index, self._element.keys, units, self._key_groups)
            return placed.keys, placed.units
        return self._keys(units), units

    # --- memory

    @property
    def size_bytes(self) -> int:
        """About what the entries that are held take in memory."""
        entries = self.entries
        coded = entries.coded.values() if isinstance(entries, Hidden) else ()
        size = self._size_of(max(len(self._before), len(entries.held)), chain(self._before.values(), coded))
        if self.quick and isinstance(entries, Hidden):
            self.begin()
            kept = sum(map(len, (self._point or {}).values()))
            size += (NUMBER_BYTES if self._copies else OBJECTS_BY_BYTES) * kept
        return size

    def _size_of(self, entries: int, stored: Iterable[bytes | None]) -> int:
        return entries * ENTRY_BYTES + OBJECTS_BY_BYTES * sum(map(len, filter(None, stored)))

    def forget(self, *, held: float = math.inf) -> None:
        """Hold nothing, between two rows and once the base has all that changed; it has about `held` entries then."""
        self.entries.held.clear()
        if isinstance(self.entries, Hidden):
            self.entries.coded.clear()
            self.entries.met.clear()
        self._point = None
        self._removed.clear()
        self._forget_read(held)

    def _forget_read(self, held: float) -> None:
        self._before.clear()
        self.begin()
        self._all_loaded = False
        self._fetches, self._fetches_max = 0, held / READ_BY_READ
