"""The checksum of an entry of the local store: four bytes behind its value, over its key and its value.

CRC-32 has it that the sum of anything followed by its own sum is always the same number. So an entry is checked by one
sum over all its bytes, without taking it apart first. And sums begin with that very number, so that each entry hands on
what it began with: any number of whole entries, one behind the other, are checked by one sum as well. Whatever is
changed in one of them changes that sum; no later entry brings it back but by its own damage, one time in four billion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from operator import add
from struct import Struct
from typing import Final
from zlib import crc32

SUM_BYTES: Final = 4
WHOLE: Final = 0x2144DF1C
"""The sum of every entry that is as it was written, and what every sum begins with."""

_AT_ONCE: Final = 4096
"""How many entries are summed as one: joined, they stay near the processor."""

_CUT: Final = slice(-SUM_BYTES)
_pack = Struct("<I").pack


def summed(key: bytes, value: bytes) -> bytes:
    """Return a value as the store holds it under a key."""
    return value + _pack(crc32(value, crc32(key, WHOLE)))


def summed_all(keys: Sequence[bytes], values: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Return entries as the store holds them."""
    assert len(keys) == len(values), (len(keys), len(values))
    # Without a line of Python for each: this is done for every entry that an epoch changed.
    sums = map(_pack, map(crc32, values, map(crc32, keys, repeat(WHOLE))))
    return zip(keys, map(add, values, sums), strict=True)


def is_whole(key: bytes, stored: bytes) -> bool:
    """Return whether an entry is as it was written."""
    return crc32(stored, crc32(key, WHOLE)) == WHOLE


def values_of(pairs: Sequence[tuple[bytes, bytes]]) -> list[bytes] | None:
    """Return the values of entries as the store holds them; None if one of them is not as it was written."""
    values: list[bytes] = []
    for first in range(0, len(pairs), _AT_ONCE):
        piece = pairs[first : first + _AT_ONCE]
        if crc32(b"".join(chain.from_iterable(piece)), WHOLE) != WHOLE:
            return None
        values += [stored[_CUT] for _, stored in piece]
    return values
