"""Which types have values that can't be changed in place, and what the parts of a value are."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import types
import uuid
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

_SCALARS: Final = (
    int,
    float,
    str,
    bytes,
    bool,
    type(None),
    datetime.date,
    datetime.datetime,
    datetime.time,
    decimal.Decimal,
    uuid.UUID,
)
_FROZEN: Final = (*_SCALARS, complex, datetime.timedelta)
_CARRIED: Final = (Union, types.UnionType, list, tuple, dict, set, frozenset)


def is_frozen(hint: Any) -> bool:
    """Whether no value of a type can be changed in place, all the way down."""
    if hint is None or hint in _FROZEN or get_origin(hint) is Literal:
        return True
    if get_origin(hint) in (Union, types.UnionType, tuple, frozenset):
        return all(part is Ellipsis or is_frozen(part) for part in get_args(hint))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return True
    if isinstance(hint, type) and _is_frozen_record(hint):
        return all(is_frozen(part) for part in _fields(hint).values())
    return False


def _is_frozen_record(hint: type) -> bool:
    if dataclasses.is_dataclass(hint):
        return bool(hint.__dataclass_params__.frozen)  # type: ignore[attr-defined]
    settings = getattr(hint, "__struct_config__", None)
    return bool(settings is not None and settings.frozen)


def _fields(hint: type) -> dict[str, Any]:
    try:
        return get_type_hints(hint)
    except (NameError, TypeError):
        return {"": Any}


def can_travel(hint: Any) -> bool:
    """Whether values of a type can be carried from task to task."""
    if get_origin(hint) in _CARRIED:
        return all(part is Ellipsis or can_travel(part) for part in get_args(hint))
    return hint is None or hint is Any or hint in (*_SCALARS, list, tuple, dict, set, frozenset)


def items_of(hint: Any) -> tuple[Any, ...]:
    """The types of what a container of this type holds."""
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(item for part in get_args(hint) for item in items_of(part))
    if hint is Any or get_origin(hint) is None:
        return () if is_frozen(hint) else (Any,)
    if get_origin(hint) is dict:
        return get_args(hint)[1:]
    return tuple(part for part in get_args(hint) if part is not Ellipsis)


def field_of(hint: Any, name: str) -> Any:
    """The type of an attribute of a value of this type."""
    for part in get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,):
        if isinstance(part, type) and name in _fields(part):
            return _fields(part)[name]
    return Any
