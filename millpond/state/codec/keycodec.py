"""Keys as bytes whose order is the order of the keys.

Supported: int (64 bits), str, bytes, bool, date, datetime, UUID, Decimal, and what `keyforms` makes of them: enums,
tuples, named tuples, frozen dataclasses. A key must be exactly of its declared type: Python's dicts take 1, 1.0 and
True for one key, and state refuses two of them, whichever is declared. Floats are no keys, so that neither -0.0 nor NaN
can be one. Text is compared by its code points, as Python does; a lone surrogate has no form in UTF-8 and is refused.

>>> codec = KeyCodec(int)
>>> codec.encode(-1) < codec.encode(0) < codec.encode(256), codec.decode(codec.encode(-1))
(True, -1)
>>> KeyCodec(tuple[str, int]).encode(("mill", 7)).hex(" ")
'6d 69 6c 6c 00 00 80 00 00 00 00 00 00 07'
"""

from __future__ import annotations

import datetime
import decimal
import struct
import uuid
from collections.abc import Callable, Sequence
from typing import Any, get_args, get_origin

import numpy as np
import numpy.typing as npt

from millpond.errors import StateError
from millpond.keygroups import INT_MAX, INT_MIN, encode_text, microseconds, moment_at, plain_decimal
from millpond.state.codec.keyforms import PLAIN, key_form
from millpond.state.codec.shown import shown
from millpond.state.codec.typenames import type_text

_SIGN = 1 << 63
_INT = struct.Struct(">Q")
_DAY = struct.Struct(">I")
_BELOW, _NOUGHT, _ABOVE = b"\x00", b"\x01", b"\x02"
_END = b"\x00\x00"
_ZERO = b"\x00\xff"

Encode = Callable[[Any], bytes]
Ints = npt.NDArray[np.int64]


class KeyCodec:
    """Encodes and decodes the keys of one declared type.

    >>> codec = KeyCodec(tuple[str, int])
    >>> codec.decode(codec.encode(("mill", 7)))
    ('mill', 7)
    >>> codec.encode(("mill", 7)) < codec.encode(("mill", 8)) < codec.encode(("pond", -1))
    True
    """

    def __init__(self, hint: Any) -> None:
        self.hint = hint
        self._form = key_form(hint)

    @property
    def stored(self) -> Any:
        """The plain type that is stored: of an enum that of its values, of a record a tuple of its fields."""
        return self._form.stored

    def check(self, key: Any) -> None:
        """Refuse a key that can't be encoded: of another type, out of range, or text without a UTF-8 form."""
        # Plain Python asks at every access; of most keys a look at the type tells.
        kind = self.hint
        if kind is int and type(key) is int and INT_MIN <= key <= INT_MAX:
            return
        if kind is str and type(key) is str and key.isascii():
            return
        self.encode(key)

    def check_types(self, keys: Sequence[Any]) -> None:
        """Refuse a column of keys if one is not of the declared type: a dict would take 1, 1.0 and True for one key."""
        if self.hint not in PLAIN or not {self.hint}.issuperset(map(type, keys)):
            for key in keys:
                self._check_type(key)

    def _check_type(self, key: Any) -> None:
        if not self._form.fits(key):
            raise StateError(
                "MP207",
                "a key is not of its declared type",
                expected=type_text(self.hint),
                found=shown(key),
                hint="a datetime is in UTC or has no zone: moment.astimezone(UTC)"
                if isinstance(key, datetime.datetime)
                else "Python takes 1, 1.0 and True for one key, and state does not: convert it first, e.g. int(x)",
            )

    def encode(self, key: Any) -> bytes:
        """Encode one key, checked."""
        self._check_type(key)
        plain = key if self._form.same else self._form.lower(key)
        if type(plain) is str:
            return encode_text(plain)
        return plain if type(plain) is bytes else _encode_part(plain)

    def encode_many(self, keys: Sequence[Any]) -> list[bytes]:
        """Encode a column of keys, checked; integers are encoded as one array."""
        numbers = self.integers(keys)
        if numbers is not None:
            fixed: list[bytes] = encode_integers(numbers).view("V8").ravel().tolist()
            return fixed
        if self.hint is str and {str}.issuperset(map(type, keys)):
            try:
                return list(map(str.encode, keys))
            except UnicodeEncodeError:
                pass  # the slow way below says which one it is
        return [self.encode(key) for key in keys]

    def integers(self, keys: Sequence[Any] | Ints) -> Ints | None:
        """Return a column of integer keys as an array; None if they are not all integers of 64 bits."""
        if isinstance(keys, np.ndarray):
            return keys if self.hint is int and keys.dtype == np.int64 else None
        if self.hint is not int or not keys or set(map(type, keys)) != {int}:
            return None
        try:
            return np.array(keys, dtype=np.int64)
        except OverflowError:
            return None

    def decode(self, data: bytes) -> Any:
        """Decode one key."""
        try:
            return self._decode(data)
        except (ValueError, OverflowError, IndexError, struct.error) as error:
            raise StateError(
                "MP216",
                "a stored key is not of its declared type",
                expected=type_text(self.hint),
                found=shown(data),
                hint="`millpond state verify` looks at all files of a checkpoint",
            ) from error

    def decode_many(self, column: Sequence[bytes]) -> list[Any]:
        """Decode keys in order; integers as one array."""
        if self.hint is int and all(len(data) == _INT.size for data in column):
            numbers = np.frombuffer(b"".join(column), dtype=">u8").astype(np.uint64) ^ np.uint64(_SIGN)
            decoded: list[Any] = numbers.view(np.int64).tolist()
            return decoded
        return [self.decode(data) for data in column]

    def _decode(self, data: bytes) -> Any:
        stored = self._form.stored
        if stored is str:
            plain: Any = data.decode("utf-8")
        else:
            plain = data if stored is bytes else _decode_part(stored, data, 0)[0]
        return plain if self._form.same else self._form.lift(plain)


