"""Values between tasks: self-describing msgpack that keeps the nature of what it carries.

Plain msgpack would turn tuples into lists and vectors into dicts. Here they travel as extension types, so that a
variable is after a cut what it was before it.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
import zoneinfo
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from millpond.errors import RowError
from millpond.state.vector import Vector

_FLAT: Final = frozenset((int, float, str, bytes, bool, type(None)))
_BIG_INT, _TUPLE, _SET, _FROZENSET, _VECTOR, _TEXT, _DICT, _TIME = range(1, 9)
_TEXT_TYPES: Final[dict[type, tuple[str, Callable[[str], Any]]]] = {
    datetime.datetime: ("datetime", datetime.datetime.fromisoformat),
    datetime.date: ("date", datetime.date.fromisoformat),
    datetime.time: ("time", datetime.time.fromisoformat),
    decimal.Decimal: ("decimal", decimal.Decimal),
    uuid.UUID: ("uuid", uuid.UUID),
}
_FROM_TEXT: Final = dict(_TEXT_TYPES.values())

_encode = msgspec.msgpack.Encoder().encode


def encode_values(values: tuple[Any, ...]) -> bytes:
    """Encode the variables of a message."""
    try:
        if _FLAT.issuperset(map(type, values)):
            with suppress(OverflowError):
                return _encode(values)
        return _encode([_pack(value) for value in values])
    except (UnicodeEncodeError, RecursionError) as error:
        raise _unfit("a variable that crosses a cut can't be written", f"{type(error).__name__}: {error}") from None


def decode_values(data: bytes) -> list[Any]:
    """Decode the variables of a message."""
    values: list[Any] = _decoder.decode(data)
    return values


def _pack(value: Any) -> Any:
    kind = type(value)
    if kind in _FLAT:
        if kind is int and not -(2**63) <= value < 2**64:
            return msgspec.msgpack.Ext(_BIG_INT, str(value).encode())
        return value
    if kind is list:
        return [_pack(item) for item in value]
    if kind is tuple:
        return _ext(_TUPLE, [_pack(item) for item in value])
    if kind is dict:
        return _ext(_DICT, [[_pack(key), _pack(item)] for key, item in value.items()])
    if kind is Vector:
        return _ext(_VECTOR, [[_pack(key), _pack(item)] for key, item in value.items()])
    if kind in (set, frozenset):
        members = sorted(_encode(_pack(item)) for item in value)
        return _ext(_SET if kind is set else _FROZENSET, members)
    if kind is datetime.datetime or kind is datetime.time:
        text = value.replace(tzinfo=None).isoformat()
        return _ext(_TIME, [_TEXT_TYPES[kind][0], text, value.fold, _zone_text(value.tzinfo)])
    if kind in _TEXT_TYPES:
        return _ext(_TEXT, [_TEXT_TYPES[kind][0], str(value)])
    raise _unfit(
        "a variable that crosses a cut has a type that can't travel",
        f"{kind.__module__}.{kind.__qualname__}: {value!r}",
    )


def _unfit(summary: str, found: str) -> RowError:
    return RowError(
        "MP601",
        summary,
        expected="numbers, str, bytes, bool, None, dates, Decimal, UUID, list, tuple, dict, set, Vector",
        found=found[:120],
        hint="convert it before the next state access, or build it after",
    )


def _zone_text(zone: datetime.tzinfo | None) -> str | float | None:
    """A time zone as it travels: its name, or its offset from UTC in seconds."""
    if zone is None:
        return None
    if isinstance(zone, zoneinfo.ZoneInfo) and zone.key is not None:
        return zone.key
    if type(zone) is datetime.timezone:
        return zone.utcoffset(None).total_seconds()
    raise _unfit("a time zone that crosses a cut can't travel", f"{type(zone).__qualname__}: {zone!r}")


def _read_time(name: str, text: str, fold: int, zone: str | float | None) -> datetime.datetime | datetime.time:
    time: datetime.datetime | datetime.time = _FROM_TEXT[name](text)
    place: datetime.tzinfo | None = None
    if isinstance(zone, str):
        place = zoneinfo.ZoneInfo(zone)
    elif zone is not None:
        place = datetime.timezone(datetime.timedelta(seconds=zone)) if zone else datetime.UTC
    return time.replace(fold=fold, tzinfo=place)


def _ext(code: int, packed: list[Any]) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, _encode(packed))


def _unpack(code: int, data: memoryview) -> Any:
    if code == _BIG_INT:
        return int(bytes(data))
    items = _decoder.decode(data)
    if code == _TUPLE:
        return tuple(items)
    if code == _DICT:
        return {key: item for key, item in items}  # noqa: C416
    if code == _VECTOR:
        return Vector(items)
    if code == _TEXT:
        return _FROM_TEXT[items[0]](items[1])
    if code == _TIME:
        return _read_time(*items)
    members = (_decoder.decode(member) for member in items)
    return set(members) if code == _SET else frozenset(members)


_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ext_hook=_unpack)
