from __future__ import annotations

import hashlib

import pytest

from millpond.errors import StorageError
from millpond.storage.backends.memory import MemoryStorage
from millpond.storage.content import FileRef, get_content, put_content


def test_a_file_is_named_by_its_mark_and_its_content():
    storage = MemoryStorage()
    ref = put_content(storage, "deltas", b"content", mark="test")
    digest = hashlib.sha256(b"content").hexdigest()
    named = hashlib.sha256(f"test/{digest}".encode()).hexdigest()
    assert ref == FileRef(f"deltas/{named[:40]}", 7, digest)
    assert get_content(storage, ref) == b"content"
    other = put_content(storage, "deltas", b"content", mark="another")
    assert (other.name != ref.name, other.sha256) == (True, ref.sha256)


def test_writing_the_same_content_twice_is_one_file():
    storage = MemoryStorage()
    assert put_content(storage, "deltas", b"x", mark="test") == put_content(storage, "deltas", b"x", mark="test")
    assert len(storage.list("deltas")) == 1


@pytest.mark.parametrize("damaged", [b"content!", b"Content", b"", b"conten"])
def test_other_bytes_than_those_written_are_refused_by_name(damaged):
    storage = MemoryStorage()
    ref = put_content(storage, "deltas", b"content", mark="test")
    storage.delete(ref.name)
    storage.put(ref.name, damaged)
    with pytest.raises(StorageError, match=ref.name) as caught:
        get_content(storage, ref)
    assert caught.value.code == "MP310"


def test_a_second_writer_does_not_build_on_a_damaged_file():
    storage = MemoryStorage()
    ref = put_content(storage, "deltas", b"content", mark="test")
    storage.delete(ref.name)
    storage.put(ref.name, b"c0ntent")
    with pytest.raises(StorageError) as caught:
        put_content(storage, "deltas", b"content", mark="test")
    assert caught.value.code == "MP310"


@pytest.mark.parametrize(("name", "size", "digest"), [("a", -1, "0" * 64), ("a", 1, "0" * 63), ("a", 1, "G" * 64)])
def test_a_reference_that_makes_no_sense_is_not_born(name, size, digest):
    with pytest.raises(StorageError) as caught:
        FileRef(name, size, digest)
    assert caught.value.code == "MP314"
