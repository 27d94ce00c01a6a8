"""Containers that load an entry when it is first touched: partial instances may be larger than what a task needs.

Journaled ones note what entries were before they are touched, so that a row can be undone. They are put in the place of
others only once a row has raised: until then nobody pays for the notes.

>>> class Shelf:
...     def fetch(self, unit):
...         print("fetch", unit)
...         return {"a": 1}.get(unit, MISSING)
>>> entries = OnDemandMap()
>>> entries.source = Shelf()
>>> entries["a"], entries["a"]
fetch a
(1, 1)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol, TypeVar

from millpond.state.containers.counter import Counter
from millpond.state.containers.map import Map
from millpond.state.containers.vector import Vector

K = TypeVar("K")
V = TypeVar("V")

MISSING: Final = object()
"""Says that a base holds no such entry; `None` may be a value."""


class Source(Protocol):
    """Where a container on demand finds the entries that it does not hold yet."""

    def fetch(self, unit: Any) -> Any:
        """Load one entry, or MISSING if the base has none or it was fetched before."""
        ...

    def fetch_all(self) -> Mapping[Any, Any]:
        """Load every entry that was not fetched before."""
        ...


class OnDemand(Map[K, V]):
    """A map over a base: reads fall through once, writes stay on top."""

    source: Source

    __slots__ = ("source",)

    def __missing__(self, key: K) -> Any:
        value = self.source.fetch(key)
        if value is MISSING:
            return self._absent(key)
        dict.__setitem__(self, key, value)
        return value

    def _absent(self, key: K) -> Any:
        raise KeyError(key)

    def _load_all(self) -> None:
        for key, value in self.source.fetch_all().items():
            if not dict.__contains__(self, key):
                dict.__setitem__(self, key, value)

    def __contains__(self, key: Any) -> bool:
        if dict.__contains__(self, key):
            return True
        value = self.source.fetch(key)
        if value is MISSING:
            return False
        dict.__setitem__(self, key, value)
        return True

    def get(self, key: K, default: Any = None) -> Any:
        """Return the entry, or `default`."""
        return dict.__getitem__(self, key) if key in self else default

    def setdefault(self, key: K, default: Any = None) -> Any:
        """Return the entry; set to `default` first if there was none."""
        if key not in self:
            dict.__setitem__(self, key, default)
        return dict.__getitem__(self, key)

    def pop(self, key: K, *default: Any) -> Any:
        """Remove and return the entry, or `default`.

        The one way to remove an entry: a `__delitem__` of our own would make every assignment pass through Python, so
        generated code says `pop` where the program says `del`.
        """
        # Fetched first, so that the base's entry is known and a tombstone is written for it.
        found = self.source.fetch(key)
        if dict.__contains__(self, key):
            return dict.pop(self, key)
        if found is not MISSING:
            return found
        if default:
            return default[0]
        raise KeyError(key)

    def clear(self) -> None:
        """Remove all entries."""
        self._load_all()
        dict.clear(self)

    def __iter__(self) -> Iterator[K]:
        self._load_all()
        return Map.__iter__(self)

    def __len__(self) -> int:
        self._load_all()
        return dict.__len__(self)


class OnDemandMap(OnDemand[K, V]):
    """A map over a base."""

    __slots__ = ()


class OnDemandCounter(OnDemand[K, int], Counter[K]):
    """A counter over a base."""

    __slots__ = ()

    def _absent(self, key: K) -> int:  # noqa: ARG002
        return 0


class OnDemandVector(OnDemand[K, float], Vector[K]):
    """A vector over a base."""

    __slots__ = ()

    def _absent(self, key: K) -> float:  # noqa: ARG002
        return 0.0


ON_DEMAND: Final[Mapping[type, type]] = {Map: OnDemandMap, Counter: OnDemandCounter, Vector: OnDemandVector}
"""The on-demand form of each kind of entries."""


class Noting(Source, Protocol):
    """A source that wants to know of every entry before it is touched."""

    def note(self, unit: Any) -> None:
        """Note what an entry is, if that is not known yet."""
        ...

    def note_all(self) -> None:
        """Note what all entries are."""
        ...


class JournaledMap(OnDemandMap[Any, Any]):
    """A map on demand that notes."""

    source: Noting

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        self.source.note(key)
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.source.note(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        self.source.note(key)
        super().__delitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the entry, or `default`."""
        self.source.note(key)
        return super().get(key, default)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the entry; set to `default` first if there was none."""
        self.source.note(key)
        return super().setdefault(key, default)

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove and return the entry, or `default`."""
        self.source.note(key)
        return super().pop(key, *default)

    def clear(self) -> None:
        """Remove all entries."""
        self.source.note_all()
        super().clear()

    def _ordered(self) -> dict[Any, Any]:
        self.source.note_all()
        return super()._ordered()


class JournaledCounter(JournaledMap, OnDemandCounter[Any]):
    """A counter on demand that notes."""

    __slots__ = ()


class JournaledVector(JournaledMap, OnDemandVector[Any]):
    """A vector on demand that notes."""

    __slots__ = ()


JOURNALED: Final[Mapping[type, type]] = {
    OnDemandMap: JournaledMap,
    OnDemandCounter: JournaledCounter,
    OnDemandVector: JournaledVector,
}
"""What stands in for each kind of entries on demand."""
