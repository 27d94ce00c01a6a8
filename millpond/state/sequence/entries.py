"""The entries of one element as rows in sequence see them: a dict over a base, which is read when a key is touched.

They are a `Map` in every operation, also where C code asks. What a row may leave with an object in two places, or of a
type that does not fit, is touched: it becomes a value when the row ends, as in plain Python.

The entries lie in a plain dict beside, `held`, which Python reaches faster than a dict with operations of its own.
"""

from __future__ import annotations

import copy
import datetime
import enum
import uuid
from collections.abc import Callable, Iterator
from sys import getrefcount
from typing import Any, Final, Protocol

from millpond.state.codec.canonical import UNFIT
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.keyforms import in_key_order
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.containers.counter import Counter
from millpond.state.containers.map import Map
from millpond.state.containers.ondemand import MISSING
from millpond.state.containers.vector import Vector


class Asked(Protocol):
    """What entries are read from, and what notes how they were; if it is `quick`, rows are undone all at once."""

    quick: bool

    def ask(self, unit: Any) -> None:
        """Read an entry that was not asked for."""
        ...

    def ask_all(self) -> None:
        """Read all entries that were not asked for."""
        ...

    def note(self, unit: Any) -> None:
        """Note what an entry is before it is touched, if that is not known yet."""
        ...


class _Floor:
    """A raw entry that is always there: C code that finds a dict without entries does not ask for its items."""

    def __repr__(self) -> str:
        return "entries of state that are read on demand"


_FLOOR: Final = _Floor()

UNREAD: Final = object()
"""Says of an entry that it was neither read nor written: it was what the base has."""

_EXACT: Final = frozenset((int, str, bytes, bool, datetime.date, uuid.UUID))


def exact_type(hint: Any) -> type | None:
    """Return the type of keys that are what they must be if they are of it and found; None if more is to be seen."""
    return hint if hint in _EXACT or (isinstance(hint, type) and issubclass(hint, enum.Enum)) else None


class Entries(Map[Any, Any]):
    """Entries whose values can't be changed in place, or are not handed out.

    `exact` is the type that a key must have, None if its parts have to be looked at. What is stored and not of an
    `allowed` type is looked at when the row ends. Of keys that were `asked` for it is known what the base has, and of
    those that are `noted` what they were: code that reaches entries directly looks into both.
    """

    source: Asked
    held: dict[Any, Any]
    keys_codec: KeyCodec
    values_codec: ValueCodec
    exact: type | None
    allowed: frozenset[type]
    touched: dict[Any, None]
    asked: dict[Any, bytes | None]
    noted: dict[Any, Any]

    __slots__ = ("allowed", "asked", "exact", "held", "keys_codec", "noted", "source", "touched", "values_codec")

    def end_row(self) -> None:
        """Make a value of what is in each place that was touched; one that does not fit its type is refused."""
        renew = self.values_codec.renew
        try:
            for key in self.touched:
                if key in self.held:
                    self.held[key] = renew(self.held[key])
        finally:
            self.touched.clear()

    # --- the raw dict

    def begin(self) -> None:
        """Hold nothing, and let C code that looks into the dict itself find that it must ask."""
        self.held = {}
        dict.__setitem__(self, _FLOOR, None)

    def _ordered(self) -> dict[Any, Any]:
        held = self.held
        return {key: held[key] for key in self}

    def _meet(self, key: Any) -> None:
        """Check a key, and read its entry if that was not done before."""
        if type(key) is not self.exact or key not in self.asked:
            self.keys_codec.check(key)
            if key not in self.asked:
                self.source.ask(key)

    def _note_all(self) -> None:
        self.source.ask_all()
        for key in list(self.held):
            self.source.note(key)

    # --- what a dict does

    def _absent(self, key: Any) -> Any:
        raise KeyError(key)

    def __getitem__(self, key: Any) -> Any:
        self._meet(key)
        value = self.held.get(key, MISSING)
        return self._absent(key) if value is MISSING else value

    def __contains__(self, key: object) -> bool:
        self._meet(key)
        return key in self.held

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the entry, or `default`."""
        self._meet(key)
        return self.held.get(key, default)

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(key) is not self.exact or not (key in self.held or key in self.asked):
            self.keys_codec.check(key)
        self.source.note(key)
        if type(value) not in self.allowed:
            self.touched[key] = None
        self.held[key] = value

    def __delitem__(self, key: Any) -> None:
        self.pop(key)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the entry; set to `default` first if there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: Any, *default: Any) -> Any:
        """Take the entry out and return it; `default` if there is none."""
        # Read first, so that what the base has is known, and a tombstone is written for it.
        self._meet(key)
        self.source.note(key)
        return self.held.pop(key, *default)

    def clear(self) -> None:
        """Remove all entries."""
        self._note_all()
        self.held.clear()

    def __iter__(self) -> Iterator[Any]:
        self.source.ask_all()
        return iter(in_key_order(self.held))

    def __len__(self) -> int:
        self.source.ask_all()
        return len(self.held)

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


class Hidden(Entries):
    """Entries whose values are changed in place, by their container alone: whatever is read may be changed.

    What was met since the last known point is `met`, if rows are undone all at once. Else `coded` is what entries were
    as bytes, as far as that is known and not what the base has; of those that are gone it says nothing.
    """

    coded: dict[Any, bytes]
    met: dict[Any, None]

    __slots__ = ("coded", "met")

    def __getitem__(self, key: Any) -> Any:
        self._meet(key)
        self.source.note(key)
        return Entries.__getitem__(self, key)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the entry, or `default`."""
        self._meet(key)
        self.source.note(key)
        return self.held.get(key, default)

    def _ordered(self) -> dict[Any, Any]:
        self._note_all()
        return super()._ordered()


