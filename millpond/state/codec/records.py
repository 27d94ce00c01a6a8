"""Records of the user's own classes, taken apart and put together without running a line of those classes.

No `__init__`, `__post_init__`, `__new__`, property or `__setattr__` is called: a record comes back as the attributes
that it had. Only what Python itself asks of a record runs as usual, such as `__hash__` when it is a member of a set.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

from millpond.errors import StateError
from millpond.state.codec.classes import (
    find_class,
    is_named_tuple,
    is_plain_dataclass,
    is_plain_object,
    is_plain_struct,
    learn,
)

Parts = tuple[str, list[Any]]
"""The kind of a record, and what it is made of: the two parts of its class's name first."""

_ENUM, _TUPLE, _DATACLASS, _STRUCT, _OBJECT = "enum", "tuple", "dataclass", "struct", "object"


def take_apart(record: Any) -> Parts | None:
    """Return what a record is made of, or None if it is no record that can be put together again."""
    kind = type(record)
    if isinstance(record, enum.Enum):
        return _enum_parts(record)
    if is_named_tuple(kind):
        return _TUPLE, [*learn(kind), list(record), *_attributes_of(record)]
    if is_plain_dataclass(kind):
        held, slots = _attributes_of(record)
        whole = {*held, *slots}.issuperset(field.name for field in dataclasses.fields(kind))
        return (_DATACLASS, [*learn(kind), held, slots]) if whole else None
    if is_plain_object(kind):
        return _OBJECT, [*learn(kind), *_attributes_of(record)]
    if is_plain_struct(kind):
        return _STRUCT, [*learn(kind), {name: getattr(record, name) for name in kind.__struct_fields__}]
    return None


def _enum_parts(member: enum.Enum) -> Parts | None:
    kind = type(member)
    name = learn(kind)
    if kind._member_map_.get(member.name or "") is member:
        return _ENUM, [*name, member.name, None]
    # A combination of flags has no name of its own.
    return (_ENUM, [*name, None, member.value]) if _makes_combinations(kind) else None


def _makes_combinations(kind: type[enum.Enum]) -> bool:
    """Return whether a class makes combinations of flags by Python's own rules, not by code of its own."""
    ours = getattr(kind._missing_, "__func__", None)
    return issubclass(kind, enum.Flag) and ours is enum.Flag._missing_.__func__  # type: ignore[attr-defined]


def _attributes_of(record: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a record holds in its dict, and in its slots."""
    slots = {}
    for name, slot in _slots(type(record)):
        try:
            slots[name] = slot.__get__(record)
        except AttributeError:
            continue
    return dict(getattr(record, "__dict__", {})), slots


def _slots(kind: type) -> Iterator[tuple[str, types.MemberDescriptorType]]:
    for base in reversed(kind.__mro__):
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType):
                yield name, member


def put_together(kind: str, parts: list[Any]) -> Any:
    """Return the record of these parts."""
    module, name, *content = parts
    return _MAKERS[kind](find_class(module, name), *content)


def _make_enum(kind: Any, name: str | None, value: Any) -> Any:
    if not issubclass(kind, enum.Enum):
        raise _changed(kind, "it is no enum")
    if name is None:
        if not _makes_combinations(kind):
            raise _changed(kind, "it is no plain Flag")
        return kind(value)
    if name not in kind._member_map_:
        raise _changed(kind, f"no member {name}")
    return kind._member_map_[name]


def _make_tuple(kind: Any, items: list[Any], held: dict[str, Any], slots: dict[str, Any]) -> Any:
    if not is_named_tuple(kind) or len(kind._fields) != len(items):
        raise _changed(kind, "another number of fields")
    return _filled(kind, tuple.__new__(kind, items), held, slots)


def _make_dataclass(kind: Any, held: dict[str, Any], slots: dict[str, Any]) -> Any:
    if not is_plain_dataclass(kind):
        raise _changed(kind, "it is no dataclass")
    missing = [field.name for field in dataclasses.fields(kind) if field.name not in held and field.name not in slots]
    if missing:
        raise _changed(kind, f"the message has no {missing[0]}")
    return _filled(kind, object.__new__(kind), held, slots)


def _make_object(kind: Any, held: dict[str, Any], slots: dict[str, Any]) -> Any:
    if not is_plain_object(kind):
        raise _changed(kind, "it has no annotated fields")
    return _filled(kind, object.__new__(kind), held, slots)


def _filled(kind: type, record: Any, held: dict[str, Any], slots: dict[str, Any]) -> Any:
    # A class may have lost its dict or its slots since; then what was in the one goes to the other.
    places = dict(_slots(kind))
    inside = object.__getattribute__(record, "__dict__") if kind.__dictoffset__ else None
    for name, value in (*held.items(), *slots.items()):
        if name in places:
            places[name].__set__(record, value)
        elif inside is not None:
            inside[name] = value
        else:
            raise _changed(kind, f"no place for {name}")
    return record


def _make_struct(kind: Any, fields: dict[str, Any]) -> Any:
    if not is_plain_struct(kind) or {*kind.__struct_fields__} != {*fields}:
        raise _changed(kind, "other fields")
    # A Struct is made in C; those with a `__post_init__` are no plain ones.
    return kind(**fields)


def _changed(kind: type, why: str) -> StateError:
    return StateError(
        "MP231",
        f"a value of {kind.__qualname__} in a message was made by another definition of the class",
        expected="the class as it was when the message was sent",
        found=why,
        hint="run with the definition that sent it until no message is under way, then change the class",
    )


_MAKERS: Final[dict[str, Callable[..., Any]]] = {
    _ENUM: _make_enum,
    _TUPLE: _make_tuple,
    _DATACLASS: _make_dataclass,
    _STRUCT: _make_struct,
    _OBJECT: _make_object,
}
