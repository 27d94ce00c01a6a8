"""Entries of which only some keys were loaded: a read of any other one is found, and never answered with a default.

Rows of gathered entry points bring the keys that they were found to touch. An entry that is there was loaded; only
where there is none does it have to be found out whether its key was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from millpond.errors import EpochError
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.shown import shown
from millpond.state.containers.counter import Counter
from millpond.state.containers.ondemand import MISSING
from millpond.state.containers.vector import Vector


class Guard:
    """The keys that were foreseen, and the first one that was not and yet asked for."""

    def __init__(self, keys: KeyCodec) -> None:
        self._keys = keys
        self._foreseen: set[Any] = set()
        self._missed: Any = MISSING

    def foresee(self, keys: Iterable[Any]) -> None:
        """Take keys for loaded."""
        self._foreseen.update(keys)

    def absent(self, key: Any) -> None:
        """Check the key of an entry that is not there; one that no key can be is refused as in plain Python."""
        if key not in self._foreseen:
            self._keys.check(key)
            self._missed = key
            raise unforeseen(key)

    def check(self) -> None:
        """Raise for a key that was missed, also if the user's code caught what was raised then."""
        if self._missed is not MISSING:
            raise unforeseen(self._missed)


def unforeseen(key: Any) -> EpochError:
    """Return the error for a row that touches a key that was not foreseen."""
    return EpochError(
        "MP440",
        "a row touched a key that was not foreseen",
        expected="a key of the row",
        found=shown(key),
        hint="this is a fault of Millpond, please report it; nothing was committed",
    )


class _Foreseen(dict[Any, Any]):
    """What asks a guard where a dict would say that there is no entry."""

    guard: Guard

    __slots__ = ()

    def __missing__(self, key: Any) -> Any:
        self.guard.absent(key)
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        if dict.__contains__(self, key):
            return True
        self.guard.absent(key)
        return False

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the entry, or `default`."""
        found = dict.get(self, key, MISSING)
        if found is MISSING:
            self.guard.absent(key)
            return default
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        if not dict.__contains__(self, key):
            self.guard.absent(key)
        dict.__setitem__(self, key, value)

    def pop(self, key: Any, *default: Any) -> Any:
        """Take the entry out and return it; `default` if there is none."""
        if not dict.__contains__(self, key):
            self.guard.absent(key)
        return dict.pop(self, key, *default)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the entry; set to `default` first if there was none."""
        if not dict.__contains__(self, key):
            self.guard.absent(key)
        return dict.setdefault(self, key, default)


class _Entries(_Foreseen):
    """Foreseen entries of a map, or below another container."""

    __slots__ = ("guard",)


class _Counts(_Foreseen, Counter[Any]):
    """Foreseen entries of a counter."""

    __slots__ = ("guard",)

    def __missing__(self, key: Any) -> Any:
        self.guard.absent(key)
        return 0


class _Numbers(_Foreseen, Vector[Any]):
    """Foreseen entries of a vector."""

    __slots__ = ("guard",)

    def __missing__(self, key: Any) -> Any:
        self.guard.absent(key)
        return 0.0


_KINDS: Final[Mapping[type, type[_Foreseen]]] = {Counter: _Counts, Vector: _Numbers}


def foreseen_entries(container: type, guard: Guard) -> dict[Any, Any]:
    """Return entries below a container that a guard watches over."""
    entries = _KINDS.get(container, _Entries)()
    entries.guard = guard
    return entries
