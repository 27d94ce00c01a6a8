"""Values of declared types as trees without identity, and back: what "as if encoded and decoded" means, written anew.

It shares nothing with the codecs of the package, since it judges them.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any

PLAIN = (int, str, float, bool, type(None))


class MisfitError(Exception):
    """A value is not of its declared type, or holds itself."""


def encode(hint: Any, value: Any, inside: tuple[int, ...] = ()) -> Any:
    """A value as a tree of tuples under its declared type."""
    if hint is None or hint in PLAIN:
        if type(value) is not (type(None) if hint is None else hint):
            raise MisfitError(f"{value!r} is not {hint}")
        return value
    if id(value) in inside:
        raise MisfitError("a value holds itself")
    inside = (*inside, id(value))
    origin, given = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        return _first(given, value, inside)
    if origin in {list, set}:
        _check(type(value) is origin, hint, value)
        items = [encode(given[0], item, inside) for item in value]
        return tuple(items) if origin is list else frozenset(items)
    if origin is dict:
        _check(type(value) is dict, hint, value)
        return tuple((encode(given[0], key, inside), encode(given[1], item, inside)) for key, item in value.items())
    if origin is tuple:
        _check(type(value) is tuple and len(value) == len(given), hint, value)
        return tuple(encode(one, item, inside) for one, item in zip(given, value, strict=True))
    _check(type(value) is hint, hint, value)
    return tuple(encode(one, getattr(value, name), inside) for name, one in _fields(hint))


def decode(hint: Any, tree: Any) -> Any:
    """A new value out of its tree: no part of it is in any other value."""
    if hint is None or hint in PLAIN:
        return tree
    origin, given = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        place, held = tree
        return decode(given[place], held)
    if origin is set:
        # In the order of stored bytes, since whoever walks through a set may see it: negative numbers come last.
        return {decode(given[0], item) for item in sorted(tree, key=_stored_order)}
    if origin is list:
        return [decode(given[0], item) for item in tree]
    if origin is dict:
        return {decode(given[0], key): decode(given[1], item) for key, item in tree}
    if origin is tuple:
        return tuple(decode(one, item) for one, item in zip(given, tree, strict=True))
    parts = {name: decode(one, item) for (name, one), item in zip(_fields(hint), tree, strict=True)}
    if dataclasses.is_dataclass(hint):
        made = object.__new__(hint)
        for name, part in parts.items():
            object.__setattr__(made, name, part)
        return made
    return hint(**parts)


def told(value: Any) -> str:
    """Any value as a text; sets in one order, and only what is declared of a dataclass."""
    if dataclasses.is_dataclass(value):
        parts = ", ".join(f"{one.name}={told(getattr(value, one.name))}" for one in dataclasses.fields(value))
        return f"{type(value).__name__}({parts})"
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(told, value))) + "}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{told(key)}: {told(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}[{', '.join(map(told, value))}]"
    return repr(value)


def copied(value: Any) -> Any:
    """A copy of a plain value whose type nobody declared: arguments and defaults of parameters."""
    if isinstance(value, list | tuple | set):
        return type(value)(copied(item) for item in value)
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return value


def _stored_order(member: Any) -> Any:
    return member % 2**64 if isinstance(member, int) else member


def _first(hints: tuple[Any, ...], value: Any, inside: tuple[int, ...]) -> Any:
    for place, hint in enumerate(hints):
        try:
            return place, encode(None if hint is type(None) else hint, value, inside)
        except MisfitError:
            continue
    raise MisfitError(f"{value!r} is none of {hints}")


def _fields(hint: Any) -> list[tuple[str, Any]]:
    names = hint._fields if hasattr(hint, "_fields") else [one.name for one in dataclasses.fields(hint)]
    hints = typing.get_type_hints(hint)
    return [(name, hints[name]) for name in names]


def _check(fits: bool, hint: Any, value: Any) -> None:
    if not fits:
        raise MisfitError(f"{value!r} is not {hint}")
