"""Logs that no writer of ours leaves: payloads that look like records, indexes that lie, files cut short."""

from __future__ import annotations

import hashlib
import os
import struct

import pytest

from millpond.errors import StorageError
from millpond.storage.backends.log.log import LogStorage
from millpond.storage.backends.log.logindex import _HEADER, LogIndex
from millpond.storage.backends.log.logrecord import (
    RECORD_HEADER_BYTES,
    RECORD_MAGIC,
    RecordKind,
    acknowledged_after,
    encode,
    mark_of,
)


def reading(data):
    """A reader of bytes, and the sum of all that was read."""
    total = []

    def read_at(size, offset):
        found = data[offset : offset + size]
        total.append(len(found))
        return found

    return read_at, total


def whole_headers(size):
    """Records that begin every 64 bytes, each whole up to its mark, which is missing."""
    parts = []
    for start in range(0, size, 64):
        head, _ = encode(RecordKind.PUT, "a", b"", 1, start)
        parts.append(head[: RECORD_HEADER_BYTES + 1].ljust(64, b"\1"))
    return b"".join(parts)


@pytest.mark.parametrize("torn", [lambda size: RECORD_MAGIC * (size // 4), whole_headers])
def test_a_torn_payload_that_looks_like_records_is_read_about_once(torn):
    size = 1 << 20
    read_at, total = reading(torn(size))
    assert not acknowledged_after(read_at, 1, 0, size)
    assert sum(total) < 2 * size


def test_an_acknowledged_record_among_what_looks_like_records_is_found():
    start = 1000
    record, about = encode(RecordKind.PUT, "a/b", b"payload", 1, start)
    marked = record[: about.mark_start - start] + mark_of(1, start)
    data = (RECORD_MAGIC * 250)[:start] + marked + RECORD_MAGIC * 100
    assert acknowledged_after(reading(data)[0], 1, 0, len(data))
    assert not acknowledged_after(reading(data)[0], 2, 0, len(data)), "the record of another file"
    assert not acknowledged_after(reading(data)[0], 1, start + 1, len(data))


@pytest.mark.parametrize("start", [(1 << 20) - 1, (1 << 20) - 20, 1 << 20, (1 << 20) + 30])
def test_an_acknowledged_record_is_found_where_two_windows_meet(start):
    record, about = encode(RecordKind.PUT, "a/b", b"payload", 1, start)
    data = b"\2" * start + record[: about.mark_start - start] + mark_of(1, start)
    assert acknowledged_after(reading(data)[0], 1, 0, len(data))


@pytest.mark.parametrize("count", [0, 4, 6, 7, 2**40])
def test_an_index_with_another_count_is_not_used(tmp_path, count):
    storage = LogStorage(tmp_path)
    names = [f"a/{number}" for number in range(5)]
    for name in names:
        storage.put(name, name.encode())
    storage.write_index()
    (file,) = (path for path in tmp_path.iterdir() if path.name.startswith("index-"))
    body = bytearray(file.read_bytes()[:-32])
    fields = list(_HEADER.unpack_from(body))
    fields[5] = count
    body[: _HEADER.size] = _HEADER.pack(*fields)
    file.write_bytes(bytes(body) + hashlib.sha256(body).digest())
    again = LogStorage(tmp_path)
    assert again.list("") == names
    assert [again.get(name) for name in names] == [name.encode() for name in names]


@pytest.mark.parametrize("field", range(3, 8))
def test_an_index_whose_numbers_do_not_fit_is_used_or_not_and_never_a_traceback(field):
    index = LogIndex()
    for number in range(5):
        index.set(f"a/{number}", 1, 16 + 100 * number, 3)
    index.deletions[1] = 7
    body = bytearray(index.dump(1, 600)[:-32])
    for wrong in (0, 1, 3, 2**31):
        fields = list(_HEADER.unpack_from(body))
        fields[field] = wrong
        forged = _HEADER.pack(*fields) + body[_HEADER.size :]
        loaded = LogIndex.load(forged + hashlib.sha256(forged).digest())
        assert loaded is None or len(loaded[0]) == 5


@pytest.mark.parametrize("names", [b"a\na", b"\n\n\n", b"a\n\xff"])
def test_an_index_with_names_that_can_not_be_is_not_used(names):
    index = LogIndex()
    for name in ("a", "b"):
        index.set(name, 1, 16, 3)
    body = index.dump(1, 600)[:-32].replace(b"a\nb", names)
    assert LogIndex.load(body + hashlib.sha256(body).digest()) is None


def test_an_empty_value_in_a_file_that_was_cut_off_is_damaged_for_who_has_the_log_open(tmp_path):
    storage = LogStorage(tmp_path, file_bytes_max=400)
    storage.put("a/empty", b"")
    for number in range(8):
        storage.put(f"a/{number}", bytes(150))
    for size in (30, 0):
        os.truncate(tmp_path / "log-0000000001", size)
        with pytest.raises(StorageError, match="MP301") as caught:
            storage.get("a/empty")
        assert caught.value.__cause__ is None or not isinstance(caught.value.__cause__, struct.error)
