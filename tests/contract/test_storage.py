"""What every storage backend must do, run for each of them."""

from __future__ import annotations

import threading

import pytest

from millpond.errors import MillpondError, MissingError, StorageError
from millpond.storage.content import get_content, put_content
from millpond.storage.contract import NAME_CHARS_MAX, PART_CHARS_MAX, PutOutcome
from millpond.storage.frame import FrameKind, seal, unseal
from tests.contract.example import LINES_MAX, example_code

LARGE_BYTES = 64 << 20

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


ODD_NAMES = (
    "a",
    "_",
    "-",
    "=",
    "a.b.c",
    "-rf",
    "=2F",
    "a=2Fb",
    "a=3D=_",
    "CON",
    "Case",
    "case",
    "index-0000000001-0000000000000001",
    "log-0000000001",
    "lock/lock",
    "x" * PART_CHARS_MAX,
    "/".join(["deep"] * 60),
    "/".join(["y" * PART_CHARS_MAX, "=" * PART_CHARS_MAX, "z." + "-" * (NAME_CHARS_MAX - 2 * PART_CHARS_MAX - 4)]),
)


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
    with pytest.raises(MissingError, match="deltas/nothing is missing") as caught:
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


def test_any_plain_name_can_be_stored_and_is_listed_as_it_was_given(storage):
    for name in ODD_NAMES:
        assert storage.put(name, name.encode()) is PutOutcome.WON
    assert storage.list("") == sorted(ODD_NAMES)
    for name in ODD_NAMES:
        assert storage.get(name) == name.encode()
        assert storage.contains(name)
        assert storage.put(name, b"other") is PutOutcome.PRESENT


def test_a_name_does_not_stand_for_the_folder_of_another(backend):
    storage = backend.open()
    storage.put("folder/name", b"x")
    assert not storage.contains("folder")
    assert storage.list("folder/name") == []


def test_what_one_opening_wrote_the_next_one_finds(backend):
    writer = backend.open()
    expected = {f"deltas/{number:03d}": b"%d" % number * 50 for number in range(60 if backend.fast else 12)}
    for name, data in expected.items():
        writer.put(name, data)
    deleted = list(expected)[::3]
    for name in deleted:
        writer.delete(name)
        del expected[name]
    reader = backend.open()
    assert reader.list("deltas") == sorted(expected)
    assert {name: reader.get(name) for name in expected} == expected
    assert not any(reader.contains(name) for name in deleted)


def test_two_openings_see_what_the_other_does_at_once(backend):
    one, other = backend.open(), backend.open()
    for number in range(10):
        assert one.put(f"a/{number}", b"one") is PutOutcome.WON
        assert other.put(f"a/{number}", b"other") is PutOutcome.PRESENT
        assert other.get(f"a/{number}") == b"one"
        other.delete(f"a/{number}")
        assert not one.contains(f"a/{number}")
        with pytest.raises(StorageError):
            one.get(f"a/{number}")
        assert one.put(f"a/{number}", b"again") is PutOutcome.WON
        assert other.get(f"a/{number}") == b"again"
    assert other.list("") == one.list("") == sorted(f"a/{number}" for number in range(10))


@pytest.mark.slow
def test_a_value_of_64_megabytes_comes_back_as_it_was(storage):
    block = bytes(range(251)) * 4177
    data = (block * (LARGE_BYTES // len(block) + 1))[:LARGE_BYTES]
    assert storage.put("large", data) is PutOutcome.WON
    assert storage.put("large", b"other") is PutOutcome.PRESENT
    assert storage.get("large") == data
    storage.put("small", b"after it")
    assert storage.get("small") == b"after it"


@pytest.mark.parametrize("harm", ["flip", "cut", "longer", "empty", "zeros", "swapped"])
def test_a_value_that_is_not_what_was_written_is_a_coded_error_through_its_frame(storage, harm):
    """Whatever a backend hands out, the frame and the reference say if it is not what was put."""
    payload = b"the state of an epoch" * 20
    framed = seal(FrameKind.DELTA, payload)
    harmed = {
        "flip": framed[:30] + bytes([framed[30] ^ 4]) + framed[31:],
        "cut": framed[:-7],
        "longer": framed + b"\0",
        "empty": b"",
        "zeros": bytes(len(framed)),
        "swapped": seal(FrameKind.MANIFEST, payload),
    }[harm]
    storage.put("deltas/whole", framed)
    storage.put("deltas/harmed", harmed)
    assert unseal(FrameKind.DELTA, storage.get("deltas/whole"), "deltas/whole") == payload
    with pytest.raises(MillpondError) as caught:
        unseal(FrameKind.DELTA, storage.get("deltas/harmed"), "deltas/harmed")
    assert caught.value.code in {"MP301", "MP303"}


def test_content_is_stored_once_and_found_by_its_reference(storage):
    first = put_content(storage, "snapshots", b"the same bytes", mark="test")
    assert put_content(storage, "snapshots", b"the same bytes", mark="test") == first
    assert storage.list("snapshots") == [first.name]
    assert get_content(storage, first) == b"the same bytes"


def test_the_example_of_the_page_has_less_than_a_hundred_lines():
    assert example_code().count("\n") < LINES_MAX


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
    assert (len(outcomes), len(winners)) == (writers, 1)
    assert storage.get("manifests/0000000001") == b"%d" % winners[0]


def test_the_caller_may_change_its_buffer_after_a_put(storage):
    buffer = bytearray(b"before")
    storage.put("name", bytes(buffer))
    buffer[:] = b"after!"
    assert storage.get("name") == b"before"
