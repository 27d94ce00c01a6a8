"""Keys as bytes whose order is the order of the keys.

Supported: int (64 bits), str, bytes, bool, datetime.date and tuples of them. A key must be exactly of its declared
type: Python's dicts take 1, 1.0 and True for one key, and state refuses two of them, whichever is declared. Floats are
no keys, so that neither -0.0 nor NaN can be one. Text is compared by its code points, as Python does; a lone surrogate
has no form in UTF-8 and is refused.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Sequence
from typing import Any, get_args, get_origin

import numpy as np
import numpy.typing as npt

from millpond.errors import StateError
from millpond.keygroups import INT_MAX, INT_MIN, encode_text
from millpond.state.codec.shown import shown
from millpond.state.codec.typenames import type_text

_SIGN = 1 << 63
_INT = struct.Struct(">Q")
_DAY = struct.Struct(">I")
_END = b"\x00\x00"
_ZERO = b"\x00\xff"

Encode = Callable[[Any], bytes]
Ints = npt.NDArray[np.int64]


class KeyCodec:
    """Encodes and decodes the keys of one declared type."""

    def __init__(self, hint: Any) -> None:
        self.hint = hint
        self._check_supported(hint)

    def _check_supported(self, hint: Any) -> None:
        if get_origin(hint) is tuple:
            parts = get_args(hint)
            if Ellipsis in parts:
                raise _unsupported(hint)
            for part in parts:
                if get_origin(part) is tuple:
                    raise _unsupported(hint)
                self._check_supported(part)
        elif hint not in (int, str, bytes, bool, datetime.date):
            raise _unsupported(hint)

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
        if get_origin(self.hint) is tuple or not {self.hint}.issuperset(map(type, keys)):
            for key in keys:
                self._check_type(key)

    def _check_type(self, key: Any) -> None:
        if get_origin(self.hint) is tuple:
            kinds = get_args(self.hint)
            good = (
                type(key) is tuple
                and len(key) == len(kinds)
                and all(type(k) is t for k, t in zip(key, kinds, strict=True))
            )
        else:
            good = type(key) is self.hint
        if not good:
            raise StateError(
                "MP207",
                "a key is not of its declared type",
                expected=type_text(self.hint),
                found=shown(key),
                hint="Python takes 1, 1.0 and True for one key, and state does not: convert it first, e.g. int(x)",
            )
        for part in key if type(key) is tuple else (key,):
            if type(part) is int and not INT_MIN <= part <= INT_MAX:
                raise StateError(
                    "MP201", "an integer key is out of range", expected="64 bits, signed", found=shown(part)
                )

    def encode(self, key: Any) -> bytes:
        """Encode one key, checked."""
        self._check_type(key)
        if self.hint is int:
            return _INT.pack(key + _SIGN)
        if self.hint is str:
            return encode_text(key)
        if self.hint is bytes:
            return bytes(key)
        if type(key) is tuple:
            return b"".join(_encode_part(part) for part in key)
        return _encode_part(key)

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
        """A column of integer keys as an array; None if they are not all integers of 64 bits."""
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
        if self.hint is str:
            return data.decode("utf-8")
        if self.hint is bytes:
            return data
        if get_origin(self.hint) is tuple:
            parts = []
            at = 0
            for kind in get_args(self.hint):
                part, at = _decode_part(kind, data, at)
                parts.append(part)
            return tuple(parts)
        return _decode_part(self.hint, data, 0)[0]


def encode_integers(keys: Ints) -> npt.NDArray[np.uint8]:
    """Integer keys as rows of eight bytes."""
    flat = (keys.view(np.uint64) ^ np.uint64(_SIGN)).astype(">u8")
    return flat.view(np.uint8).reshape(len(keys), 8)


def _encode_part(part: Any) -> bytes:
    if type(part) is int:
        return _INT.pack(part + _SIGN)
    if type(part) is bool:
        return b"\x01" if part else b"\x00"
    if type(part) is datetime.date:
        return _DAY.pack(part.toordinal())
    data = part if type(part) is bytes else encode_text(part)
    return data.replace(b"\x00", _ZERO) + _END


def _decode_part(kind: Any, data: bytes, at: int) -> tuple[Any, int]:
    if kind is int:
        return _INT.unpack_from(data, at)[0] - _SIGN, at + 8
    if kind is bool:
        return data[at] == 1, at + 1
    if kind is datetime.date:
        return datetime.date.fromordinal(_DAY.unpack_from(data, at)[0]), at + 4
    end = at
    while data[end : end + 2] != _END:
        if end >= len(data):
            raise StateError(
                "MP216",
                "a stored key breaks off",
                expected=f"{type_text(kind)} with its end",
                found=shown(data),
                hint="`millpond state verify` looks at all files of a checkpoint",
            )
        end += 2 if data[end : end + 2] == _ZERO else 1
    raw = data[at:end].replace(_ZERO, b"\x00")
    return (raw if kind is bytes else raw.decode("utf-8")), end + 2


def _unsupported(hint: Any) -> StateError:
    return StateError(
        "MP202",
        "this type can't be a key",
        expected="int, str, bytes, bool, datetime.date, or a flat tuple of them such as tuple[str, int]",
        found=type_text(hint),
        hint="use one of these types; floats are refused because equal-looking floats differ",
    )
