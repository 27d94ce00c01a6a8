"""The set: members in state, iterated in their order.

>>> seen = Set(["b"])
>>> seen.add("a")
>>> "a" in seen, list(seen)
(True, ['a', 'b'])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet
from typing import ClassVar, TypeVar

from millpond.state.containers.access import READ_ALL, READ_KEY, WRITE_ALL, WRITE_KEY, Operation
from millpond.state.containers.map import Map

T = TypeVar("T")


class Set(MutableSet[T]):
    """A set in state: `x in self.s`, `.add(x)`, `.discard(x)`, `.remove(x)`, `for x in self.s` in order."""

    kind: ClassVar[str] = "set"
    OPERATIONS: ClassVar[dict[str, Operation]] = {
        "__contains__": READ_KEY,
        "add": WRITE_KEY,
        "discard": WRITE_KEY,
        "remove": WRITE_KEY,
        "__iter__": READ_ALL,
        "__len__": READ_ALL,
        "clear": WRITE_ALL,
    }

    __slots__ = ("_entries",)

    def __init__(self, members: Iterable[T] = (), *, entries: Map[T, None] | None = None) -> None:
        self._entries: Map[T, None] = Map() if entries is None else entries
        for member in members:
            self._entries[member] = None

    def __contains__(self, member: object) -> bool:
        return member in self._entries

    def __iter__(self) -> Iterator[T]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, value: T) -> None:
        """Put a member in."""
        self._entries[value] = None

    def discard(self, value: T) -> None:
        """Take a member out, if it is in."""
        self._entries.pop(value, None)

    def clear(self) -> None:
        """Take all members out."""
        self._entries.clear()

    def __repr__(self) -> str:
        return f"Set({list(self)!r})"
