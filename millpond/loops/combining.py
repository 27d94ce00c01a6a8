"""Combiners: what makes one message, or one aggregate, of several, always in the same order.

Keys have shards, by a hash of the key alone. What keys of one shard send to a key is combined in the order of the
sending keys, and what shards send in the order of the shards. So the bits of a sum of floats follow from the keys, and
not from where they were computed.

>>> totals = Combined(combiner(sum))
>>> for shard, value in ((0, 0.1), (0, 0.2), (1, 0.3)):
...     totals.add(shard, "a", value)
>>> totals.take()
{'a': 0.6000000000000001}
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from typing import Any, Final

from millpond.errors import LoopError
from millpond.keygroups import plain_key, stable_hash

SHARDS: Final = 16
"""How many shards the keys of a loop have. Results depend on it, so it never changes."""

Combiner = Callable[[Any, Any], Any]

_KNOWN: Final[dict[object, Combiner]] = {
    "min": min,
    "max": max,
    "sum": operator.add,
    builtins.min: min,
    builtins.max: max,
    builtins.sum: operator.add,
}


def combiner(given: object) -> Combiner:
    """Return the function of two values that a name or a function stands for: min, max, sum, or one of your own."""
    known = _KNOWN.get(given) if isinstance(given, str) or given in (min, max, sum) else None
    if known is None and (isinstance(given, str) or not callable(given)):
        raise LoopError(
            "MP851",
            "this does not combine two values",
            expected="min, max, sum, or a function of two values that is associative and commutative",
            found=repr(given)[:60],
            hint="see docs/LOOPS.md, Messages",
        )
    return known or given  # type: ignore[return-value]


def shard_of(key: Any) -> int:
    """Return the shard of a key."""
    return stable_hash(key) % SHARDS


def key_order(key: Any) -> tuple[int, Any]:
    """Return what orders keys wherever their order can be seen: the shard, then the key."""
    return shard_of(key), plain_key(key)


class Combined:
    """Values by name or key, combined in the order of shards; `add` is called with shards that do not go back."""

    __slots__ = ("_combine", "_part", "_shard", "_whole")

    def __init__(self, combine: Combiner) -> None:
        self._combine = combine
        self._shard = -1
        self._part: dict[Any, Any] = {}
        self._whole: dict[Any, Any] = {}

    def add(self, shard: int, key: Any, value: Any) -> None:
        """Take in a value of a key that comes from a shard."""
        if shard != self._shard:
            self._flush()
            self._shard = shard
        part = self._part
        part[key] = self._combine(part[key], value) if key in part else value

    def take(self) -> dict[Any, Any]:
        """Return what was combined, and be empty."""
        self._flush()
        self._shard = -1
        whole, self._whole = self._whole, {}
        return whole

    def _flush(self) -> None:
        whole, combine = self._whole, self._combine
        if not whole:
            self._whole, self._part = self._part, {}
            return
        for key, value in self._part.items():
            whole[key] = combine(whole[key], value) if key in whole else value
        self._part = {}
