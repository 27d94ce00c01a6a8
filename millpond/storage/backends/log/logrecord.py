"""One record of the append-only log: its layout, and how a damaged one is told from one that was never finished.

Layout, big-endian: magic `MPLR`, kind (1 byte), zero (1), length of the name (2), length of the payload (8), number of
the file (4), offset of the record in it (8), CRC-32 of the payload (4), CRC-32 of all this and the name (4); the name,
the payload, and 8 bytes for the mark.

The mark is zeros until the record's writer has seen a sync of it return; then it is written, and not synced itself. So
a record with its mark was acknowledged: if it can't be read, it was damaged. A bad record without a mark, with nothing
acknowledged after it, is what a writer left that died: nobody was told of it, and it may be cut off.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from millpond.errors import DamagedError, DamagedLogError, StorageError
from millpond.storage.contract import NAME_CHARS_MAX

FILE_MAGIC = b"MPLG"
FILE_VERSION = 1
WITNESSED = 1
"""In the header of a file: a witness stands beside the log (`witness.py`). Older logs have none."""
_FILE_HEADER = struct.Struct(">4sHHI")
FILE_HEADER_BYTES = _FILE_HEADER.size + 4

RECORD_MAGIC = b"MPLR"
_RECORD_HEADER = struct.Struct(">4sBBHQIQII")
RECORD_HEADER_BYTES = _RECORD_HEADER.size
MARK_BYTES = 8

WINDOW_BYTES_MIN, WINDOW_BYTES = 1 << 14, 1 << 20
"""How much is read at once while a log is replayed: little at first, since most often little was appended."""

_OVERLAP_BYTES = RECORD_HEADER_BYTES + NAME_CHARS_MAX
"""So much more than a window is looked at: a header that begins in the window is whole there, with its name."""

ReadAt = Callable[[int, int], bytes]
"""Reads (size, offset) of one file; fewer bytes only at its end."""


ROTATED_BYTES = RECORD_HEADER_BYTES + MARK_BYTES
"""The length of the record that ends a file."""


class RecordKind(IntEnum):
    """What a record says; the number is part of the format."""

    PUT = 1
    DELETE = 2
    ROTATED = 3


_KINDS = frozenset(RecordKind)


@dataclass(frozen=True, slots=True)
class Record:
    """Where a record is, and what its header says."""

    kind: RecordKind
    name: str
    start: int
    payload_bytes: int
    payload_sum: int
    marked: bool

    @property
    def payload_start(self) -> int:
        """Where the payload begins in the file."""
        return self.start + RECORD_HEADER_BYTES + len(self.name)

    @property
    def mark_start(self) -> int:
        """Where the mark is in the file."""
        return self.payload_start + self.payload_bytes

    @property
    def end(self) -> int:
        """Where the next record begins."""
        return self.mark_start + MARK_BYTES


def file_header(number: int) -> bytes:
    """Make the first bytes of a file of the log."""
    head = _FILE_HEADER.pack(FILE_MAGIC, FILE_VERSION, WITNESSED, number)
    return head + zlib.crc32(head).to_bytes(4, "big")


def file_header_fits(data: bytes, number: int, name: str) -> bool:
    """Say whether these are the first bytes of a file of the log; another version is an error."""
    head, total = data[: _FILE_HEADER.size], data[_FILE_HEADER.size : FILE_HEADER_BYTES]
    if len(data) < FILE_HEADER_BYTES or zlib.crc32(head).to_bytes(4, "big") != total:
        return False
    magic, version, _, found_number = _FILE_HEADER.unpack(head)
    if magic == FILE_MAGIC and version != FILE_VERSION:
        raise StorageError(
            "MP302",
            f"this version of Millpond can't read {name}",
            expected=f"format version {FILE_VERSION}",
            found=f"format version {version}",
            hint="run the version of Millpond that wrote the checkpoint, or a newer one",
        )
    return bool(magic == FILE_MAGIC and found_number == number)


def is_witnessed(header: bytes) -> bool:
    """Say whether the header of a file says that its log has a witness."""
    return bool(_FILE_HEADER.unpack_from(header)[2] & WITNESSED)


def record_end(name: str, start: int, payload_bytes: int) -> int:
    """Say where a record ends that begins at a place."""
    return start + RECORD_HEADER_BYTES + len(name) + payload_bytes + MARK_BYTES


def encode(kind: RecordKind, name: str, payload: bytes, number: int, start: int) -> tuple[bytes, Record]:
    """Make the bytes of a record, without its mark."""
    label = name.encode()
    total = zlib.crc32(payload)
    head = _RECORD_HEADER.pack(RECORD_MAGIC, kind, 0, len(label), len(payload), number, start, total, 0)[:-4]
    head_sum = zlib.crc32(label, zlib.crc32(head)).to_bytes(4, "big")
    return b"".join((head, head_sum, label, payload, bytes(MARK_BYTES))), Record(
        kind, name, start, len(payload), total, marked=False
    )


def mark_of(number: int, start: int) -> bytes:
    """Return the bytes that say that the record at this place was acknowledged; no other place has the same."""
    return hashlib.blake2b(b"millpond log" + struct.pack(">IQ", number, start), digest_size=MARK_BYTES).digest()


class Replay:
    """Reads the records of one file from a place on, window by window.

    After iterating, `end` is where the last good record ends; `stopped` tells why it is the last: None if there are
    only zeros or nothing after it, else what is wrong with what follows.
    """

    def __init__(self, read_at: ReadAt, number: int, start: int) -> None:
        self._read_at = read_at
        self._number = number
        self.end = start
        self.stopped: str | None = None
        self._window = b""
        self._window_start = start
        self._window_bytes = WINDOW_BYTES_MIN

    def __iter__(self) -> Iterator[Record]:
        while True:
            record = self._next()
            if record is None:
                return
            self.end = record.end
            yield record
            if record.kind is RecordKind.ROTATED:
                return

    def _bytes(self, start: int, size: int) -> bytes:
        place = start - self._window_start
        if place < 0 or place + size > len(self._window):
            if size > WINDOW_BYTES:
                return self._read_at(size, start)
            self._window_bytes = min(max(2 * self._window_bytes, size), WINDOW_BYTES)
            self._window = self._read_at(self._window_bytes, start)
            self._window_start = start
            place = 0
        return self._window[place : place + size]

    def _next(self) -> Record | None:
        start = self.end
        head = self._bytes(start, RECORD_HEADER_BYTES)
        if not head.strip(b"\0"):
            return None
        if len(head) < RECORD_HEADER_BYTES or not head.startswith(RECORD_MAGIC):
            self.stopped = "no record begins where the last one ends"
            return None
        _, kind, _, label_bytes, payload_bytes, number, offset, total, head_sum = _RECORD_HEADER.unpack(head)
        label = self._bytes(start + RECORD_HEADER_BYTES, label_bytes)
        if zlib.crc32(label, zlib.crc32(head[:-4])) != head_sum or (number, offset) != (self._number, start):
            self.stopped = "a header that does not match its checksum"
            return None
        if kind not in _KINDS:
            self.stopped = f"a record of an unknown kind ({kind})"
            return None
        record = Record(RecordKind(kind), label.decode(errors="replace"), start, payload_bytes, total, marked=False)
        if self._bytes(record.mark_start, MARK_BYTES) == mark_of(number, start):
            # Acknowledged: damage of its payload is found, and reported under its name, by whoever reads it.
            return Record(record.kind, record.name, start, payload_bytes, total, marked=True)
        payload = self._bytes(record.payload_start, payload_bytes)
        if len(payload) < payload_bytes or zlib.crc32(payload) != total:
            self.stopped = "a payload that does not match its checksum"
            return None
        return record


def acknowledged_after(read_at: ReadAt, number: int, start: int, size: int) -> bool:
    """Say whether anything from `start` on was ever acknowledged: the record there, or any whole one after it.

    Reads everything once: what looks like a record in the middle of a torn payload costs no more than its own bytes.
    """
    own_mark = mark_of(number, start)
    looks = re.compile(RECORD_MAGIC + rb"[\1-\3]\0.{10}" + re.escape(number.to_bytes(4, "big")), re.DOTALL)
    place = start
    while place < size:
        data = read_at(WINDOW_BYTES + _OVERLAP_BYTES, place)
        if not data:
            return False
        if data.strip(b"\0"):
            if own_mark in data:
                return True
            found = looks.search(data)
            while found is not None and found.start() < WINDOW_BYTES:
                at = found.start()
                mark_start = _mark_start(data, at, number, place + at)
                if mark_start is not None and read_at(MARK_BYTES, mark_start) == mark_of(number, place + at):
                    return True
                found = looks.search(data, at + 1)
        place += WINDOW_BYTES
    return False


def _mark_start(data: bytes, found: int, number: int, start: int) -> int | None:
    """Say where the mark of a record is in its file, if a whole header is found in some bytes.

    None if there is none.
    """
    head = data[found : found + RECORD_HEADER_BYTES]
    if len(head) < RECORD_HEADER_BYTES:
        return None
    *_, label_bytes, payload_bytes, number_found, start_found, _, head_sum = _RECORD_HEADER.unpack(head)
    if (number_found, start_found) != (number, start) or label_bytes > NAME_CHARS_MAX:
        return None
    label_start = found + RECORD_HEADER_BYTES
    label = data[label_start : label_start + label_bytes]
    if zlib.crc32(label, zlib.crc32(head[:-4])) != head_sum:
        return None
    return start + RECORD_HEADER_BYTES + int(label_bytes) + int(payload_bytes)


def payload_of(read_at: ReadAt, name: str, number: int, start: int, payload_bytes: int) -> bytes:
    """Read the payload of one record and check that it is the one that was written under this name."""
    data = read_at(RECORD_HEADER_BYTES + len(name) + payload_bytes, start)
    head, label = data[:RECORD_HEADER_BYTES], data[RECORD_HEADER_BYTES : RECORD_HEADER_BYTES + len(name)]
    payload = data[RECORD_HEADER_BYTES + len(name) :]
    found = f"{len(data)} bytes"
    if len(data) == RECORD_HEADER_BYTES + len(name) + payload_bytes:
        expected = (*_RECORD_HEADER.unpack(head)[4:7], label)
        if expected != (payload_bytes, number, start, name.encode()):
            found = "another record in its place"
        elif zlib.crc32(payload) != _RECORD_HEADER.unpack(head)[7]:
            found = "another checksum"
        else:
            return payload
    raise DamagedError(
        "MP301",
        f"{name} is damaged",
        expected="a record that matches its checksum",
        found=found,
        hint="restore this file from a copy of the checkpoint; nothing was read from it",
    )


def log_damaged(name: str, start: int, found: str) -> DamagedLogError:
    """Return the error for a log that lost something that was acknowledged."""
    return DamagedLogError(
        "MP334",
        f"{name} is damaged at byte {start}",
        expected="a whole record: what was written there had been made durable",
        found=found,
        hint="restore this file from a copy of the checkpoint; nothing was changed",
    )
