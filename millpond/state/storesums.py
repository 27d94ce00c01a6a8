"""The checksum of an entry of the local store: four bytes behind its value, over its key and its value.

CRC-32 has it that the sum of anything followed by its own sum is always the same number. So an entry is checked by one
sum over all its bytes, without taking it apart first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from zlib import crc32

SUM_BYTES: Final = 4
WHOLE: Final = 0x2144DF1C
"""The sum of every entry that is as it was written."""


def summed(key: bytes, value: bytes) -> bytes:
    """A value as the store holds it under a key."""
    return value + crc32(value, crc32(key)).to_bytes(SUM_BYTES, "little")


def summed_all(keys: Iterable[bytes], values: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    """Entries as the store holds them."""
    return [(k, v + crc32(v, crc32(k)).to_bytes(SUM_BYTES, "little")) for k, v in zip(keys, values, strict=True)]


def is_whole(key: bytes, stored: bytes) -> bool:
    """Whether an entry is as it was written."""
    return crc32(stored, crc32(key)) == WHOLE


def values_of(pairs: Sequence[tuple[bytes, bytes]]) -> list[bytes] | None:
    """The values of entries as the store holds them; None if one of them is not as it was written."""
    values = [stored[:-SUM_BYTES] for key, stored in pairs if crc32(stored, crc32(key)) == WHOLE]
    return values if len(values) == len(pairs) else None
