"""What is stored of a key: plain types as they are, enums as their values, records as tuples of their fields.

>>> import enum
>>> class Colour(enum.Enum):
...     RED = "red"
>>> form = key_form(tuple[Colour, int])
>>> form.stored, form.lower((Colour.RED, 7)), form.lift(("red", 7))
(tuple[str, int], ('red', 7), (<Colour.RED: 'red'>, 7))

A checkpoint names the stored type, so that it can be read without the classes of the program.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import typing
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, get_args, get_origin

from millpond.errors import StateError
from millpond.keygroups import plain_decimal, plain_key
from millpond.state.codec.classes import UNRESOLVED, is_named_tuple, is_plain_dataclass
from millpond.state.codec.typenames import type_text

PLAIN: Final = (int, str, bytes, bool, datetime.date)
"""Types whose keys Python itself keeps apart and in order as the stored bytes do."""

_MICROSECOND: Final = datetime.timedelta(microseconds=1)

_GENERATED: Final = "<string>"
"""The file that Python names for methods that `dataclass` writes."""


@dataclass(frozen=True, slots=True)
class KeyForm:
    """How keys of a type are stored: the plain type, the way there and back, and whether a key is of the type.

    `same` says that keys are stored as they are.
    """

    stored: Any
    lower: Callable[[Any], Any]
    lift: Callable[[Any], Any]
    fits: Callable[[Any], bool]
    same: bool = False


def key_form(hint: Any) -> KeyForm:
    """Return the form of a key type, or raise MP202 if no key can be of it."""
    if get_origin(hint) is tuple:
        return _tuple_form(hint)
    if get_origin(hint) is Literal:
        return _literal_form(hint)
    if isinstance(hint, type):
        if hint in PLAIN or hint is uuid.UUID:
            return KeyForm(hint, _as_is, _as_is, lambda key: type(key) is hint, same=True)
        if hint is datetime.datetime:
            return KeyForm(hint, _as_is, _as_is, _is_moment, same=True)
        if hint is decimal.Decimal:
            return KeyForm(hint, plain_decimal, _as_is, lambda key: type(key) is hint and key.is_finite())
        if hint is datetime.timedelta:
            return KeyForm(int, plain_key, lambda us: us * _MICROSECOND, lambda key: type(key) is hint)
        if issubclass(hint, enum.Enum):
            return _enum_form(hint)
        if is_named_tuple(hint):
            return _record_form(hint, partial(_made_tuple, hint))
        if is_plain_dataclass(hint) and _compares_by_fields(hint):
            return _record_form(hint, partial(_made, hint))
    raise _unsupported(hint)


def _as_is(key: Any) -> Any:
    return key


def _is_moment(key: Any) -> bool:
    # The stored form knows UTC and no other zone; the same moment of another zone is equal, and would come back in UTC.
    return type(key) is datetime.datetime and key.fold == 0 and (key.tzinfo is None or str(key.tzinfo) == "UTC")


def _tuple_form(hint: Any) -> KeyForm:
    if Ellipsis in get_args(hint):
        raise _unsupported(hint)
    forms = _forms(hint, get_args(hint))
    whole: Any = tuple
    return KeyForm(
        whole[tuple(form.stored for form in forms)],
        lambda key: tuple([form.lower(part) for form, part in zip(forms, key, strict=True)]),
        lambda key: tuple([form.lift(part) for form, part in zip(forms, key, strict=True)]),
        lambda key: type(key) is tuple and _all_fit(forms, key),
        same=all(form.same for form in forms),
    )


def _record_form(hint: type, make: Callable[[list[Any]], Any]) -> KeyForm:
    try:
        hints = typing.get_type_hints(hint)
    except UNRESOLVED:
        raise _unsupported(hint) from None
    names = getattr(hint, "_fields", None) or tuple(field.name for field in dataclasses.fields(hint))
    forms = _forms(hint, [hints.get(name) for name in names])
    whole: Any = tuple
    return KeyForm(
        whole[tuple(form.stored for form in forms)],
        lambda key: tuple([form.lower(getattr(key, name)) for name, form in zip(names, forms, strict=True)]),
        lambda key: make([form.lift(part) for form, part in zip(forms, key, strict=True)]),
        lambda key: type(key) is hint and _all_fit(forms, [getattr(key, name) for name in names]),
    )


def _forms(whole: Any, hints: Iterable[Any]) -> list[KeyForm]:
    try:
        return [key_form(part) for part in hints]
    except RecursionError:
        raise _unsupported(whole) from None


def _all_fit(forms: list[KeyForm], parts: Any) -> bool:
    return len(parts) == len(forms) and all(form.fits(part) for form, part in zip(forms, parts, strict=True))


def _enum_form(hint: type[enum.Enum]) -> KeyForm:
    kinds = {type(member.value) for member in hint}
    if len(kinds) != 1 or not kinds <= {int, str}:
        raise _unsupported(hint)
    # Combinations of flags are members too, which the class makes.
    return KeyForm(kinds.pop(), lambda key: key.value, hint, lambda key: type(key) is hint)


def _literal_form(hint: Any) -> KeyForm:
    values = get_args(hint)
    kinds = {type(value) for value in values}
    if len(kinds) != 1 or not kinds <= {int, str, bytes, bool}:
        raise _unsupported(hint)
    kind = kinds.pop()
    return KeyForm(kind, _as_is, _as_is, lambda key: type(key) is kind and key in values, same=True)


def _compares_by_fields(hint: Any) -> bool:
    """Return whether equal keys have equal fields, all of them, and nobody can change one."""
    params, fields = hint.__dataclass_params__, dataclasses.fields(hint)
    if not (params.frozen and params.eq and all(field.compare and field.hash is not False for field in fields)):
        return False
    methods = [getattr(hint, name) for name in ("__eq__", "__hash__")]
    return all(getattr(getattr(one, "__code__", None), "co_filename", _GENERATED) == _GENERATED for one in methods)


def _made_tuple(hint: Any, parts: list[Any]) -> Any:
    return tuple.__new__(hint, parts)


def _made(hint: Any, parts: list[Any]) -> Any:
    record = object.__new__(hint)
    for field, part in zip(dataclasses.fields(hint), parts, strict=True):
        object.__setattr__(record, field.name, part)
    return record


def in_key_order(keys: Iterable[Any]) -> list[Any]:
    """Return keys of one type in the order of their stored bytes, Decimals as they come back from there."""
    listed = list(keys)
    if not listed or _orders_itself(listed[0]):
        return sorted(listed)
    return sorted(map(_canonical, listed), key=_order)


def _orders_itself(key: Any) -> bool:
    kind = type(key)
    return kind in PLAIN or (kind is tuple and all(map(_orders_itself, key)))


def _canonical(key: Any) -> Any:
    kind = type(key)
    if kind is decimal.Decimal:
        return plain_decimal(key)
    if kind is tuple:
        return tuple([_canonical(part) for part in key])
    if is_named_tuple(kind):
        return _made_tuple(kind, [_canonical(part) for part in key])
    return key if kind in PLAIN or not dataclasses.is_dataclass(kind) else _renewed(key)


def _renewed(key: Any) -> Any:
    parts = [getattr(key, field.name) for field in dataclasses.fields(key)]
    renewed = [_canonical(part) for part in parts]
    return key if all(map(lambda one, other: one is other, parts, renewed)) else _made(type(key), renewed)


def _order(key: Any) -> Any:
    """Return what keys are sorted by: as classes define no order, or another one than that of their fields."""
    plain = plain_key(key)
    if type(plain) is tuple:
        return tuple([_order(part) for part in plain])
    if type(plain) is datetime.datetime:
        # A moment without a zone can't be compared with one that has it.
        return plain.tzinfo is not None, plain.replace(tzinfo=None)
    return plain


def _unsupported(hint: Any) -> StateError:
    return StateError(
        "MP202",
        "this type can't be a key",
        expected="int, str, bytes, bool, date, datetime, timedelta, UUID, Decimal, Literal, an Enum of texts or of "
        "whole numbers, or a tuple, NamedTuple or frozen dataclass of them",
        found=type_text(hint),
        hint="use one of these types; floats are refused because equal-looking floats differ"
        if hint is float
        else "a dataclass needs frozen=True, fields of these types, and Python's own equality",
    )
