"""MessagePack read without any type, where the decoder of msgspec gives up: maps whose keys are no keys in Python.

A dict by records (`dict[Place, int]`) is stored as a map whose keys are maps. It reads as a list of pairs here.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

_LENGTHS = {1: ">B", 2: ">H", 4: ">I"}
_NUMBERS = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
_CONSTANTS: dict[int, Any] = {0xC0: None, 0xC2: False, 0xC3: True}
_EXT_FIXED = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}


def decode_loosely(data: bytes) -> Any:
    """Return one value, whatever it is made of; raises `ValueError` if these are not the bytes of exactly one."""
    try:
        value, end = _Reader(data).value(0)
    except (struct.error, IndexError, UnicodeDecodeError, msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes more than one value")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def value(self, at: int) -> tuple[Any, int]:
        code = self._data[at]
        at += 1
        if code < 0x80:
            return code, at
        if code >= 0xE0:
            return code - 0x100, at
        if code < 0x90:
            return self._map(at, code & 0x0F)
        if code < 0xA0:
            return self._array(at, code & 0x0F)
        if code < 0xC0:
            return self._text(at, code & 0x1F)
        if code in _CONSTANTS:
            return _CONSTANTS[code], at
        if code in _NUMBERS:
            form = _NUMBERS[code]
            return struct.unpack_from(form, self._data, at)[0], at + struct.calcsize(form)
        return self._long(code, at)

    def _long(self, code: int, at: int) -> tuple[Any, int]:
        if code in _EXT_FIXED:
            return self._ext(at, at, _EXT_FIXED[code])
        match code:
            case 0xC4 | 0xC5 | 0xC6:
                size, at = self._length(at, 1 << code - 0xC4)
                return self._raw(at, size), at + size
            case 0xC7 | 0xC8 | 0xC9:
                size, body = self._length(at, 1 << code - 0xC7)
                return self._ext(at, body, size)
            case 0xD9 | 0xDA | 0xDB:
                size, at = self._length(at, 1 << code - 0xD9)
                return self._text(at, size)
            case 0xDC | 0xDD:
                size, at = self._length(at, 2 << code - 0xDC)
                return self._array(at, size)
            case 0xDE | 0xDF:
                size, at = self._length(at, 2 << code - 0xDE)
                return self._map(at, size)
        raise ValueError(f"a byte {code:#x} that begins nothing")

    def _length(self, at: int, width: int) -> tuple[int, int]:
        return struct.unpack_from(_LENGTHS[width], self._data, at)[0], at + width

    def _raw(self, at: int, size: int) -> bytes:
        if at + size > len(self._data):
            raise ValueError("the bytes end within a value")
        return self._data[at : at + size]

    def _text(self, at: int, size: int) -> tuple[str, int]:
        return self._raw(at, size).decode("utf-8"), at + size

    def _ext(self, head: int, at: int, size: int) -> tuple[Any, int]:
        """Return an extension from its first byte on: msgspec knows moments, and nothing else is in state."""
        end = at + 1 + size
        return msgspec.msgpack.decode(self._raw(head - 1, end - head + 1)), end

    def _array(self, at: int, size: int) -> tuple[list[Any], int]:
        items = []
        for _ in range(size):
            item, at = self.value(at)
            items.append(item)
        return items, at

    def _map(self, at: int, size: int) -> tuple[Any, int]:
        pairs: list[tuple[Any, Any]] = []
        for _ in range(size):
            key, at = self.value(at)
            item, at = self.value(at)
            pairs.append((_as_key(key), item))
        try:
            return dict(pairs), at
        except TypeError:
            return [list(pair) for pair in pairs], at


def _as_key(value: Any) -> Any:
    return tuple(map(_as_key, value)) if isinstance(value, list) else value
