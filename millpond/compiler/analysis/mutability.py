"""Which types have values that can't be changed in place, which can travel, and what the parts of a value are."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import types
import uuid
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from millpond.state.codec.classes import UNRESOLVED, is_named_tuple, is_record
from millpond.state.containers.vector import Vector

_SCALARS: Final = (
    int,
    float,
    str,
    bytes,
    bool,
    complex,
    type(None),
    datetime.date,
    datetime.datetime,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    uuid.UUID,
    range,
)
_UNIONS: Final = (Union, types.UnionType)
_COLLECTIONS: Final = (
    list,
    tuple,
    dict,
    set,
    frozenset,
    Vector,
    collections.deque,
    collections.Counter,
    collections.OrderedDict,
    collections.defaultdict,
)


def is_frozen(hint: Any, seen: frozenset[Any] = frozenset()) -> bool:
    """Whether no value of a type can be changed in place, all the way down."""
    if hint is None or hint in _SCALARS or get_origin(hint) is Literal:
        return True
    if get_origin(hint) is Annotated:
        return is_frozen(get_args(hint)[0], seen)
    if get_origin(hint) in (*_UNIONS, tuple, frozenset):
        return all(part is Ellipsis or is_frozen(part, seen) for part in get_args(hint))
    if not isinstance(hint, type):
        return False
    if issubclass(hint, enum.Enum | np.generic) or hint in seen:
        return True
    return _is_frozen_record(hint) and all(is_frozen(part, seen | {hint}) for part in _fields(hint).values())


def kind_of(hint: Any) -> Any:
    """The type of all values of a hint, whatever else it asks of them."""
    if get_origin(hint) is Annotated:
        return kind_of(get_args(hint)[0])
    kinds = {type(value) for value in get_args(hint)} if get_origin(hint) is Literal else set()
    return kinds.pop() if len(kinds) == 1 else hint


def _is_frozen_record(hint: type) -> bool:
    if dataclasses.is_dataclass(hint):
        return bool(hint.__dataclass_params__.frozen)  # type: ignore[attr-defined]
    if is_named_tuple(hint):
        # One of collections.namedtuple does not say what its fields hold.
        return {*_fields(hint)} == {*hint._fields}  # type: ignore[attr-defined]
    settings = getattr(hint, "__struct_config__", None)
    return bool(settings is not None and settings.frozen)


def _fields(hint: type) -> dict[str, Any]:
    try:
        return get_type_hints(hint)
    except UNRESOLVED:
        return {"": Any}


def can_travel(hint: Any, seen: frozenset[Any] = frozenset()) -> bool:
    """Whether values of a type can be carried from task to task; a type that does not tell is left to the run."""
    origin = get_origin(hint)
    if origin is Annotated:
        return can_travel(get_args(hint)[0], seen)
    if origin is Literal or hint is None or hint is Any or hint is object or isinstance(hint, TypeVar | str):
        return True
    if origin is np.ndarray or hint is np.ndarray:
        return np.dtype[np.object_] not in get_args(hint)
    if origin in (*_UNIONS, *_COLLECTIONS):
        return all(part is Ellipsis or part == () or can_travel(part, seen) for part in get_args(hint))
    # A generic class of the user's own, such as Pair[int].
    kind = hint if origin is None else origin
    if not isinstance(kind, type):
        return False
    if kind in _SCALARS or kind in _COLLECTIONS or kind in seen or issubclass(kind, enum.Enum):
        return True
    if issubclass(kind, np.generic):
        return not issubclass(kind, np.object_)
    if not is_record(kind):
        return is_typed_dict(kind) and all(can_travel(part, seen | {kind}) for part in _fields(kind).values())
    return all(can_travel(part, seen | {kind}) for part in _fields(kind).values())


def is_typed_dict(kind: type) -> bool:
    """Whether a class only describes a dict."""
    return issubclass(kind, dict) and hasattr(kind, "__total__")


def without_none(hint: Any) -> Any:
    """The type of a value that something is done to which None can't do."""
    if get_origin(hint) not in _UNIONS:
        return hint
    parts = [part for part in get_args(hint) if part is not type(None)]
    return parts[0] if len(parts) == 1 else hint


def items_of(hint: Any) -> tuple[Any, ...]:
    """The types of what a container of this type holds."""
    if get_origin(hint) in _UNIONS:
        return tuple(item for part in get_args(hint) for item in items_of(part))
    if hint is Any or get_origin(hint) is None:
        return () if is_frozen(hint) else (Any,)
    if get_origin(hint) is dict:
        return get_args(hint)[1:]
    return tuple(part for part in get_args(hint) if part is not Ellipsis)


def field_of(hint: Any, name: str) -> Any:
    """The type of an attribute of a value of this type."""
    for part in get_args(hint) if get_origin(hint) in _UNIONS else (hint,):
        if isinstance(part, type) and name in _fields(part):
            return _fields(part)[name]
    return Any
