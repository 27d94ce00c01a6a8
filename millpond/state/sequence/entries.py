"""The entries of one element as rows in sequence see them: a dict over a base, which is read when a key is touched.

They are a `Map` in every operation, also where C code asks. What a row may leave with an object in two places, or of a
type that does not fit, is touched: it becomes a value when the row ends, as in plain Python.
"""

from __future__ import annotations

import copy
import datetime
import enum
import uuid
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, Protocol, Self

from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.keyforms import in_key_order
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.containers.counter import Counter
from millpond.state.containers.map import Map
from millpond.state.containers.ondemand import MISSING, Source
from millpond.state.containers.vector import Vector


class Noting(Source, Protocol):
    """A source that may want to know of entries before they are touched."""

    def note(self, unit: Any) -> None:
        """Note what an entry is, if that is not known yet."""
        ...


class _Floor:
    """A raw entry that is always there: C code that finds a dict without entries does not ask for its items."""

    def __repr__(self) -> str:
        return "entries of state that are read on demand"


_FLOOR: Final = _Floor()

_get = dict.get
_getitem = dict.__getitem__
_setitem = dict.__setitem__
_contains = dict.__contains__


_EXACT: Final = frozenset((int, str, bytes, bool, datetime.date, uuid.UUID))


def exact_type(hint: Any) -> type | None:
    """Return the type of keys that are what they must be if they are of it and found; None if more is to be seen."""
    return hint if hint in _EXACT or (isinstance(hint, type) and issubclass(hint, enum.Enum)) else None


class Entries(Map[Any, Any]):
    """Entries whose values can't be changed in place, or are not handed out.

    `exact` is the type that a key must have, None if its parts have to be looked at. What is stored and not of an
    `allowed` type is looked at when the row ends. Of keys that were `asked` for it is known what the base has.
    """

    source: Noting
    keys_codec: KeyCodec
    values_codec: ValueCodec
    exact: type | None
    allowed: frozenset[type]
    touched: dict[Any, None]
    asked: dict[Any, bytes | None]

    __slots__ = ("allowed", "asked", "exact", "keys_codec", "source", "touched", "values_codec")

    def end_row(self) -> None:
        """Make a value of what is in each place that was touched; one that does not fit its type is refused."""
        renew = self.values_codec.renew
        try:
            for key in self.touched:
                if _contains(self, key):
                    _setitem(self, key, renew(_getitem(self, key)))
        finally:
            self.touched.clear()

    # --- the raw dict

    def units(self) -> Iterator[Any]:
        """Return the keys of the entries that are held, in the order in which they came."""
        return islice(dict.__iter__(self), 1, None)

    def empty(self) -> None:
        """Hold nothing."""
        dict.clear(self)
        _setitem(self, _FLOOR, None)

    def load_all(self) -> None:
        """Hold all entries that the base has and that were not touched before."""
        for key, value in self.source.fetch_all().items():
            if not _contains(self, key):
                _setitem(self, key, value)

    def _loads(self, key: Any) -> bool:
        """Read an entry that is not held; say whether there is one."""
        value = self.source.fetch(key)
        if value is MISSING:
            return False
        _setitem(self, key, value)
        return True

    # --- what a dict does

    def __missing__(self, key: Any) -> Any:
        return _getitem(self, key) if self._loads(key) else self._absent(key)

    def _absent(self, key: Any) -> Any:
        raise KeyError(key)

    def __getitem__(self, key: Any) -> Any:
        if type(key) is not self.exact:
            self.keys_codec.check(key)
        return _getitem(self, key)

    def __contains__(self, key: object) -> bool:
        if type(key) is not self.exact:
            self.keys_codec.check(key)
        return _contains(self, key) or (key not in self.asked and self._loads(key))

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the entry, or `default`."""
        if type(key) is not self.exact:
            self.keys_codec.check(key)
        value = _get(self, key, MISSING)
        if value is not MISSING:
            return value
        return default if key in self.asked or not self._loads(key) else _getitem(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(key) is not self.exact or not _contains(self, key):
            self.keys_codec.check(key)
        if type(value) not in self.allowed:
            self.touched[key] = None
        _setitem(self, key, value)

    def __delitem__(self, key: Any) -> None:
        self.pop(key)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the entry; set to `default` first if there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: Any, *default: Any) -> Any:
        """Take the entry out and return it; `default` if there is none."""
        self.keys_codec.check(key)
        # Read first, so that what the base has is known, and a tombstone is written for it.
        found = self.source.fetch(key)
        if found is not MISSING and not _contains(self, key):
            return found
        return dict.pop(self, key, *default)

    def update(self, *others: Any, **named: Any) -> None:
        """Put many entries in."""
        for key, value in dict(*others, **named).items():
            self[key] = value

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def clear(self) -> None:
        """Remove all entries."""
        self.load_all()
        self.empty()

    def __iter__(self) -> Iterator[Any]:
        self.load_all()
        return iter(in_key_order(self.units()))

    def __len__(self) -> int:
        self.load_all()
        return dict.__len__(self) - 1

    def __eq__(self, other: object) -> bool:
        return self._ordered() == (other._ordered() if isinstance(other, Map) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    # --- copies

    def __copy__(self) -> Map[Any, Any]:
        return _bare(self)(self._ordered())

    def __deepcopy__(self, memo: dict[int, Any]) -> Map[Any, Any]:
        made = memo[id(self)] = _bare(self)(copy.deepcopy(self._ordered(), memo))
        return made

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _bare(self), (self._ordered(),)


def _bare(entries: Entries) -> type[Map[Any, Any]]:
    """Return the container that entries stand for."""
    return next(kind for kind in (Counter, Vector, Map) if isinstance(entries, kind))


class Counts(Entries, Counter[Any]):
    """The entries of a counter."""

    __slots__ = ()

    def _absent(self, key: Any) -> int:  # noqa: ARG002
        return 0


class Numbers(Entries, Vector[Any]):
    """The entries of a vector."""

    __slots__ = ()

    def _absent(self, key: Any) -> float:  # noqa: ARG002
        return 0.0


class Objects(Entries):
    """Entries whose values are handed out and can be changed: whatever is read is touched, too."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        if type(key) is not self.exact:
            self.keys_codec.check(key)
        self.touched[key] = None
        return _getitem(self, key)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the entry, or `default`."""
        found = Entries.get(self, key, default)
        self.touched[key] = None
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        Entries.__setitem__(self, key, value)
        self.touched[key] = None

    def _ordered(self) -> dict[Any, Any]:
        found = super()._ordered()
        self.touched.update(dict.fromkeys(found))
        return found


# --- all of it is held


class Held(Entries):
    """Entries that hold all that the base has; a key that is met counts as asked for."""

    __slots__ = ()

    def __contains__(self, key: object) -> bool:
        if type(key) is not self.exact or key not in self.asked:
            self.keys_codec.check(key)
            self.asked.setdefault(key)
        return _contains(self, key)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the entry, or `default`."""
        if type(key) is not self.exact or key not in self.asked:
            self.keys_codec.check(key)
            self.asked.setdefault(key)
        return _get(self, key, default)

    def __missing__(self, key: Any) -> Any:
        return self._absent(key)


