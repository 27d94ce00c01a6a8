"""Records of the user's own classes: what runs when one is made, looked at or changed, and what it may keep."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, is_dataclass
from typing import Any, Final, get_args, get_type_hints

from millpond.compiler.analysis.mutability import is_frozen
from millpond.state.codec.classes import UNRESOLVED, is_named_tuple, is_plain_dataclass

_MAKING: Final = frozenset(("__init__", "__new__", "__post_init__", "__init_subclass__", "__class_getitem__"))
"""What runs when a record is made, which is looked at where one is."""


def remembers(hint: Any, seen: frozenset[Any] = frozenset()) -> bool:
    """Whether values of a type may keep what is no field of theirs: a result that was computed once."""
    if isinstance(hint, type) and hint not in seen:
        members = (member for base in hint.__mro__ for member in vars(base).values())
        if any(isinstance(member, functools.cached_property) for member in members):
            return True
        if is_dataclass(hint) or is_named_tuple(hint):
            return any(remembers(part, seen | {hint}) for part in fields_of(hint).values())
    return any(remembers(part, seen) for part in get_args(hint))


def has_code(hint: Any, seen: frozenset[Any] = frozenset()) -> bool:
    """Whether Python runs code of the user's own where values of a type are compared, walked through or added."""
    if isinstance(hint, type) and hint not in seen and fields_of(hint):
        own = (vars(base).items() for base in hint.__mro__ if base.__module__ != "builtins")
        special = (member for items in own for name, member in items if name.startswith("__") and name not in _MAKING)
        if any(_is_written(member) for member in special):
            return True
        return any(has_code(part, seen | {hint}) for part in fields_of(hint).values())
    return any(has_code(part, seen) for part in get_args(hint))


def _function_of(member: Any) -> Any:
    """The function of a property or of a method of a class."""
    return getattr(member, "fget", None) or getattr(member, "__func__", member)


def _is_written(member: Any) -> bool:
    """Whether a member of a class is a function that a user wrote, not one that Python made."""
    code = getattr(member, "__code__", None)
    return code is not None and not code.co_filename.startswith("<") and "dataclasses" not in code.co_filename


@functools.lru_cache(maxsize=1024)
def fields_of(kind: type) -> dict[str, Any]:
    """The declared fields of a record, none of another class."""
    if not (is_dataclass(kind) or is_named_tuple(kind) or hasattr(kind, "__struct_fields__")):
        return {}
    try:
        return get_type_hints(kind)
    except UNRESOLVED:
        return {"": Any}


def classes_in(hints: Iterable[Any]) -> set[type]:
    """All classes that some hints name, and their fields, and the fields of these."""
    found: set[type] = set()
    waiting = list(hints)
    while waiting:
        hint = waiting.pop()
        if not isinstance(hint, type):
            waiting += get_args(hint)
        elif hint not in found:
            found.add(hint)
            waiting += [*get_args(hint), *fields_of(hint).values()]
    return found


def methods_of(kind: type) -> Iterator[str]:
    """The members of a class that are written in Python."""
    return (name for base in kind.__mro__ for name, member in vars(base).items() if _is_written(_function_of(member)))


def sets_plainly(kind: type) -> bool:
    """Whether setting an attribute of a class does no more than that."""
    setting: Any = kind.__setattr__
    return setting is object.__setattr__ and not any(
        isinstance(member, property) or hasattr(type(member), "__set__")
        for base in kind.__mro__
        if base is not object
        for name, member in vars(base).items()
        if name in fields_of(kind)
    )


def is_made_of_fields(kind: type) -> bool:
    """Whether a class only keeps what it is given: a record without code for that, whose defaults are new or plain."""
    new: Any = kind.__new__
    if is_named_tuple(kind):
        defaults = vars(kind).get("_field_defaults", {})
        return new is _tuple_maker(kind) and all(is_frozen(type(one)) for one in defaults.values())
    if not is_plain_dataclass(kind) or hasattr(kind, "__post_init__") or new is not object.__new__:
        return False
    made = getattr(kind, "__dataclass_params__", None)
    if made is None or not made.init or "__init__" not in vars(kind) or not _is_generated(kind):
        return False
    return all(map(_has_own_default, kind.__dataclass_fields__.values()))  # type: ignore[attr-defined]


def _has_own_default(field: Field[Any]) -> bool:
    """Whether each record gets another default, or one that can't be changed, if there is any."""
    if field.default_factory is not MISSING:
        return field.default_factory in (list, dict, set, deque)
    return field.default is MISSING or is_frozen(type(field.default))


def _tuple_maker(kind: type) -> Any:
    """What makes a named tuple that has no code of its own for it."""
    plain = next((base for base in reversed(kind.__mro__) if "_fields" in vars(base)), kind)
    return plain.__new__


def _is_generated(kind: type) -> bool:
    """Whether the `__init__` of a dataclass was written by the decorator."""
    code = getattr(vars(kind)["__init__"], "__code__", None)
    return code is not None and code.co_filename == "<string>"
