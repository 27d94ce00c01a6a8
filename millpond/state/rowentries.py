"""The entries that a row works on, where its code may put one object into two places: they end as values.

While a row runs, an object of state is an ordinary Python object. When it ends, every place that it touched holds what
a checkpoint would give back: a tree of the declared type, whose objects are in no other place and in no variable. The
cost is that of encoding and decoding what a row touches, so it is spared where the compiler sees that nobody can tell.

>>> from millpond.state.containers.map import Map
>>> element = ElementType.parse(Map[str, list[int]], None)
>>> entries = RowEntries(element.bare(), element.values)
>>> entries["a"] = entries["b"] = [1]
>>> entries.end_row()
>>> entries["b"].append(2)
>>> entries["a"], entries["b"]
([1], [1, 2])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.containers.element import ElementType

if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_keys, dict_values


class RowEntries:
    """The entries of one element, with the keys that the row has touched; what a dict does goes to `below`."""

    __slots__ = ("_below", "_codec", "_touched")

    def __init__(self, below: dict[Any, Any], codec: ValueCodec) -> None:
        self._below = below
        self._codec = codec
        # A dict for its order: errors are those of the place that was touched first.
        self._touched: dict[Any, None] = {}

    def end_row(self) -> None:
        """Make a value of what is in each place that was touched; one that does not fit its type is refused."""
        if not self._touched:
            return
        below, renew = self._below, self._codec.renew
        try:
            for key in self._touched:
                if dict.__contains__(below, key):
                    dict.__setitem__(below, key, renew(dict.__getitem__(below, key)))
        finally:
            self._touched.clear()

    def __getitem__(self, key: Any) -> Any:
        self._touched[key] = None
        return self._below[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._touched[key] = None
        self._below[key] = value

    def __delitem__(self, key: Any) -> None:
        # Not `del`: entries that load on demand know no other way to remove one.
        self._below.pop(key)

    def __contains__(self, key: object) -> bool:
        return key in self._below

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the entry, or `default`."""
        self._touched[key] = None
        return self._below.get(key, default)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the entry; set to `default` first if there was none."""
        self._touched[key] = None
        return self._below.setdefault(key, default)

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove and return the entry, or `default`."""
        return self._below.pop(key, *default)

    def update(self, other: Mapping[Any, Any]) -> None:
        """Put many entries in."""
        for key, value in dict(other).items():
            self[key] = value

    def clear(self) -> None:
        """Remove all entries."""
        self._below.clear()

    def __len__(self) -> int:
        return len(self._below)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._below)

    def keys(self) -> dict_keys[Any, Any]:
        """Return the keys, in order."""
        return self._below.keys()

    def values(self) -> dict_values[Any, Any]:
        """Return the values, in the order of their keys."""
        return self._all().values()

    def items(self) -> dict_items[Any, Any]:
        """Return the keys and values, in the order of the keys."""
        return self._all().items()

    def _all(self) -> dict[Any, Any]:
        found = dict(self._below.items())
        self._touched.update(dict.fromkeys(found))
        return found


class ScalarEntries(RowEntries):
    """Entries whose values can't be changed: only what was stored, and is not of an allowed type, is looked at."""

    __slots__ = ("_allowed",)

    def __init__(self, below: dict[Any, Any], codec: ValueCodec, allowed: frozenset[type]) -> None:
        super().__init__(below, codec)
        self._allowed = allowed

    def __getitem__(self, key: Any) -> Any:
        return self._below[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(value) not in self._allowed:
            self._touched[key] = None
        self._below[key] = value

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the entry, or `default`."""
        return self._below.get(key, default)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the entry; set to `default` first if there was none."""
        if type(default) not in self._allowed:
            self._touched[key] = None
        return self._below.setdefault(key, default)

    def _all(self) -> dict[Any, Any]:
        return dict(self._below.items())


def end_row(result: Any, *containers: Any) -> Any:
    """End a row on the containers over `RowEntries` that it worked on, and hand its result on."""
    for container in containers:
        entries: RowEntries = getattr(container, "_entries", container)
        entries.end_row()
    return result


def row_container(element: ElementType, below: dict[Any, Any]) -> Any:
    """Return the container that user code sees, over entries that end as values with each row."""
    codec = element.row_values
    if codec.scalars is not None:
        return element.wrap(ScalarEntries(below, codec, codec.scalars))
    return element.wrap(RowEntries(below, codec))
