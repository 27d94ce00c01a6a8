"""The key of one entry in a store: element, key group, unit.

Sorting by it puts a key group of an element into one contiguous range, so that moving a group is a range scan.

>>> key = store_key(2, 300, b"mill")
>>> element_of(key), group_of(key), unit_of(key)
(2, 300, b'mill')
"""

from __future__ import annotations

ELEMENTS_MAX = 255
PREFIX_BYTES = 3
GROUP_BYTES = (1, 3)
"""Where the key group stands in a store key, as a big-endian number."""


def store_prefix(element: int, group: int) -> bytes:
    """Return the common beginning of all keys of one element and key group."""
    return bytes((element, group >> 8, group & 0xFF))


def store_key(element: int, group: int, unit: bytes) -> bytes:
    """Build the key of one entry."""
    return store_prefix(element, group) + unit


def element_of(key: bytes) -> int:
    """Return the element's index in the checkpoint."""
    return key[0]


def group_of(key: bytes) -> int:
    """Return the key group."""
    return key[1] << 8 | key[2]


def unit_of(key: bytes) -> bytes:
    """Return the entry's own key within its element."""
    return key[PREFIX_BYTES:]