class _HeldCounts(Held, Counts):
    __slots__ = ()


class _HeldNumbers(Held, Numbers):
    __slots__ = ()


class _HeldObjects(Held, Objects):
    __slots__ = ()

    get = Objects.get


# --- noting what entries were


class _NotesWrites(Entries):
    """Tells its source of every entry before it is written."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._note(key)
        super().__setitem__(key, value)

    def pop(self, key: Any, *default: Any) -> Any:
        """Take the entry out and return it; `default` if there is none."""
        self._note(key)
        return super().pop(key, *default)

    def clear(self) -> None:
        """Remove all entries."""
        self._note_all()
        super().clear()

    def _note(self, key: Any) -> None:
        self.keys_codec.check(key)
        self.source.note(key)

    def _note_all(self) -> None:
        self.load_all()
        for key in list(self.units()):
            self.source.note(key)


class _NotesAll(_NotesWrites):
    """Tells its source of every entry before it is touched."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the entry, or `default`."""
        self._note(key)
        return super().get(key, default)

    def _ordered(self) -> dict[Any, Any]:
        self._note_all()
        return super()._ordered()


class _NotingEntries(_NotesWrites):
    __slots__ = ()


class _NotingHidden(_NotesAll):
    __slots__ = ()


class _NotingCounts(_NotesWrites, Counts):
    __slots__ = ()


class _NotingNumbers(_NotesWrites, Numbers):
    __slots__ = ()


class _NotingObjects(_NotesAll, Objects):
    __slots__ = ()


class Hidden(Entries):
    """Entries whose values are changed in place, by their container alone."""

    __slots__ = ()


NOTING: Final[Mapping[type[Entries], type[Entries]]] = {
    Entries: _NotingEntries,
    Hidden: _NotingHidden,
    Counts: _NotingCounts,
    Numbers: _NotingNumbers,
    Objects: _NotingObjects,
}
"""What stands in for entries while it has to be known what they were."""

HOLDING: Final[Mapping[type[Entries], type[Entries]]] = {
    Entries: Held,
    Hidden: Hidden,
    Counts: _HeldCounts,
    Numbers: _HeldNumbers,
    Objects: _HeldObjects,
}
"""What stands in for entries once all of them are held."""
