"""Decoded keys and values as JSON, and as text for people: the same on every run.

JSON has no bytes, no dates, no NaN, and only text as keys of objects. So bytes are hex; dates, times, durations,
decimals and UUIDs are their text; NaN and infinities are the texts `NaN`, `Infinity` and `-Infinity`; tuples and sets
are arrays, sets in the order of their members' text. A key of a dict is its text, or its JSON in text if it is no
scalar; if two keys have one text, the dict is an array of pairs.
"""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from typing import Any

import msgspec

from millpond.state.codec.shown import ascii_surrogates

_FLAT = (str, int, bool, type(None))


def as_json(value: Any) -> Any:
    """Return a value made of what JSON has."""
    if type(value) in _FLAT:
        return value
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, bytes):
        return value.hex()
    # By `map` and not in comprehensions: these need more of Python's stack, and values may be nested deeply.
    if isinstance(value, list | tuple):
        return list(map(as_json, value))
    if isinstance(value, set | frozenset):
        return sorted(map(as_json, value), key=_order)
    if isinstance(value, dict):
        return _object(value, list(map(as_json, value.values())))
    return _text(value)


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _text(value: Any) -> str:
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        text: str = msgspec.to_builtins(value)
        return text
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    # Extensions of MessagePack that state does not have, in values of no known type.
    return repr(value)


def _object(value: dict[Any, Any], items: list[Any]) -> Any:
    named = dict(zip(map(_name, value), items, strict=True))
    if len(named) == len(value):
        return named
    return [[as_json(key), item] for key, item in zip(value, items, strict=True)]


def _name(key: Any) -> str:
    plain = as_json(key)
    return plain if isinstance(plain, str) else json_text(plain)


def _order(plain: Any) -> tuple[str, Any]:
    if isinstance(plain, int | float):
        return "", plain
    return type(plain).__name__, json_text(plain)


def json_text(plain: Any) -> str:
    """Say what `as_json` gave, as one line of JSON."""
    return msgspec.json.encode(plain).decode()


def as_text(value: Any) -> str:
    """Return a value for people: as Python writes it, but for sets, whose order would differ from run to run."""
    if isinstance(value, set | frozenset):
        inside = ", ".join(sorted(map(as_text, value)))
        return f"{{{inside}}}" if value else "set()"
    if isinstance(value, list):
        return f"[{', '.join(map(as_text, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(as_text, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        pairs = zip(list(map(as_text, value)), list(map(as_text, value.values())), strict=True)
        return f"{{{', '.join(f'{key}: {item}' for key, item in pairs)}}}"
    if isinstance(value, datetime.date | datetime.time | datetime.timedelta | decimal.Decimal | uuid.UUID):
        return str(value)
    return repr(value)


def printable(text: str) -> str:
    """Text of a checkpoint as a terminal may show it: no control characters, no lone surrogates."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in ascii_surrogates(text))
