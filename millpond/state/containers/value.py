"""The value: one thing in state.

>>> total = Value()
>>> total.set(total.get(0) + 5)
>>> total.get(0), total.is_set()
(5, True)
"""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from millpond.state.containers.access import Operation
from millpond.state.containers.map import Map

V = TypeVar("V")

THE_KEY = ()
"""The only key of a value or a list: all of it lives in one key group."""


class Value(Generic[V]):
    """One value in state: `self.total.get(0)`, `self.total.set(x)`."""

    kind: ClassVar[str] = "value"
    OPERATIONS: ClassVar[dict[str, Operation]] = {
        "get": Operation(keyed=False, writes=False, shares=True),
        "set": Operation(keyed=False, writes=True),
        "clear": Operation(keyed=False, writes=True),
        "is_set": Operation(keyed=False, writes=False),
    }

    __slots__ = ("_entries",)

    def __init__(self, *, entries: Map[tuple[()], V] | None = None) -> None:
        self._entries: Map[tuple[()], V] = Map() if entries is None else entries

    def get(self, default: V) -> V:
        """Return the value, or `default` where none was set."""
        return self._entries.get(THE_KEY, default)

    def set(self, value: V) -> None:
        """Replace the value."""
        self._entries[THE_KEY] = value

    def clear(self) -> None:
        """Forget the value."""
        self._entries.pop(THE_KEY, None)

    def is_set(self) -> bool:
        """Return whether there is a value."""
        return THE_KEY in self._entries

    def __repr__(self) -> str:
        return f"Value({self._entries.get(THE_KEY)!r})"
