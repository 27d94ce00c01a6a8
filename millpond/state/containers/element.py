"""A state element's type: its container, the types of its keys and values, and how its containers are made.

>>> declared = ElementType.parse(Map[str, int], None)
>>> declared.kind, declared.text, declared.keys.encode("mill")
('map', 'Map[str, int]', b'mill')

In plain Python, a key or value that a checkpoint could not hold is refused, as it is on Spark. A key is refused where
it is only asked for, too: a dict would take 1, 1.0 and True for one key. Entries of a program have its journal: inside
a row they are ordinary objects, and become values when it ends; outside, whoever reads gets a copy, and what is written
is stored as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, get_args, get_origin

from millpond.errors import StateError
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
from millpond.state.journal import ABSENT, Journal

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


class Checked(Map[Any, Any]):
    """A map that checks what is put into it, and what it is asked for.

    It `renews` values when a row ends if user code sees them, and could change them.
    """

    key_codec: KeyCodec
    value_codec: ValueCodec
    journal: Journal | None
    renews: bool

    __slots__ = ("journal", "key_codec", "renews", "value_codec")

    # --- rows

    def _touch(self, key: Any) -> None:
        """Let the row at work know an entry as it is before it is handed out or changed."""
        journal = self.journal
        if journal is not None and journal.in_row:
            journal.note(self, key, self._first)

    def _first(self, key: Any) -> Any:
        if not dict.__contains__(self, key):
            return ABSENT
        return self.value_codec.kept(dict.__getitem__(self, key))

    def restore(self, key: Any, first: Any) -> None:
        """Make an entry what it was before a row that is undone."""
        if first is ABSENT:
            dict.pop(self, key, None)
        else:
            dict.__setitem__(self, key, self.value_codec.restored(first))

    def end_row(self, key: Any) -> None:
        """Make a value of an entry that a row touched; one that does not fit its type fails the row."""
        if not dict.__contains__(self, key):
            return
        value = dict.__getitem__(self, key)
        if self.renews:
            dict.__setitem__(self, key, self.value_codec.renew(value))
        else:
            self.value_codec.check(value)

    def _outside(self, value: Any) -> Any:
        """Return a value that crosses the border between the state and what is outside of a row."""
        journal = self.journal
        return value if journal is None or journal.in_row or not self.renews else self.value_codec.renew(value)

    # --- what a dict does

    def __getitem__(self, key: Any) -> Any:
        self.key_codec.check(key)
        self._touch(key)
        return self._outside(super().__getitem__(key))

    def __contains__(self, key: object) -> bool:
        self.key_codec.check(key)
        return super().__contains__(key)

    def __delitem__(self, key: Any) -> None:
        self.key_codec.check(key)
        self._touch(key)
        super().__delitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the entry, or `default` if there is none."""
        self.key_codec.check(key)
        if not dict.__contains__(self, key):
            return default
        self._touch(key)
        return self._outside(dict.__getitem__(self, key))

    def pop(self, key: Any, *default: Any) -> Any:
        """Take the entry out and return it; `default` if there is none."""
        self.key_codec.check(key)
        self._touch(key)
        return super().pop(key, *default)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.key_codec.check(key)
        if self.journal is None or not self.journal.in_row:
            # In a row, what counts is what is there when it ends.
            self.value_codec.check(value)
        self._touch(key)
        dict.__setitem__(self, key, self._outside(value))

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the entry; set to `default` first if there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all entries."""
        for key in dict.__iter__(self):
            self._touch(key)
        super().clear()

    def _ordered(self) -> dict[Any, Any]:
        return {key: self[key] for key in self}


class CheckedCounter(Checked, Counter[Any]):
    """A counter that checks what is put into it."""

    __slots__ = ()


class CheckedVector(Checked, Vector[Any]):
    """A vector that checks what is put into it."""

    __slots__ = ()


_CHECKED: Final[Mapping[type, type[Checked]]] = {Map: Checked, Counter: CheckedCounter, Vector: CheckedVector}


def checked_entries(
    kind: type, keys: KeyCodec, values: ValueCodec, journal: Journal | None = None, *, renews: bool = False
) -> Checked:
    """Make checked entries of a kind; those of a program have its journal."""
    entries = _CHECKED[kind]()
    entries.key_codec = keys
    entries.value_codec = values
    entries.journal = journal
    entries.renews = renews and not values.immutable
    return entries
