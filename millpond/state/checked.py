"""Entries for plain Python: a key or value that a checkpoint could not hold is refused, as it is on Spark.

A key is refused where it is only asked for, too: a dict would take 1, 1.0 and True for one key. Entries of a program
have its journal: inside a row they are ordinary objects, and become values when it ends; outside, whoever reads gets a
copy, and what is written is stored as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.containers.counter import Counter
from millpond.state.containers.map import Map
from millpond.state.containers.vector import Vector
from millpond.state.journal import ABSENT, Journal


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

    def put_back(self, key: Any, first: Any) -> None:
        """Make an entry what it was before a row that is undone."""
        if first is ABSENT:
            dict.pop(self, key, None)
        else:
            dict.__setitem__(self, key, self.value_codec.brought_back(first))

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
        """A value that crosses the border between the state and what is outside of a row."""
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
        """The entry, or `default` if there is none."""
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
        """The entry; set to `default` first if there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *others: Any, **named: Any) -> None:
        """Put many entries in."""
        for key, value in dict(*others, **named).items():
            self[key] = value

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

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
