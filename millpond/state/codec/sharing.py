"""Which objects occur twice in the variables of a message: in two of them, or in one at two places.

Only objects count of which Python can tell whether they are one or two: those that can be changed in place, those that
are equal to nothing but themselves, and NaN. Text, numbers and tuples of such are the same however often they come.
"""

from __future__ import annotations

import collections
import decimal
import enum
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from millpond.state.codec.classes import is_named_tuple, is_plain_dataclass, is_plain_struct
from millpond.state.codec.records import take_apart
from millpond.state.containers.vector import Vector

_FLAT: Final = frozenset((int, str, bytes, bool, type(None)))
_FLAT_OR_FLOAT: Final = _FLAT | {float}
_LISTS: Final = (list, tuple, collections.deque)
_SETS: Final = (set, frozenset)
_DICTS: Final = (dict, Vector, collections.OrderedDict, collections.Counter, collections.defaultdict)
_CHANGEABLE: Final = frozenset((list, collections.deque, set, *_DICTS, np.ndarray))

carried_parts: dict[type, Callable[[Any], tuple[Any, ...]]] = {}
"""What values of Millpond's own classes travel as."""


class Twice:
    """Objects that occur twice, and the numbers that they get when they are packed; `unfit` says what can't be."""

    def __init__(self, found: Iterable[int] = (), unfit: str = "", kept: Sequence[Any] = ()) -> None:
        self._numbers: dict[int, int | None] = dict.fromkeys(found)
        self._given = 0
        self.unfit = unfit
        self._kept = kept

    def __contains__(self, identity: int) -> bool:
        return identity in self._numbers

    def begin(self, value: Any) -> int:
        """Give an object its number."""
        self._numbers[id(value)] = self._given
        self._given += 1
        return self._given - 1

    def number(self, value: Any) -> int | None:
        """Return the number of an object, None if it has none yet."""
        return self._numbers[id(value)]


def objects_twice(values: tuple[Any, ...]) -> Twice | None:
    """Return the objects that occur twice in some variables, None if there are none."""
    if _is_flat(values):
        return None
    looking = _Looking()
    looking.look(values)
    return looking.found()


def _is_flat(values: Collection[Any]) -> bool:
    """Return whether values are text and numbers alone, and no NaN."""
    if _FLAT.issuperset(map(type, values)):
        return True
    return _FLAT_OR_FLOAT.issuperset(map(type, values)) and all(value == value for value in values)  # noqa: PLR0124


class _Looking:
    def __init__(self) -> None:
        # What parts are made of must live as long as it is known by its identity: another object could get that.
        self._kept: list[Any] = []
        self._seen: set[int] = set()
        self._twice: set[int] = set()
        self._members: set[int] = set()
        self._open: set[int] = set()
        self._endless = False

    def found(self) -> Twice | None:
        if self._endless:
            return Twice(unfit="an object that holds itself,")
        if self._members & self._twice:
            return Twice(unfit="an object that is a member of a set, and elsewhere too,")
        return Twice(self._twice, kept=self._kept) if self._twice else None

    def look(self, values: Iterable[Any], *, members: bool = False) -> None:
        for value in values:
            kind = type(value)
            if kind in _FLAT or (kind is float and value == value):  # noqa: PLR0124 - no NaN
                continue
            tells = _tells(value)
            identity = id(value)
            if tells:
                if members:
                    self._members.add(identity)
                if identity in self._seen:
                    self._twice.add(identity)
                    self._endless |= identity in self._open
                    continue
                self._seen.add(identity)
            parts = _parts(value)
            if _is_flat(parts):
                continue
            self._kept.append(parts)
            self._open.add(identity)
            self.look(parts, members=members or kind in _SETS)
            self._open.discard(identity)


def _parts(value: Any) -> Collection[Any]:
    kind = type(value)
    if kind in _LISTS or kind in _SETS:
        inside: Collection[Any] = value
        return inside
    if kind in _DICTS:
        return [*value.keys(), *value.values()]
    if kind in carried_parts:
        return carried_parts[kind](value)
    record = None if isinstance(value, enum.Enum) else take_apart(value)
    if record is None:
        return ()
    # What a record is made of is new each time: only what these parts hold can occur elsewhere.
    return [
        item
        for part in record[1]
        if isinstance(part, dict | list)
        for item in (part.values() if isinstance(part, dict) else part)
    ]


def _tells(value: Any) -> bool:
    """Return whether it is known that this object is not another one with the same content."""
    kind = type(value)
    if kind is float:
        return True
    if kind is decimal.Decimal:
        return bool(value.is_nan())
    return kind in _CHANGEABLE or kind in carried_parts or _is_record_of_its_own(kind)  # type: ignore[arg-type]


@lru_cache(maxsize=1024)
def _is_record_of_its_own(kind: Any) -> bool:
    if issubclass(kind, enum.Enum) or is_named_tuple(kind):
        return False
    if is_plain_dataclass(kind):
        return not kind.__dataclass_params__.frozen or kind.__eq__ is object.__eq__
    return is_plain_struct(kind) and not (kind.__struct_config__.frozen and kind.__struct_config__.eq)