def encode_integers(keys: Ints) -> npt.NDArray[np.uint8]:
    """Return integer keys as rows of eight bytes."""
    flat = (keys.view(np.uint64) ^ np.uint64(_SIGN)).astype(">u8")
    return flat.view(np.uint8).reshape(len(keys), 8)


def _encode_part(part: Any) -> bytes:
    kind = type(part)
    if kind is tuple:
        return b"".join(map(_encode_part, part))
    if kind is int:
        if not INT_MIN <= part <= INT_MAX:
            raise StateError(
                "MP201", "an integer key does not fit into 64 bits", expected="64 bits, signed", found=shown(part)
            )
        return _INT.pack(part + _SIGN)
    if kind is bool:
        return b"\x01" if part else b"\x00"
    if kind is datetime.date:
        return _DAY.pack(part.toordinal())
    if kind is datetime.datetime:
        return (b"\x00" if part.tzinfo is None else b"\x01") + _INT.pack(microseconds(part) + _SIGN)
    if kind is uuid.UUID:
        identifier: bytes = part.bytes
        return identifier
    if kind is decimal.Decimal:
        return _encode_decimal(part)
    data = part if kind is bytes else encode_text(part)
    return data.replace(b"\x00", _ZERO) + _END


def _encode_decimal(number: decimal.Decimal) -> bytes:
    """Encode a number as its sign, its size and its digits; of a negative one the bytes are turned round."""
    if not number:
        return _NOUGHT
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0")
    data = _INT.pack(number.adjusted() + _SIGN) + digits.encode() + b"\x00"
    return _ABOVE + data if number > 0 else _BELOW + _turned(data)


def _turned(data: bytes) -> bytes:
    return bytes(255 - byte for byte in data)


def _decode_part(kind: Any, data: bytes, at: int) -> tuple[Any, int]:
    if get_origin(kind) is tuple:
        parts = []
        for part_kind in get_args(kind):
            part, at = _decode_part(part_kind, data, at)
            parts.append(part)
        return tuple(parts), at
    if kind is int:
        return _INT.unpack_from(data, at)[0] - _SIGN, at + 8
    if kind is bool:
        return data[at] == 1, at + 1
    if kind is datetime.date:
        return datetime.date.fromordinal(_DAY.unpack_from(data, at)[0]), at + 4
    if kind is datetime.datetime:
        moment = moment_at(_INT.unpack_from(data, at + 1)[0] - _SIGN)
        return moment.replace(tzinfo=datetime.UTC) if data[at] else moment, at + 9
    if kind is uuid.UUID:
        return uuid.UUID(bytes=data[at : at + 16]), at + 16
    if kind is decimal.Decimal:
        return _decode_decimal(data, at)
    end = _end_of(kind, data, at)
    raw = data[at:end].replace(_ZERO, b"\x00")
    return (raw if kind is bytes else raw.decode("utf-8")), end + 2


def _decode_decimal(data: bytes, at: int) -> tuple[decimal.Decimal, int]:
    sign, at = data[at : at + 1], at + 1
    if sign == _NOUGHT:
        return decimal.Decimal(0), at
    end = data.index(b"\x00" if sign == _ABOVE else b"\xff", at + 8)
    raw = data[at:end] if sign == _ABOVE else _turned(data[at:end])
    digits = raw[8:].decode()
    exponent = _INT.unpack_from(raw)[0] - _SIGN - (len(digits) - 1)
    number = decimal.Decimal((0 if sign == _ABOVE else 1, tuple(map(int, digits)), exponent))
    return plain_decimal(number), end + 1


def _end_of(kind: Any, data: bytes, at: int) -> int:
    """Return where text or bytes inside of a key end."""
    end = at
    while data[end : end + 2] != _END:
        if end >= len(data):
            raise StateError(
                "MP216",
                "a stored key is cut short",
                expected=f"{type_text(kind)} with its end",
                found=shown(data),
                hint="`millpond state verify` looks at all files of a checkpoint",
            )
        end += 2 if data[end : end + 2] == _ZERO else 1
    return end
