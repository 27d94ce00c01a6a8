"""The map: a dict whose iteration order is the order of its keys, the same on every run and after every restart.

>>> stock = Map({"pears": 3, "apples": 2})
>>> stock["figs"] = stock.get("figs", 0) + 1
>>> list(stock.items())
[('apples', 2), ('figs', 1), ('pears', 3)]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from millpond.errors import StateError
from millpond.state.codec.keyforms import in_key_order
from millpond.state.containers.access import MAP_OPERATIONS, Operation

if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_keys, dict_values

K = TypeVar("K")
V = TypeVar("V")


class Map(dict[K, V]):
    """A dict in state: `self.m[k]`, `k in self.m`, `.get`, `del`, `for k, v in self.m.items()` in key order."""

    kind: ClassVar[str] = "map"
    OPERATIONS: ClassVar[dict[str, Operation]] = dict(MAP_OPERATIONS)

    __slots__ = ()

    def __iter__(self) -> Iterator[K]:
        return iter(in_key_order(dict.__iter__(self)))

    def __reversed__(self) -> Iterator[K]:
        return reversed(list(self))

    def _ordered(self) -> dict[K, V]:
        return {key: dict.__getitem__(self, key) for key in self}

    def keys(self) -> dict_keys[K, V]:
        """Return the keys, in order."""
        return self._ordered().keys()

    def values(self) -> dict_values[K, V]:
        """Return the values, in the order of their keys."""
        return self._ordered().values()

    def items(self) -> dict_items[K, V]:
        """Return the keys and values, in the order of the keys."""
        return self._ordered().items()

    def copy(self) -> dict[K, V]:
        """Return the entries as a dict, in the order of the keys."""
        return self._ordered()

    def update(self, *others: Any, **named: Any) -> None:
        """Put many entries in."""
        for key, value in dict(*others, **named).items():
            self[key] = value

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def __or__(self, other: Any) -> Any:
        return self._ordered() | other

    def __ror__(self, other: Any) -> Any:
        return other | self._ordered()

    def popitem(self) -> tuple[K, V]:
        """Refuse it: which item is last would depend on the history of restarts."""
        raise StateError(
            "MP210",
            "popitem() can't be used on state",
            expected="pop(key)",
            found="popitem()",
            hint="choose the key yourself, e.g. key = max(self.m); self.m.pop(key)",
        )

    def __repr__(self) -> str:
        return f"{type(self).kind.capitalize()}({self._ordered()!r})"


class DefaultMap(Map[K, V]):
    """A map whose missing entries read as a fixed value, and are not stored by reading."""

    default: ClassVar[Any] = None

    __slots__ = ()

    def __missing__(self, key: K) -> V:
        value: V = type(self).default
        return value
