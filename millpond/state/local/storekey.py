"""The key of one entry in a store: element, key group, unit.

Sorting by it puts a key group of an element into one contiguous range, so that moving a group is a range scan.

>>> key = store_key(2, 300, b"mill")
>>> element_of(key), group_of(key), unit_of(key)
(2, 300, b'mill')
>>> list(elements_in([key, store_key(2, 301, b"a"), store_key(4, 7, b"")]))
[(2, 0, 2), (4, 2, 3)]
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

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


def elements_in(keys: list[bytes]) -> Iterator[tuple[int, int, int]]:
    """Yield the elements that sorted keys are of, and where the keys of each begin and end."""
    start = 0
    while start < len(keys):
        element = keys[start][0]
        end = bisect_left(keys, bytes((element + 1,)), start) if element < 0xFF else len(keys)
        yield element, start, end
        start = end


def group_span(keys: list[bytes]) -> tuple[int, int]:
    """Return the lowest and the highest key group among sorted keys; (0, 0) if there are none."""
    spans = [(group_of(keys[start]), group_of(keys[end - 1])) for _, start, end in elements_in(keys)]
    return (min(first for first, _ in spans), max(last for _, last in spans)) if spans else (0, 0)


def spans_within(keys: list[bytes], first: int, last: int) -> Iterator[tuple[int, int]]:
    """Say where the sorted keys of a range of key groups begin and end, for each element that has some."""
    for element, start, end in elements_in(keys):
        low = bisect_left(keys, store_prefix(element, first), start, end)
        high = bisect_left(keys, store_prefix(element, last + 1), low, end)
        if low < high:
            yield low, high
