"""Copies of values that come from the caller of a plain program, or go there: trees that share nothing that can change.

>>> row = [1]
>>> first, second = copied((row, row))
>>> first == second == row, first is row, first is second
(True, False, False)
"""

from __future__ import annotations

import copy
import enum
import types
from operator import is_
from typing import Any, Final

import msgspec

from millpond.errors import StateError
from millpond.state.codec.canonical import UNFIT, canonical_set
from millpond.state.codec.nesting import NESTED_MAX
from millpond.state.codec.records import put_together, take_apart
from millpond.state.codec.shown import shown

_FLAT: Final = frozenset((int, float, str, bytes, bool, type(None)))
_WHOLE: Final = (enum.Enum, type, types.FunctionType, types.BuiltinFunctionType, range)
"""What stays what it is, wherever it goes."""

_UNCOPIED: Final = (TypeError, copy.Error)
"""What Python raises for an object that can't be copied: a generator, a lock, a file."""


def copied(value: Any) -> Any:
    """Return a copy of a value, all the way down; what can't be changed may be the same object."""
    try:
        return _copied(value)
    except RecursionError:
        raise StateError(
            "MP209",
            "a value that a row is given, or gives, holds itself",
            expected=f"a tree of at most {NESTED_MAX} levels of collections and records",
            found=shown(value, 120),
            hint="refer to it by a key instead",
        ) from None
    except _UNCOPIED as error:
        raise StateError(
            "MP209",
            "a value that a row is given, or gives, can't be copied",
            expected="numbers, text, bytes, dates, None, collections, dataclasses, named tuples, enums, arrays",
            found=f"{shown(value, 120)} ({shown(error, 120)})",
            hint="it would be one object inside and outside of the row: give what it holds instead",
        ) from error


def _copied(value: Any) -> Any:
    kind = type(value)
    if kind in _FLAT or isinstance(value, _WHOLE):
        return value
    if kind is list:
        return [part if type(part) in _FLAT else _copied(part) for part in value]
    if kind is tuple:
        inside = tuple(map(_copied, value))
        return value if all(map(is_, inside, value)) else inside
    if kind is dict:
        return {_copied(key): _copied(part) for key, part in value.items()}
    if kind in (set, frozenset):
        return _copied_set(value)
    record = take_apart(value) if not isinstance(value, msgspec.Struct) else None
    if record is None:
        return copy.deepcopy(value)
    what, (module, name, *parts) = record
    return put_together(what, [module, name, *map(_copied, parts)])


def _copied_set(value: Any) -> Any:
    """Return a set as it comes out of a column or goes into one: walked in the same order whatever was in it before."""
    try:
        return canonical_set(value)
    except UNFIT:
        return value.copy()
