"""A look at the file of a local store before LMDB maps it: is every page what it claims to be, and every entry whole?

LMDB believes what it finds: a file that is too short kills the process that reads it, a flipped bit in a page's header
may do so too, and one in a key makes entries vanish. So the file is read here first, as bytes, by the layout of LMDB
0.9: two meta pages, of which the newer one counts, and from it trees of branch and leaf pages. All that LMDB could
follow is followed: pages are inside the file, bear their own numbers, are used once and are not free; keys ascend
within their bounds; there are as many entries as the trees say; every entry of ours has its checksum.

Only for a store that nobody uses. A million entries take about a second. Of a store above a gigabyte only the pages
are looked at, and not the entries in its leaves: those are checked when they are read, but one that vanished because a
bit of its key changed is not missed there.

The checksum of an entry of the local store: four bytes behind its value, over its key and its value.

CRC-32 has it that the sum of anything followed by its own sum is always the same number. So an entry is checked by one
sum over all its bytes, without taking it apart first. And sums begin with that very number, so that each entry hands on
what it began with: any number of whole entries, one behind the other, are checked by one sum as well. Whatever is
changed in one of them changes that sum; no later entry brings it back but by its own damage, one time in four billion.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from operator import add
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

DATA, LOCK = "data.mdb", "lock.mdb"

ENTRIES_BYTES_MAX = 1 << 30
"""In files above this the entries are not looked at: restoring all of it would not take much longer."""

_MAGIC, _VERSION = 0xBEEFC0DE, 1
_PAGE = struct.Struct("<QHHHH")
_META = struct.Struct("<IIQQ")
_TREE = struct.Struct("<IHHQQQQQ")
_META_END = struct.Struct("<QQ")
_NODE = struct.Struct("<HHHH")
_BRANCH, _LEAF, _OVERFLOW, _META_FLAG = 1, 2, 4, 8
_KINDS = 0x6F
_BIG, _SUBTREE = 1, 2
_NONE = (1 << 64) - 1
_DEPTH_MAX = 32
_PAGE_BYTES_MIN, _PAGE_BYTES_MAX = 512, 1 << 16


class _DamagedError(Exception):
    """What is wrong with a file."""


def damage_in(folder: Path) -> str | None:
    """Return what is wrong with the store in a folder that nobody uses; None if nothing is, or if there is none yet."""
    try:
        # Without waiting for what is no file and may never have anything to read.
        descriptor = os.open(folder / DATA, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"a file that can't be read: {error.strerror}"
    try:
        found = os.fstat(descriptor)
        size = found.st_size
        _claim(stat.S_ISREG(found.st_mode), f"something that is no file in the place of {DATA}")
        if not size:
            # It was made a moment before its process died; LMDB begins it again.
            return None
        _Walk(descriptor, size).check()
    except _DamagedError as damaged:
        return str(damaged)
    finally:
        os.close(descriptor)
    return None


class _Walk:
    """One look through a file."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self._size = size
        self._used: set[int] = set()

    def check(self) -> None:
        free, main, self._last = self._newest_meta()
        _claim(self._size >= (self._last + 1) * self._page_bytes, "a file that is shorter than its header says")
        named = list(self._entries(main, "the list of tables", summed=False))
        for _, flags, record in named:
            _claim(flags == _SUBTREE and len(record) == _TREE.size, "a table without a tree")
            for _ in self._entries(_TREE.unpack(record), "a table", summed=True):
                pass
        for _, _, listed in self._entries(free, "the list of free pages", summed=False):
            _claim(len(listed) >= 8 and len(listed) % 8 == 0, "a list of free pages of a strange length")
            count, *pages = struct.unpack(f"<{len(listed) // 8}Q", listed)
            _claim(count <= len(pages), "a list of free pages that is longer than it is")
            for page in pages[:count]:
                self._use(page, 1)

    def _newest_meta(self) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        first = self._read(0, _PAGE_BYTES_MIN)
        _claim(len(first) == _PAGE_BYTES_MIN, "a file without its header")
        self._page_bytes = _TREE.unpack_from(first, _PAGE.size + _META.size)[0]
        fits = _PAGE_BYTES_MIN <= self._page_bytes <= _PAGE_BYTES_MAX and not self._page_bytes & (self._page_bytes - 1)
        _claim(fits, "a header with a strange size of pages")
        found = []
        for number in range(2):
            data = self._read(number * self._page_bytes, _PAGE_BYTES_MIN)
            _claim(len(data) == _PAGE_BYTES_MIN, "a file without its header")
            page, _, flags, _, _ = _PAGE.unpack_from(data)
            magic, version, _, _ = _META.unpack_from(data, _PAGE.size)
            _claim((page, flags & _KINDS) == (number, _META_FLAG), "a header that is none")
            _claim((magic, version) == (_MAGIC, _VERSION), "a header that is not LMDB's, or of another version")
            at = _PAGE.size + _META.size
            free, main = _TREE.unpack_from(data, at), _TREE.unpack_from(data, at + _TREE.size)
            last, transaction = _META_END.unpack_from(data, at + 2 * _TREE.size)
            _claim(free[0] == self._page_bytes, "a header with a strange size of pages")
            found.append((transaction, free, main, last))
            self._used.add(number)
        newest = found[found[0][0] < found[1][0]]
        return newest[1], newest[2], newest[3]

    def _entries(self, tree: tuple[int, ...], what: str, *, summed: bool) -> Iterator[tuple[bytes, int, bytes]]:
        """Yield all entries of a tree, in order: key, flags, value."""
        _, _, depth, branches, leaves, overflows, count, root = tree
        _claim(depth <= _DEPTH_MAX, f"{what} of a strange depth")
        if root == _NONE:
            _claim((depth, branches, leaves, overflows, count) == (0, 0, 0, 0, 0), f"{what} without a root")
            return
        self._counted = [0, 0, 0]
        self._unseen = found = 0
        for entry in self._below(root, depth, None, None, what):
            found += 1
            if summed and not is_whole(entry[0], entry[2]):
                raise _DamagedError(f"{what} with an entry that is not as it was written")
            yield entry
        # Long entries hang on leaves whose entries were not looked at.
        seen = overflows if self._unseen else self._counted[2]
        _claim([branches, leaves, overflows] == [*self._counted[:2], seen], f"{what} with other pages than it says")
        found += self._unseen
        _claim(found == count, f"{what} with {found} entries of {count}")

    def _below(
        self, number: int, depth: int, low: bytes | None, high: bytes | None, what: str
    ) -> Iterator[tuple[bytes, int, bytes]]:
        self._use(number, 1)
        data = self._read(number * self._page_bytes, self._page_bytes)
        page, _, flags, lower, upper = _PAGE.unpack_from(data)
        kind = flags & _KINDS
        _claim(page == number, f"{what} with a page in another's place")
        _claim(kind == (_LEAF if depth == 1 else _BRANCH), f"{what} with a page of another kind")
        _claim(_PAGE.size <= lower <= upper <= self._page_bytes and not lower & 1, f"{what} with a page of no shape")
        self._counted[0 if depth > 1 else 1] += 1
        offsets = struct.unpack_from(f"<{(lower - _PAGE.size) // 2}H", data, _PAGE.size)
        _claim(min(offsets, default=upper) >= upper, f"{what} with an entry outside of its page")
        if depth == 1:
            if self._size > ENTRIES_BYTES_MAX and what == "a table":
                self._unseen += len(offsets)
                return
            yield from self._in_leaf(data, offsets, low, high, what)
        else:
            yield from self._in_branch(data, offsets, depth, low, high, what)

    def _in_branch(
        self, data: bytes, offsets: tuple[int, ...], depth: int, low: bytes | None, high: bytes | None, what: str
    ) -> Iterator[tuple[bytes, int, bytes]]:
        _claim(len(offsets) > 0, f"{what} with an empty page")
        children: list[tuple[bytes | None, int]] = []
        for place, at in enumerate(offsets):
            first, second, third, key_bytes = self._node(data, at, what)
            key = self._piece(data, at + _NODE.size, key_bytes, what)
            # The first key of a branch says nothing: what is below is as low as the branch itself.
            begin = low if place == 0 else key
            before = children[-1][0] if children else low
            _claim(place == 0 or before is None or key > before, f"{what} with keys that do not ascend")
            children.append((begin, first | second << 16 | third << 32))
        ends = [*(begin for begin, _ in children[1:]), high]
        for (begin, child), end in zip(children, ends, strict=True):
            yield from self._below(child, depth - 1, begin, end, what)

    def _in_leaf(
        self, data: bytes, offsets: tuple[int, ...], low: bytes | None, high: bytes | None, what: str
    ) -> Iterator[tuple[bytes, int, bytes]]:
        # Without calls for each entry: most of a look goes by here.
        before, unpack, head, end = low, _NODE.unpack_from, _NODE.size, len(data)
        for place, at in enumerate(offsets):
            if at + head > end:
                raise _DamagedError(f"{what} with an entry outside of its page")
            first, second, flags, key_bytes = unpack(data, at)
            start = at + head + key_bytes
            size = first | second << 16
            key = data[at + head : start]
            if start > end or (before is not None and (key < before if place == 0 else key <= before)):
                raise _DamagedError(f"{what} with keys that do not ascend")
            before = key
            if flags & _BIG:
                _claim(start + 8 <= end, f"{what} with an entry outside of its page")
                value = self._overflow(int.from_bytes(data[start : start + 8], "little"), size, what)
            elif start + size > end:
                raise _DamagedError(f"{what} with an entry outside of its page")
            else:
                value = data[start : start + size]
            if flags & ~(_BIG | _SUBTREE):
                raise _DamagedError(f"{what} with an entry of a strange kind")
            yield key, flags, value
        _claim(before is None or high is None or before < high, f"{what} with keys that do not ascend")

    def _overflow(self, number: int, size: int, what: str) -> bytes:
        pages = -(-(size + _PAGE.size) // self._page_bytes)
        self._use(number, pages)
        self._counted[2] += pages
        data = self._read(number * self._page_bytes, _PAGE.size + size)
        page, _, flags, low, high = _PAGE.unpack_from(data)
        held = low | high << 16
        _claim((page, flags & _KINDS, held) == (number, _OVERFLOW, pages), f"{what} with a long entry of no shape")
        return data[_PAGE.size :]

    def _use(self, number: int, pages: int) -> None:
        _claim(1 < number <= self._last and number + pages - 1 <= self._last, "a page outside of the file")
        for page in range(number, number + pages):
            _claim(page not in self._used, "a page that is used twice, or free")
            self._used.add(page)

    def _node(self, data: bytes, at: int, what: str) -> tuple[int, int, int, int]:
        _claim(at + _NODE.size <= len(data), f"{what} with an entry outside of its page")
        first, second, third, fourth = _NODE.unpack_from(data, at)
        return first, second, third, fourth

    def _piece(self, data: bytes, start: int, size: int, what: str) -> bytes:
        _claim(start + size <= len(data), f"{what} with an entry outside of its page")
        return data[start : start + size]

    def _read(self, start: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, start)
        while data and len(data) < size:
            more = os.pread(self._descriptor, size - len(data), start + len(data))
            if not more:
                break
            data += more
        return data


def _claim(holds: bool, found: str) -> None:
    if not holds:
        raise _DamagedError(found)


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
