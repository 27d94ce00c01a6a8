"""How deeply values may be nested, so that the same ones are refused wherever they are stored from.

Encoders, decoders and comparisons recurse, and how far Python lets them depends on how deep the stack is already. So a
value of a type that can be nested without end is measured first, without recursion.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import inspect

from millpond.state.codec.classes import is_plain_object, object_fields

NESTED_MAX: Final = 320
"""Levels of collections and records inside each other: a third of the stack that Python gives a program."""


def too_deep(value: Any) -> bool:
    """Return whether a value has more levels than a checkpoint holds; one that holds itself has."""
    level = [value]
    for _ in range(NESTED_MAX):
        # By identity: what is shared is looked at once in each level.
        level = list({id(part): part for whole in level for part in _parts(whole)}.values())
        if not level:
            return False
    return True


def _parts(value: Any) -> Iterable[Any]:
    """Return what a value is made of, but for what has no parts itself."""
    if isinstance(value, list | tuple | set | frozenset | deque):
        return (part for part in value if type(part) not in _FLAT)
    if isinstance(value, dict):
        return (part for pair in value.items() for part in pair if type(part) not in _FLAT)
    return (part for name in field_names(value) if type(part := getattr(value, name)) not in _FLAT)


_FLAT = frozenset((int, float, str, bytes, bool, type(None)))


def field_names(value: Any) -> tuple[str, ...]:
    """Return the names of a record's fields; none if it is no record."""
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if dataclasses.is_dataclass(value):
        return tuple(field.name for field in dataclasses.fields(value))
    return object_fields(type(value)) if is_plain_object(type(value)) else ()


def nests_without_end(hint: inspect.Type) -> bool:
    """Return whether a type says nothing of how deeply its values are nested: a class in itself, or any value."""
    done: set[int] = set()

    def leads_back(part: inspect.Type, above: frozenset[int]) -> bool:
        if isinstance(part, inspect.AnyType) or id(part) in above:
            return True
        if id(part) in done:
            return False
        inside = above | {id(part)}
        found = any(leads_back(each, inside) for each in types_in(part))
        done.add(id(part))
        return found

    return leads_back(hint, frozenset())


def types_in(part: inspect.Type) -> Iterator[inspect.Type]:
    """Yield the types that a type is made of, one level down."""
    waiting = [getattr(part, name) for name in part.__struct_fields__]
    while waiting:
        found = waiting.pop()
        if isinstance(found, tuple):
            waiting += found
        elif isinstance(found, inspect.Field):
            waiting.append(found.type)
        elif isinstance(found, inspect.Type):
            yield found
