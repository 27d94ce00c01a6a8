"""A state element's type: its container, the types of its keys and values, and how its containers are made.

>>> declared = ElementType.parse(Map[str, int], None)
>>> declared.kind, declared.text, declared.keys.encode("mill")
('map', 'Map[str, int]', b'mill')
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, get_args, get_origin

from millpond.errors import StateError
from millpond.state.checked import Checked, checked_entries
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.typenames import type_text
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.containers.access import Operation
from millpond.state.containers.counter import Counter
from millpond.state.containers.list import List
from millpond.state.containers.map import Map
from millpond.state.containers.matrix import Matrix
from millpond.state.containers.ondemand import ON_DEMAND, Source
from millpond.state.containers.set import Set
from millpond.state.containers.value import THE_KEY, Value
from millpond.state.containers.vector import Vector
from millpond.state.journal import Journal

_ARGUMENTS: dict[type, int] = {Map: 2, Set: 1, Counter: 1, Value: 1, List: 1, Vector: 1, Matrix: 3}
_ENTRIES_ARE_CONTAINER = (Map, Counter, Vector)


@dataclass(frozen=True)
class ElementType:
    """The declared type of a state element, e.g. `Map[int, float]` or `Matrix[int, int, float]` by row."""

    container: type
    arguments: tuple[Any, ...]
    by: str

    @classmethod
    def parse(cls, declared: Any, by: str | None) -> ElementType:
        """Read `Map[int, float]` as written in a declaration."""
        container = get_origin(declared) or declared
        wanted = _ARGUMENTS.get(container)
        if wanted is None:
            raise StateError(
                "MP211",
                "this is not a state container",
                expected=", ".join(sorted(kind.__name__ for kind in _ARGUMENTS)),
                found=type_text(declared),
            )
        arguments = get_args(declared)
        if len(arguments) != wanted:
            raise StateError(
                "MP212",
                f"{container.__name__} needs its types",
                expected=f"{container.__name__}[...] with {wanted} type(s)",
                found=type_text(declared),
            )
        if container is Matrix:
            by = "row" if by is None else by
            if by not in ("row", "column"):
                raise StateError("MP213", "by= of a matrix is neither row nor column", expected="row, column", found=by)
            if arguments[2] not in (int, float, Decimal):
                raise StateError(
                    "MP214",
                    "the cells of a matrix must be numbers",
                    expected="int, float or Decimal",
                    found=type_text(arguments[2]),
                    hint="keep other values in a map, e.g. Map[tuple[int, int], str]",
                )
        elif by is not None:
            raise StateError("MP213", "by= is given to something that is not a matrix", expected="no `by`", found=by)
        element = cls(container, arguments, by or "")
        assert element.keys is not None
        assert element.values is not None
        return element

    def __reduce__(self) -> tuple[Any, ...]:
        # The codecs are made again where the element arrives.
        return type(self), (self.container, self.arguments, self.by)

    @property
    def kind(self) -> str:
        """The container's name in checkpoints and graphs."""
        kind: str = self.container.kind  # type: ignore[attr-defined]
        return kind

    @property
    def operations(self) -> dict[str, Operation]:
        """What each operation of the container does."""
        operations: dict[str, Operation] = self.container.OPERATIONS  # type: ignore[attr-defined]
        return operations

    @property
    def single(self) -> bool:
        """Whether the whole element lives under one key (a value, a list)."""
        return self.container in (Value, List)

    @property
    def is_dict(self) -> bool:
        """Whether the container is its entries, a dict."""
        return self.container in _ENTRIES_ARE_CONTAINER

    @cached_property
    def key_hint(self) -> Any:
        """The type of an entry's key."""
        if self.container is Value:
            return tuple[()]
        if self.container is List:
            return int
        if self.container is Matrix:
            return self.arguments[0 if self.by == "row" else 1]
        return self.arguments[0]

    @cached_property
    def value_hint(self) -> Any:
        """The type of an entry's value."""
        if self.container is Map:
            return self.arguments[1]
        if self.container is Matrix:
            row, column, value = self.arguments
            across = column if self.by == "row" else row
            return dict[across, value]  # type: ignore[valid-type]
        fixed: dict[type, Any] = {Counter: int, Vector: float, Set: None}
        return fixed[self.container] if self.container in fixed else self.arguments[0]

    @cached_property
    def keys(self) -> KeyCodec:
        """The codec of the entries' keys."""
        return KeyCodec(self.key_hint)

    @cached_property
    def values(self) -> ValueCodec:
        """The codec of the entries' values."""
        return ValueCodec(self.value_hint)

    @property
    def row_values(self) -> ValueCodec:
        """The codec of what user code sees of an entry: its value, whatever else is stored with it."""
        return self.values

    @property
    def text(self) -> str:
        """The type as written: `Map[int, float]`."""
        return f"{self.container.__name__}[{', '.join(type_text(argument) for argument in self.arguments)}]"

    def _entries_kind(self) -> type:
        return self.container if self.is_dict else Map

    def bare(self) -> Map[Any, Any]:
        """Return entries at the speed of a dict: for a task that knows which keys it touches and loads them first."""
        entries: Map[Any, Any] = self._entries_kind()()
        return entries

    def keyed(self) -> dict[Any, Any]:
        """Return entries for a task that touches single keys only: an exact dict where the container needs no more."""
        return self.bare() if self.container in (Counter, Vector) else {}

    def on_demand(self, source: Source) -> Map[Any, Any]:
        """Return entries that are loaded when touched."""
        entries = ON_DEMAND[self._entries_kind()]()
        entries.source = source
        loaded: Map[Any, Any] = entries
        return loaded

    @property
    def holds_objects(self) -> bool:
        """Whether user code gets the stored objects themselves; what the other containers hold are numbers and keys."""
        return self.container in (Map, Value, List)

    def plain(self, journal: Journal | None = None) -> Checked:
        """Return entries for plain Python, with a journal those of a program: writes are checked by the types."""
        return checked_entries(self._entries_kind(), self.keys, self.values, journal, renews=self.holds_objects)

    def wrap(self, entries: Any) -> Any:
        """Return the container that user code sees, over its entries."""
        if self.is_dict:
            return entries
        if self.container is Matrix:
            check = entries.value_codec.check if isinstance(entries, Checked) else None
            return Matrix(by=self.by, zero=self.arguments[2](), entries=entries, check=check)
        return self.container(entries=entries)


__all__ = ["THE_KEY", "ElementType"]
