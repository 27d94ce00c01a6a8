"""Keys as people write them on a command line, by the element's declared type."""

from __future__ import annotations

import datetime
import decimal
import re
import uuid
from collections.abc import Callable
from typing import Any, get_args, get_origin

import msgspec

from millpond.checkpoint.read.elements import ElementReader
from millpond.errors import MillpondError, StateError
from millpond.state.codec.typenames import type_text
from millpond.state.containers.value import THE_KEY

_WHOLE = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,6})?", re.ASCII)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)

_FORMS: dict[Any, str] = {
    int: "a whole number, as in 42",
    str: "text",
    bytes: "bytes in hex, as in 00ff",
    bool: "true or false",
    datetime.date: "a day, as in 2024-02-29",
    datetime.datetime: "a moment, as in 2024-02-29T12:00:00+00:00",
    uuid.UUID: "a UUID, as in 123e4567-e89b-12d3-a456-426614174000",
    decimal.Decimal: "a number, as in 1.5",
}
_PART_FORMS = _FORMS | {
    str: "text in quotes",
    bytes: '"bytes in hex"',
    datetime.date: '"a day"',
    datetime.datetime: '"a moment"',
    uuid.UUID: '"a UUID"',
    decimal.Decimal: '"a number"',
}


def parse_key(reader: ElementReader, text: str | None) -> Any:
    """Read the key of an element from text; text that is no such key is refused."""
    hint = reader.codec.hint
    if not reader.has_keys:
        if text is None:
            return THE_KEY
        raise _unfit(reader, "no key: the element is one value", text)
    if text is None:
        raise _unfit(reader, key_form(hint), "no key")
    try:
        key = _parse(hint, text)
        reader.codec.check(key)
    except (ValueError, OverflowError, MillpondError, msgspec.MsgspecError, RecursionError):
        raise _unfit(reader, key_form(hint), text) from None
    return key


def key_form(hint: Any) -> str:
    """Say how keys of a type are written."""
    if get_origin(hint) is tuple:
        return f"a JSON array of {len(get_args(hint))}: {_part_form(hint)}"
    return _FORMS[hint]


def _part_form(hint: Any) -> str:
    if get_origin(hint) is tuple:
        return f"[{', '.join(map(_part_form, get_args(hint)))}]"
    return _PART_FORMS[hint]


def _parse(hint: Any, text: str) -> Any:
    if get_origin(hint) is not tuple:
        return _PARSERS[hint](text)
    return _part(hint, msgspec.json.decode(text))


def _part(kind: Any, part: Any) -> Any:
    if get_origin(kind) is tuple:
        if not isinstance(part, list) or len(part) != len(get_args(kind)):
            raise ValueError
        return tuple(_part(inner, one) for inner, one in zip(get_args(kind), part, strict=True))
    if kind in (int, bool):
        if type(part) is not kind:
            raise ValueError
        return part
    if not isinstance(part, str):
        # A ValueError like the others: it is the text that does not fit.
        raise ValueError  # noqa: TRY004
    return _PARSERS[kind](part)


def _whole(text: str) -> int:
    if _WHOLE.fullmatch(text) is None:
        raise ValueError
    return int(text)


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()] if text.lower() in ("true", "false") else _refuse()


def _refuse() -> Any:
    raise ValueError


def _number(text: str) -> decimal.Decimal:
    return decimal.Decimal(text) if _NUMBER.fullmatch(text) else _refuse()


def _day(text: str) -> datetime.date:
    return datetime.date.fromisoformat(text) if _DAY.fullmatch(text) else _refuse()


_PARSERS: dict[Any, Callable[[str], Any]] = {
    int: _whole,
    str: str,
    bytes: bytes.fromhex,
    bool: _truth,
    datetime.date: _day,
    datetime.datetime: datetime.datetime.fromisoformat,
    uuid.UUID: uuid.UUID,
    decimal.Decimal: _number,
}


def _unfit(reader: ElementReader, expected: str, found: str) -> StateError:
    return StateError(
        "MP241",
        f"this is not a key of `{reader.schema.name}`",
        expected=f"{expected} ({type_text(reader.codec.hint)})" if reader.has_keys else expected,
        found=ascii(found)[:80],
    )
