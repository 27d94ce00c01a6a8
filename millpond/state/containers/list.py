"""The list: an append log in state, stored by position so that an append writes one entry.

>>> log = List(["begin"])
>>> log.append("end")
>>> log[-1], len(log), list(log)
('end', 2, ['begin', 'end'])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Generic, TypeVar

from millpond.state.containers.access import Operation
from millpond.state.containers.map import Map

V = TypeVar("V")

_READ = Operation(keyed=False, writes=False)
_READ_VALUES = Operation(keyed=False, writes=False, shares=True)
_WRITE = Operation(keyed=False, writes=True)


class List(Generic[V]):
    """An append log: `self.log.append(x)`, `self.log[-1]`, `len(self.log)`, `for x in self.log`."""

    kind: ClassVar[str] = "list"
    OPERATIONS: ClassVar[dict[str, Operation]] = {
        "__getitem__": _READ_VALUES,
        "__setitem__": _WRITE,
        "__iter__": _READ_VALUES,
        "__len__": _READ,
        "append": _WRITE,
        "extend": _WRITE,
        "clear": _WRITE,
    }

    __slots__ = ("_entries",)

    def __init__(self, items: Iterable[V] = (), *, entries: Map[int, V] | None = None) -> None:
        self._entries: Map[int, V] = Map() if entries is None else entries
        self.extend(items)

    def append(self, item: V) -> None:
        """Add one item at the end."""
        self._entries[len(self._entries)] = item

    def extend(self, items: Iterable[V]) -> None:
        """Add items at the end, in order."""
        for item in items:
            self.append(item)

    def clear(self) -> None:
        """Remove all items."""
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[V]:
        return iter([self._entries[at] for at in range(len(self._entries))])

    def __getitem__(self, at: int) -> V:
        return self._entries[self._position(at)]

    def __setitem__(self, at: int, item: V) -> None:
        self._entries[self._position(at)] = item

    def _position(self, at: int) -> int:
        length = len(self._entries)
        place = at + length if at < 0 else at
        if not 0 <= place < length:
            message = f"list index {at} out of range, length {length}"
            raise IndexError(message)
        return place

    def __repr__(self) -> str:
        return f"List({list(self)!r})"
