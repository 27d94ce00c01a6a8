"""Which types a column can hold: those of parameters and replies, known before anything runs.

What a column holds of a `Literal` or an `Enum` is its values, of a `UUID` its text, and of `X | None` an X or nothing.
How columns look in Arrow is said by `engine/arrowtypes.py`, which supports exactly this.

>>> bare_hint(int | None), list(without_column(dict[str, object]))
(<class 'int'>, [<class 'object'>])
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import types
import typing
import uuid
from collections.abc import Iterator
from typing import Any, Final, Literal, Union, get_args, get_origin

from millpond.state.containers.vector import Vector

SCALARS: Final = (int, float, str, bytes, bool, datetime.date, datetime.datetime, decimal.Decimal, uuid.UUID)
LISTS: Final = (list, set, frozenset)

_UNIONS: Final = (Union, types.UnionType)


def bare_hint(hint: Any) -> Any:
    """Strip `Annotated` and `| None` from a hint; a `Literal` of values of one type is that type."""
    if get_origin(hint) is typing.Annotated:
        return bare_hint(get_args(hint)[0])
    if get_origin(hint) in _UNIONS:
        members = [bare_hint(member) for member in get_args(hint) if member is not type(None)]
        return members[0] if members and all(member == members[0] for member in members) else hint
    if get_origin(hint) is Literal:
        kinds = {type(value) for value in get_args(hint) if value is not None}
        return kinds.pop() if len(kinds) == 1 else hint
    return hint


def enum_values(hint: Any) -> type | None:
    """Return the type of the values of an enum that a column can hold: texts or whole numbers; None for all else."""
    if not (isinstance(hint, type) and issubclass(hint, enum.Enum)):
        return None
    kinds = {type(member.value) for member in hint}
    return kinds.pop() if kinds in ({int}, {str}) else None


def optional(hint: Any) -> bool:
    """Return whether None is a value of the hint."""
    if hint is None or hint is type(None):
        return True
    if get_origin(hint) is typing.Annotated:
        return optional(get_args(hint)[0])
    if get_origin(hint) is Literal:
        return None in get_args(hint)
    return get_origin(hint) in _UNIONS and any(map(optional, get_args(hint)))


def choices(hint: Any) -> frozenset[Any] | None:
    """Return the values that a `Literal` or an enum leaves, of the type of its column; None if any value will do."""
    if get_origin(hint) is typing.Annotated:
        return choices(get_args(hint)[0])
    if get_origin(hint) in _UNIONS:
        members = [choices(member) for member in get_args(hint) if member is not type(None)]
        return None if None in members else frozenset(value for member in members for value in member or ())
    if get_origin(hint) is Literal:
        return frozenset(value for value in get_args(hint) if value is not None)
    # A class of flags makes members of combinations.
    listed = enum_values(hint) is not None and not issubclass(hint, enum.Flag)
    return frozenset(member.value for member in hint) if listed else None


def struct_fields(hint: Any) -> list[tuple[str, Any]] | None:
    """Return the fields of a hint that is a struct column: a dataclass, a named tuple, or a tuple (`_1`, `_2`, ...)."""
    if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or hasattr(hint, "_fields")):
        hints = typing.get_type_hints(hint)
        names = hint._fields if hasattr(hint, "_fields") else [field.name for field in dataclasses.fields(hint)]
        return [(name, hints.get(name, Any)) for name in names]
    if get_origin(hint) is tuple and get_args(hint) and Ellipsis not in get_args(hint):
        return [(f"_{place}", part) for place, part in enumerate(get_args(hint), 1)]
    return None


def without_column(hint: Any, inside: tuple[Any, ...] = ()) -> Iterator[Any]:
    """Yield the parts of a hint that no column can hold; none if there are none.

    A class that lies `inside` of itself is one: a column has a type that ends.
    """
    bare = bare_hint(hint)
    if bare in SCALARS or bare is None or bare is type(None) or enum_values(bare) is not None:
        return
    origin, arguments = get_origin(bare), get_args(bare)
    if (origin in LISTS and len(arguments) == 1) or (origin is tuple and arguments[1:] == (Ellipsis,)):
        yield from without_column(arguments[0], inside)
    elif origin is dict and len(arguments) == 2:
        yield from (*without_column(arguments[0], inside), *without_column(arguments[1], inside))
    elif origin is Vector:
        yield from without_column(arguments[0], inside)
    else:
        fields = struct_fields(bare) if bare not in inside else None
        if fields is None:
            yield bare
        for _, part in fields or ():
            yield from without_column(part, (*inside, bare))
