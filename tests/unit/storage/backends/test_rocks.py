"""RocksDB: what it says of damage, and turns that are over when a process dies."""

from __future__ import annotations

import os
import random

import pytest

from millpond.clock import ManualClock
from millpond.errors import StorageError
from millpond.storage.backends.rocks import SMALL_FILES_MAX, TURN, RocksStorage
from millpond.storage.door import Door


def test_a_damaged_table_is_a_coded_error_or_harmless(tmp_path):
    storage = RocksStorage(tmp_path, one_owner=True)
    expected = {f"deltas/{number}": random.Random(number).randbytes(2000) for number in range(50)}
    for name, data in expected.items():
        storage.put(name, data)
    storage.close()
    RocksStorage(tmp_path).list("")
    tables = sorted((tmp_path / "db").glob("*.sst"))
    assert tables
    codes = set()
    for table in tables:
        data = table.read_bytes()
        for place in range(0, len(data), max(1, len(data) // 12)):
            harmed = bytearray(data)
            harmed[place] ^= 0x20
            table.write_bytes(harmed)
            codes |= codes_of(tmp_path, expected)
        table.write_bytes(data[: len(data) // 2])
        codes |= codes_of(tmp_path, expected)
        table.write_bytes(data)
    assert "MP339" in codes
    assert codes <= {"MP339"}


def codes_of(folder, expected):
    """The codes of all errors; a value that is read is the right one."""
    codes = set()
    storage = RocksStorage(folder, one_owner=True)
    for name, data in expected.items():
        try:
            found = storage.get(name)
        except StorageError as error:
            codes.add(error.code)
        else:
            assert found == data
    storage.close()
    return codes


def test_a_turn_that_never_comes_is_a_coded_error(tmp_path):
    storage = RocksStorage(tmp_path, clock=ManualClock())
    storage.put("a", b"x")
    held = Door().lock(tmp_path / TURN, shared=False)
    try:
        with pytest.raises(StorageError) as caught:
            storage.get("a")
        assert caught.value.code == "MP333"
    finally:
        Door().unlock(held)
    assert storage.get("a") == b"x"


def test_a_child_does_not_use_what_its_parent_keeps_open(tmp_path):
    storage = RocksStorage(tmp_path, one_owner=True)
    storage.put("a", b"x")
    child = os.fork()
    if child == 0:
        ended = 1
        try:
            storage.get("a")
        except StorageError as error:
            ended = 0 if error.code == "MP333" else 2
        finally:
            os._exit(ended)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert storage.get("a") == b"x"
    storage.close()


def test_visits_do_not_leave_more_and_more_files(tmp_path, monkeypatch):
    monkeypatch.setattr("millpond.storage.backends.rocks.SMALL_FILES_MAX", 4)
    storage = RocksStorage(tmp_path)
    for number in range(12):
        storage.put(f"deltas/{number}", b"x" * 100)
    assert len(list((tmp_path / "db").glob("*.sst"))) < 9
    assert SMALL_FILES_MAX > 4
    assert len(storage.list("")) == 12
