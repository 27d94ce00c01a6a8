"""Entries for plain Python: a key or value that a checkpoint could not hold is refused, as it is on Spark.

A key is refused where it is only asked for, too: a dict would take 1, 1.0 and True for one key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from millpond.state.counter import Counter
from millpond.state.keycodec import KeyCodec
from millpond.state.map import Map
from millpond.state.valuecodec import ValueCodec
from millpond.state.vector import Vector


class Checked(Map[Any, Any]):
    """A map that checks what is put into it, and what it is asked for."""

    key_codec: KeyCodec
    value_codec: ValueCodec

    __slots__ = ("key_codec", "value_codec")

    def __getitem__(self, key: Any) -> Any:
        self.key_codec.check(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.key_codec.check(key)
        return super().__contains__(key)

    def __delitem__(self, key: Any) -> None:
        self.key_codec.check(key)
        super().__delitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        """The entry, or `default` if there is none."""
        self.key_codec.check(key)
        return super().get(key, default)

    def pop(self, key: Any, *default: Any) -> Any:
        """Take the entry out and return it; `default` if there is none."""
        self.key_codec.check(key)
        return super().pop(key, *default)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.key_codec.check(key)
        self.value_codec.check(value)
        dict.__setitem__(self, key, value)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The entry; set to `default` first if there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *others: Any, **named: Any) -> None:
        """Put many entries in."""
        for key, value in dict(*others, **named).items():
            self[key] = value

    def __ior__(self, other: Any) -> Self:  # type: ignore[misc]
        self.update(other)
        return self


class CheckedCounter(Checked, Counter[Any]):
    """A counter that checks what is put into it."""

    __slots__ = ()


class CheckedVector(Checked, Vector[Any]):
    """A vector that checks what is put into it."""

    __slots__ = ()


_CHECKED: Final[Mapping[type, type[Checked]]] = {Map: Checked, Counter: CheckedCounter, Vector: CheckedVector}


def checked_entries(kind: type, keys: KeyCodec, values: ValueCodec) -> Checked:
    """Make checked entries of a kind."""
    entries = _CHECKED[kind]()
    entries.key_codec = keys
    entries.value_codec = values
    return entries