class Objects(Hidden):
    """Entries whose values are handed out and can be changed: whatever is read is touched, too.

    `coded` is what entries were when the row ended that touched them last.
    """

    __slots__ = ()

    def end_row(self) -> None:
        """Make a value of what is in each place that was touched; one that does not fit its type is refused."""
        renew, coded, held = self.values_codec.renew_coded, self._coding(), self.held
        try:
            for key in self.touched:
                if key in held:
                    held[key], coded[key] = renew(held[key])
        finally:
            self.touched.clear()

    def _coding(self) -> dict[Any, bytes]:
        """Return where it is put what entries are when a row ends."""
        return {} if self.source.quick else self.coded

    def __getitem__(self, key: Any) -> Any:
        value = Hidden.__getitem__(self, key)
        self.touched[key] = None
        return value

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the entry, or `default`."""
        found = Hidden.get(self, key, default)
        self.touched[key] = None
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        Entries.__setitem__(self, key, value)
        self.touched[key] = None

    def _ordered(self) -> dict[Any, Any]:
        found = super()._ordered()
        self.touched.update(dict.fromkeys(found))
        return found


class Lists(Objects):
    """Entries that are lists of scalars: if nobody else has one, no change of it can be noticed elsewhere."""

    flat: tuple[Callable[[Any], bytes], Any, frozenset[type]]

    __slots__ = ("flat",)

    def end_row(self) -> None:
        """Make a value of what is in each place that was touched; one that does not fit its type is refused."""
        encode, kind, items = self.flat
        coded, held = self._coding(), self.held
        try:
            for key in self.touched:
                value: Any = held.get(key, MISSING)
                if value is MISSING:
                    continue
                coded[key] = data = encode(value)
                if type(value) is not kind or not items.issuperset(map(type, value)):
                    self.values_codec.check(value)
                if getrefcount(value) > _ALONE:
                    held[key] = self.values_codec.decode(data)
        except UNFIT:
            self.values_codec.check(value)
            raise
        finally:
            self.touched.clear()


def _references(others: int) -> int:
    """Count what refers to a value that is in a dict, in a variable of whoever asks, and in some others."""
    held: dict[str, list[int]] = {"a": []}
    elsewhere = [held["a"]] * others
    value: Any = held.get("a", elsewhere)
    return getrefcount(value)


def _most_alone() -> int:
    """Count what refers to a value that nobody else has; 0 where this Python's counts do not tell, so that all do.

    How many a variable and an argument count for differs between versions: from 3.14 on, an argument counts for none.
    What somebody else has must count for one more each, wherever it is, or a copy would be left out that is noticed.
    """
    alone, *shared = (_references(others) for others in range(4))
    return alone if shared == [alone + 1, alone + 2, alone + 3] else 0


_ALONE: Final = _most_alone()
