"""Containers that load an entry when it is first touched: partial instances may be larger than what a task needs."""

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
        """The entry, or `default`."""
        return dict.__getitem__(self, key) if key in self else default

    def setdefault(self, key: K, default: Any = None) -> Any:
        """The entry; set to `default` first if there was none."""
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
