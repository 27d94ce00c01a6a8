"""The index of the append-only log: where each name's bytes are, and what each file still holds.

It is kept in memory, and written to a file now and then so that opening a log reads the index and the log's tail, not
all of the log. An index file is a copy of what the log says: if it is damaged or lost, the log is replayed from its
beginning.

Layout of an index file, big-endian: magic `MPLI`, version (2 bytes), zero (2), the file number and the offset up to
which the log is covered (4, 8), the number of names (8), the length of the names (8), the number of files with
deletions (4); names joined by line feeds; per name a file number (4), the start of its record (8), its length (8), each
as one array, little-endian; per file with deletions its number and their bytes (4, 8); SHA-256 of all of it.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from dataclasses import dataclass

import numpy as np

from millpond.storage.backends.log.logrecord import MARK_BYTES, RECORD_HEADER_BYTES

INDEX_MAGIC = b"MPLI"
INDEX_VERSION = 1
_HEADER = struct.Struct(">4sHHIQQQI")
_PAIR = struct.Struct(">IQ")
_DIGEST_BYTES = 32

_NUMBERS = np.dtype("<u4")
_OFFSETS = np.dtype("<u8")
_SLOTS_MIN = 1024
_PLACE_MAX = 1 << 53
"""No file comes near this length, and counts up to it are exact in every way of counting."""
_OVERHEAD_BYTES = RECORD_HEADER_BYTES + MARK_BYTES


@dataclass(frozen=True, slots=True)
class Spot:
    """Where the newest bytes of a name are."""

    number: int
    start: int
    payload_bytes: int


class LogIndex:
    """Name to spot; per file, how many names live in it, and the bytes of their records and of its deletions."""

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self._numbers = np.zeros(_SLOTS_MIN, _NUMBERS)
        self._starts = np.zeros(_SLOTS_MIN, _OFFSETS)
        self._sizes = np.zeros(_SLOTS_MIN, _OFFSETS)
        self._used = 0
        self.live: Counter[int] = Counter()
        self.live_bytes: Counter[int] = Counter()
        self.deletions: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, name: str) -> bool:
        return name in self._slots

    def names(self) -> list[str]:
        """Return all names, in no order."""
        return list(self._slots)

    def find(self, name: str) -> Spot | None:
        """Say where a name's bytes are; None if there are none."""
        slot = self._slots.get(name)
        if slot is None:
            return None
        return Spot(int(self._numbers[slot]), int(self._starts[slot]), int(self._sizes[slot]))

    def set(self, name: str, number: int, start: int, payload_bytes: int) -> None:
        """Say where a name's bytes are now."""
        slot = self._slots.get(name)
        if slot is None:
            if self._used == len(self._numbers):
                self._grow()
            slot = self._used
            self._slots[name] = slot
            self._used += 1
        else:
            self._uncount(name, slot)
        self._numbers[slot] = number
        self._starts[slot] = start
        self._sizes[slot] = payload_bytes
        self.live[number] += 1
        self.live_bytes[number] += payload_bytes + len(name) + _OVERHEAD_BYTES

    def remove(self, name: str) -> None:
        """Forget a name, if it is known."""
        slot = self._slots.pop(name, None)
        if slot is not None:
            self._uncount(name, slot)

    def names_in(self, number: int) -> list[str]:
        """Return the names whose bytes are in one file, in the order of their records."""
        here = [(int(self._starts[slot]), name) for name, slot in self._slots.items() if self._numbers[slot] == number]
        return [name for _, name in sorted(here)]

    def last_in(self, number: int) -> str | None:
        """Return the name whose bytes are the last ones in a file; None if no name lives there."""
        if not self.live[number]:
            return None
        slots = np.fromiter(self._slots.values(), np.int64, len(self._slots))
        starts = np.where(self._numbers[slots] == number, self._starts[slots].astype(np.int64), -1)
        return list(self._slots)[int(starts.argmax())]

    def forget_file(self, number: int) -> None:
        """Forget a file that is gone: its counts, and names that still point to it."""
        if self.live[number]:
            for name in self.names_in(number):
                self.remove(name)
        for counts in (self.live, self.live_bytes, self.deletions):
            counts.pop(number, None)

    def dump(self, number: int, end: int) -> bytes:
        """Return the bytes of an index file that covers the log up to a place."""
        slots = np.fromiter(self._slots.values(), np.int64, len(self._slots))
        names = "\n".join(self._slots).encode()
        deletions = [pair for pair in sorted(self.deletions.items()) if pair[1]]
        body = b"".join(
            (
                _HEADER.pack(INDEX_MAGIC, INDEX_VERSION, 0, number, end, len(self._slots), len(names), len(deletions)),
                names,
                *(column[slots].tobytes() for column in (self._numbers, self._starts, self._sizes)),
                *(_PAIR.pack(*pair) for pair in deletions),
            )
        )
        return body + hashlib.sha256(body).digest()

    @classmethod
    def load(cls, data: bytes) -> tuple[LogIndex, int, int] | None:
        """Read an index file: the index, and the place up to which it covers the log; None if it can't be used."""
        body = data[:-_DIGEST_BYTES]
        if len(body) < _HEADER.size or hashlib.sha256(body).digest() != data[-_DIGEST_BYTES:]:
            return None
        magic, version, _, number, end, count, names_bytes, deletions = _HEADER.unpack_from(body)
        if (magic, version) != (INDEX_MAGIC, INDEX_VERSION):
            return None
        entry_bytes = _NUMBERS.itemsize + 2 * _OFFSETS.itemsize
        if len(body) != _HEADER.size + names_bytes + count * entry_bytes + deletions * _PAIR.size:
            return None
        place = _HEADER.size
        labels = body[place : place + names_bytes]
        names = labels.decode("ascii", errors="replace").split("\n") if count else []
        index = cls()
        index._slots = dict(zip(names, range(len(names)), strict=True))
        if not labels.isascii() or not len(names) == len(index._slots) == count:
            return None
        place += names_bytes
        index._used = count
        index._numbers = np.frombuffer(body, _NUMBERS, count, place).copy()
        place += count * _NUMBERS.itemsize
        index._starts = np.frombuffer(body, _OFFSETS, count, place).copy()
        place += count * _OFFSETS.itemsize
        index._sizes = np.frombuffer(body, _OFFSETS, count, place).copy()
        place += count * _OFFSETS.itemsize
        if max(end, *(int(column.max(initial=0)) for column in (index._starts, index._sizes))) > _PLACE_MAX:
            return None
        index._recount()
        for pair in _PAIR.iter_unpack(body[place : place + deletions * _PAIR.size]):
            index.deletions[pair[0]] = pair[1]
        return index, number, end

    def _recount(self) -> None:
        numbers, places = np.unique(self._numbers, return_inverse=True)
        counts = np.bincount(places, minlength=len(numbers))
        lengths = np.fromiter(map(len, self._slots), np.int64, len(self._slots)) + _OVERHEAD_BYTES
        # Sums of doubles are exact up to 2**53 bytes in one file, which no file comes near.
        totals = np.bincount(places, weights=self._sizes + lengths.astype(np.uint64), minlength=len(numbers))
        for number, count, total in zip(numbers.tolist(), counts.tolist(), totals.tolist(), strict=True):
            self.live[number] = count
            self.live_bytes[number] = int(total)

    def _uncount(self, name: str, slot: int) -> None:
        number = int(self._numbers[slot])
        self.live[number] -= 1
        self.live_bytes[number] -= int(self._sizes[slot]) + len(name) + _OVERHEAD_BYTES

    def _grow(self) -> None:
        """Double the room, but first take back what deleted names left."""
        kept = np.fromiter(self._slots.values(), np.int64, len(self._slots))
        room = max(_SLOTS_MIN, 2 * len(kept))
        for name in ("_numbers", "_starts", "_sizes"):
            old = getattr(self, name)
            column = np.zeros(room, old.dtype)
            column[: len(kept)] = old[kept]
            setattr(self, name, column)
        self._slots = dict(zip(self._slots, range(len(kept)), strict=True))
        self._used = len(kept)
