"""Containers on demand that note what entries were before they are touched, so that a row can be undone.

They are put in the place of others only once a row has raised: until then nobody pays for the notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from millpond.state.containers.ondemand import OnDemandCounter, OnDemandMap, OnDemandVector, Source


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
        """The entry, or `default`."""
        self.source.note(key)
        return super().get(key, default)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The entry; set to `default` first if there was none."""
        self.source.note(key)
        return super().setdefault(key, default)

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove and return the entry, or `default`."""
        self.source.note(key)
        return super().pop(key, *default)

    def update(self, *others: Any, **named: Any) -> None:
        """Put many entries in."""
        for key, value in dict(*others, **named).items():
            self[key] = value

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
