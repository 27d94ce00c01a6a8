"""What every storage backend must do, run for each of them."""

from __future__ import annotations

import threading

import pytest

from millpond.errors import StorageError
from millpond.storage.contract import PutOutcome
from millpond.storage.files import FileStorage
from millpond.storage.memory import MemoryStorage

BACKENDS = ("memory", "files")

BAD_NAMES = (
    "",
    "/",
    "/etc/passwd",
    "..",
    "../up",
    "a/../b",
    "a//b",
    "a/",
    ".hidden",
    "a/.staging/b",
    "nul\0byte",
    "line\nbreak",
    "tab\t",
    "back\\slash",
    "ümlaut",
    "space in name",
    "a" * 201,
    "/".join(["a"] * 300),
    "c:\\windows",
    "$(reboot)",
    "a;b",
)


@pytest.fixture(params=BACKENDS)
def storage(request, tmp_path):
    return MemoryStorage() if request.param == "memory" else FileStorage(tmp_path / "new" / "checkpoint")


def test_what_was_put_is_what_is_read(storage):
    data = bytes(range(256)) * 300
    assert storage.put("folder/file", data) is PutOutcome.WON
    assert storage.get("folder/file") == data


def test_an_empty_file_can_be_stored(storage):
    assert storage.put("empty", b"") is PutOutcome.WON
    assert storage.get("empty") == b""


def test_a_taken_name_keeps_its_first_content(storage):
    storage.put("name", b"first")
    assert storage.put("name", b"second") is PutOutcome.PRESENT
    assert storage.get("name") == b"first"


def test_a_missing_name_is_a_coded_error_that_names_it(storage):
    with pytest.raises(StorageError, match="deltas/nothing is missing") as caught:
        storage.get("deltas/nothing")
    assert caught.value.code == "MP304"


def test_contains_tells_what_is_there(storage):
    assert not storage.contains("a/b")
    storage.put("a/b", b"x")
    assert storage.contains("a/b")


def test_list_is_sorted_and_stays_inside_its_folder(storage):
    for name in ("b/2", "b/10", "b/deep/er", "bb/1", "a", "c/1"):
        storage.put(name, b"x")
    assert storage.list("b") == ["b/10", "b/2", "b/deep/er"]
    assert storage.list("") == ["a", "b/10", "b/2", "b/deep/er", "bb/1", "c/1"]


def test_listing_what_does_not_exist_is_empty(storage):
    assert storage.list("") == []
    assert storage.list("nowhere") == []


def test_a_deleted_name_is_free_again(storage):
    storage.put("name", b"first")
    storage.delete("name")
    assert not storage.contains("name")
    assert storage.put("name", b"second") is PutOutcome.WON


def test_deleting_twice_is_no_error(storage):
    storage.delete("never/there")
    storage.put("name", b"x")
    storage.delete("name")
    storage.delete("name")
    assert storage.list("") == []


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_could_lead_elsewhere_is_refused_by_every_call(storage, name):
    calls = [lambda: storage.put(name, b"x"), lambda: storage.get(name), lambda: storage.contains(name)]
    calls.append(lambda: storage.delete(name))
    if name:
        calls.append(lambda: storage.list(name))
    for call in calls:
        with pytest.raises(StorageError) as caught:
            call()
        assert caught.value.code == "MP305"
    assert storage.list("") == []


def test_of_many_writers_of_one_name_exactly_one_wins(storage):
    writers = 8
    outcomes = {}
    barrier = threading.Barrier(writers)

    def write(writer):
        barrier.wait()
        outcomes[writer] = storage.put("manifests/0000000001", b"%d" % writer)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [writer for writer, outcome in outcomes.items() if outcome is PutOutcome.WON]
    assert len(winners) == 1
    assert storage.get("manifests/0000000001") == b"%d" % winners[0]


def test_the_caller_may_change_its_buffer_after_a_put(storage):
    buffer = bytearray(b"before")
    storage.put("name", bytes(buffer))
    buffer[:] = b"after!"
    assert storage.get("name") == b"before"
