"""From the text of a type, as the genesis notes it, to a type that values can be decoded by.

Nothing is imported or looked up: a name is one of the few known here, or it is unknown, as all classes of programs
are. What is unknown reads as plain values: dicts, lists, text, numbers.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import operator
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

DEPTH_MAX = 50
"""No program nests its types so deeply; a text that does was not written by one."""

_BUILTIN: dict[str, Any] = {
    "int": int,
    "float": float,
    "str": str,
    "bytes": bytes,
    "bool": bool,
    "None": None,
    "list": list,
    "dict": dict,
    "set": set,
    "frozenset": frozenset,
    "tuple": tuple,
}
_LIBRARY: dict[str, Any] = {
    "date": datetime.date,
    "datetime": datetime.datetime,
    "time": datetime.time,
    "timedelta": datetime.timedelta,
    "Decimal": decimal.Decimal,
    "UUID": uuid.UUID,
}
_WIDTHS = {"list": 1, "dict": 2, "set": 1, "frozenset": 1}
_TOKEN = re.compile(r"\s*([A-Za-z_][\w.]*|\.\.\.|[\[\],|]|\S)")


@dataclass(frozen=True, slots=True)
class TypeText:
    """What a text says: a type to decode by, with `Any` for what is unknown.

    It is `known` if nothing in it is unknown, and `certain` if it is made of built-in types alone: a class of the
    program may be called `date` too.
    """

    hint: Any
    known: bool = True
    certain: bool = True


UNKNOWN = TypeText(Any, known=False, certain=False)


class _Unreadable(Exception):  # noqa: N818 - it never leaves this module
    """The text is not of the form that types have."""


def read_type(text: str) -> TypeText:
    """Read the text of a type; one that can't be read is unknown."""
    tokens = _Tokens(text)
    try:
        found = _union(tokens, 0)
        tokens.expect("")
    except _Unreadable:
        return UNKNOWN
    return found


class _Tokens:
    def __init__(self, text: str) -> None:
        self._rest: Iterator[str] = (match[1] for match in _TOKEN.finditer(text))
        self.now = next(self._rest, "")

    def take(self) -> str:
        taken, self.now = self.now, next(self._rest, "")
        return taken

    def accept(self, token: str) -> bool:
        if self.now == token:
            self.take()
            return True
        return False

    def expect(self, token: str) -> None:
        if self.take() != token:
            raise _Unreadable


def _union(tokens: _Tokens, depth: int) -> TypeText:
    if depth > DEPTH_MAX:
        raise _Unreadable
    members = [_one(tokens, depth)]
    while tokens.accept("|"):
        members.append(_one(tokens, depth))
    if len(members) == 1:
        return members[0]
    if any(member.hint is Any for member in members):
        return UNKNOWN
    hint = functools.reduce(operator.or_, (_orable(member.hint) for member in members))
    return TypeText(hint, all(member.known for member in members), all(member.certain for member in members))


def _orable(hint: Any) -> Any:
    return type(None) if hint is None else hint


def _one(tokens: _Tokens, depth: int) -> TypeText:
    name = tokens.take()
    if not (name[:1].isalpha() or name[:1] == "_"):
        raise _Unreadable
    if tokens.accept("["):
        if name == "Annotated":
            return _annotated(tokens, depth)
        return _generic(name, *_arguments(tokens, depth))
    if name in _BUILTIN:
        return TypeText(_BUILTIN[name])
    return TypeText(_LIBRARY[name], certain=False) if name in _LIBRARY else UNKNOWN


def _arguments(tokens: _Tokens, depth: int) -> tuple[list[TypeText], bool]:
    """Return the types between brackets, and whether `...` follows the last one."""
    found: list[TypeText] = []
    while not tokens.accept("]"):
        if found:
            tokens.expect(",")
            if tokens.accept("..."):
                tokens.expect("]")
                return found, True
        found.append(_union(tokens, depth + 1))
    return found, False


def _annotated(tokens: _Tokens, depth: int) -> TypeText:
    """Return the type that is annotated; the notes are Python of any form, and are skipped up to the bracket's end."""
    found = _union(tokens, depth + 1)
    opened = 1
    while opened:
        sign = tokens.take()
        if not sign:
            raise _Unreadable
        opened += (sign == "[") - (sign == "]")
    # Text in the notes may hold brackets, and then the end is not where it seems.
    return TypeText(found.hint, found.known, certain=False)


def _generic(name: str, parts: list[TypeText], endless: bool) -> TypeText:
    hints = tuple(part.hint for part in parts)
    known = all(part.known for part in parts)
    certain = all(part.certain for part in parts)
    if name == "tuple":
        if endless and len(parts) != 1:
            raise _Unreadable
        return TypeText(_BUILTIN[name][(hints[0], ...) if endless else hints], known, certain)
    if name not in _WIDTHS:
        return UNKNOWN
    if endless or len(parts) != _WIDTHS[name]:
        raise _Unreadable
    if name == "dict":
        # Records as keys are plain dicts here, which can't be keys: `loose` reads such values.
        return TypeText(_BUILTIN[name][hints], known, certain) if parts[0].known else UNKNOWN
    if name in ("set", "frozenset") and not parts[0].known:
        return TypeText(list[Any], known=False, certain=False)
    return TypeText(_BUILTIN[name][hints[0]], known, certain)
