"""Damage of every kind, in every kind of file, is found and told with its code; what is whole is called whole."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.checkpoint.read.history import History
from millpond.checkpoint.read.verify import verify
from millpond.checkpoint.records.deltas import encode_changes, write_changes
from millpond.checkpoint.records.manifest import (
    GENESIS_NAME,
    OutputFile,
    encode_genesis,
    encode_manifest,
    manifest_name,
)
from millpond.errors import MillpondError, StorageError
from millpond.state.changes import Changes
from millpond.state.local.storekey import store_key
from millpond.storage.backends.files import FileStorage
from millpond.storage.backends.memory import MemoryStorage
from millpond.storage.content import FileRef, put_content
from millpond.storage.frame import FrameKind, seal
from tests.sizes import some_of
from tests.unit.checkpoint.reading_histories import ABSENT, GENESIS, Made, histories, made

KINDS = ("genesis", "manifests", "deltas", "snapshots", "pending")


def checkpoint_of_all_kinds() -> Made:
    """Every kind of file; the newest epoch names all but the deltas of those before it."""
    checkpoint = Made(MemoryStorage())
    checkpoint.epoch([("words", {(None, "a"): 1, (None, "b"): 2}), ("counts", {(1, 1): 5})])
    checkpoint.epoch([("words", {(None, "a"): ABSENT}), ("log", {(None, 0): b"x"})])
    left = put_content(checkpoint.storage, "pending", seal(FrameKind.PENDING, b"messages"), mark="test")
    checkpoint.epoch([("when", {(None, ()): {True: {"x"}}})], snapshot=True, pending=(left,))
    return checkpoint


def files_of(checkpoint, kind) -> list[str]:
    if kind == "genesis":
        return [GENESIS_NAME]
    if kind == "manifests":
        return [checkpoint.head.name]
    return checkpoint.storage.list(kind)


def replace(storage, name, data):
    storage.delete(name)
    if data is not None:
        storage.put(name, data)


def codes(findings) -> set[str]:
    return {problem.error.code for problem in findings.problems}


@given(histories)
@settings(max_examples=some_of(40), deadline=None)
def test_a_whole_checkpoint_is_whole(history):
    checkpoint = made(history, MemoryStorage())
    for findings in (verify(checkpoint.storage), verify(checkpoint.storage, everything=True)):
        assert findings.problems == []
    assert findings.epochs == len(history)
    named = [name for folder in ("deltas", "snapshots") for name in checkpoint.storage.list(folder)]
    assert findings.files >= len(named)
    assert findings.unnamed == []


def test_what_was_looked_at_is_counted():
    checkpoint = checkpoint_of_all_kinds()
    told = []

    def begun(total):
        told.append(total)
        return told.append

    findings = verify(checkpoint.storage, begun=begun)
    assert (findings.epochs, findings.problems, findings.unnamed) == (1, [], None)
    assert told[0] == sum(told[1:]) == findings.size_bytes
    assert findings.files == len(told) - 1
    everything = verify(checkpoint.storage, everything=True)
    assert (everything.epochs, everything.problems, everything.unnamed) == (3, [], [])


def test_a_rescaled_checkpoint_is_whole():
    checkpoint = checkpoint_of_all_kinds()
    checkpoint.epoch([])
    checkpoint.rescale(4)
    checkpoint.epoch([("counts", {(3, 1): 5})])
    assert verify(checkpoint.storage, everything=True).problems == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_bit_is_found(kind):
    checkpoint = checkpoint_of_all_kinds()
    for name in files_of(checkpoint, kind):
        good = checkpoint.storage.get(name)
        step = max(1, len(good) // 60)
        for at in range(0, len(good), step):
            bad = bytearray(good)
            bad[at] ^= 1 << at % 8
            replace(checkpoint.storage, name, bytes(bad))
            findings = verify(checkpoint.storage, everything=True)
            assert [problem.file for problem in findings.problems] == [name], at
            assert codes(findings) <= {"MP301", "MP302", "MP303", "MP310"}
        replace(checkpoint.storage, name, good)
    assert verify(checkpoint.storage, everything=True).problems == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_cut_or_longer_file_is_found(kind):
    checkpoint = checkpoint_of_all_kinds()
    for name in files_of(checkpoint, kind):
        good = checkpoint.storage.get(name)
        for bad in (b"", good[:1], good[:20], good[: len(good) // 2], good[:-1], good + b"\0", good + good):
            replace(checkpoint.storage, name, bad)
            findings = verify(checkpoint.storage, everything=True)
            assert name in [problem.file for problem in findings.problems]
            assert codes(findings) <= {"MP301", "MP310"}
        replace(checkpoint.storage, name, good)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "manifests"])
def test_a_missing_file_is_found(kind):
    checkpoint = checkpoint_of_all_kinds()
    for name in files_of(checkpoint, kind):
        good = checkpoint.storage.get(name)
        replace(checkpoint.storage, name, None)
        findings = verify(checkpoint.storage, everything=True)
        assert [problem.file for problem in findings.problems] == [name]
        assert codes(findings) == {"MP414" if kind == "genesis" else "MP304"}
        replace(checkpoint.storage, name, good)


def test_all_damage_is_told_at_once_with_the_epochs_that_it_concerns():
    checkpoint = checkpoint_of_all_kinds()
    delta, snapshot = checkpoint.storage.list("deltas")[0], checkpoint.storage.list("snapshots")[0]
    replace(checkpoint.storage, delta, b"junk")
    replace(checkpoint.storage, snapshot, None)
    replace(checkpoint.storage, manifest_name(1), b"junk")
    told = {problem.file: problem for problem in verify(checkpoint.storage, everything=True).problems}
    # The hash of a damaged parent is another one, so its children are told too.
    assert {delta, snapshot, manifest_name(1), manifest_name(2)} <= set(told)
    assert told[snapshot].epochs == range(3, 4)
    assert told[delta].epochs.stop > told[delta].epochs.start
    assert told[manifest_name(2)].error.code == "MP413"


def test_an_older_epoch_can_be_whole_while_the_newest_is_not():
    checkpoint = checkpoint_of_all_kinds()
    replace(checkpoint.storage, checkpoint.storage.list("snapshots")[0], None)
    assert codes(verify(checkpoint.storage)) == {"MP304"}
    assert verify(checkpoint.storage, (2,)).problems == []


def test_files_under_each_others_names_are_found():
    checkpoint = checkpoint_of_all_kinds()
    first, second = checkpoint.storage.list("snapshots")
    a, b = checkpoint.storage.get(first), checkpoint.storage.get(second)
    replace(checkpoint.storage, first, b)
    replace(checkpoint.storage, second, a)
    findings = verify(checkpoint.storage)
    assert [problem.error.code for problem in findings.problems] == ["MP310", "MP310"]


def test_a_lost_epoch_is_told_and_a_stranger_in_the_chain_too():
    checkpoint = made([([("words", {(None, "a"): n})], False) for n in range(5)], MemoryStorage())
    other = made([([("words", {(None, "b"): n})], False) for n in range(5)], MemoryStorage())
    checkpoint.storage.delete(manifest_name(2))
    assert codes(verify(checkpoint.storage, everything=True)) == {"MP457"}
    replace(checkpoint.storage, manifest_name(3), other.storage.get(manifest_name(3)))
    told = {problem.file: problem.error.code for problem in verify(checkpoint.storage, everything=True).problems}
    assert told[manifest_name(4)] == told[manifest_name(5)] == "MP413"


def test_a_foreign_genesis_breaks_the_chain():
    checkpoint = checkpoint_of_all_kinds()
    later = encode_genesis(msgspec.structs.replace(GENESIS, created_ms=1))
    replace(checkpoint.storage, GENESIS_NAME, later)
    assert codes(verify(checkpoint.storage, (1,))) == {"MP413"}


def test_a_name_that_is_no_manifests_is_told():
    checkpoint = checkpoint_of_all_kinds()
    for name in ("manifests/12", "manifests/000000000x", "manifests/0000000000"):
        checkpoint.storage.put(name, b"x")
    findings = verify(checkpoint.storage)
    assert len(findings.problems) == 3
    assert codes(findings) == {"MP413"}
    assert History(checkpoint.storage).epochs == (1, 2, 3)


def forged(checkpoint, **fields) -> None:
    """Put another manifest of the newest epoch, whole in itself."""
    head = msgspec.structs.replace(checkpoint.head, **fields)
    replace(checkpoint.storage, head.name, encode_manifest(head))


def test_a_snapshot_that_leaves_groups_out_is_told():
    checkpoint = checkpoint_of_all_kinds()
    forged(checkpoint, snapshot=checkpoint.head.snapshot[1:])
    assert codes(verify(checkpoint.storage)) == {"MP454"}


def test_a_group_beyond_the_last_one_is_told():
    checkpoint = checkpoint_of_all_kinds()
    wide = msgspec.structs.replace(checkpoint.head.snapshot[1], last_group=99)
    forged(checkpoint, snapshot=(checkpoint.head.snapshot[0], wide))
    assert codes(verify(checkpoint.storage)) == {"MP454"}


def test_other_numbers_than_the_manifest_says_are_told():
    checkpoint = checkpoint_of_all_kinds()
    for changed in ({"entries": 7}, {"first_group": 1, "last_group": 1}):
        first = msgspec.structs.replace(checkpoint.head.snapshot[0], **changed)
        forged(checkpoint, snapshot=(first, *checkpoint.head.snapshot[1:]))
        assert "MP316" in codes(verify(checkpoint.storage))


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        (store_key(0, 3, b"a"), msgspec.msgpack.encode(1), "MP246"),
        (store_key(0, 2, b"\xff"), msgspec.msgpack.encode(1), "MP244"),
        (store_key(1, 0, b"no end"), msgspec.msgpack.encode([]), "MP244"),
        (store_key(3, 4, b""), msgspec.msgpack.encode({}), "MP246"),
        (store_key(4, 4, b"\x80" + b"\0" * 7), msgspec.msgpack.encode(b""), "MP246"),
        (store_key(5, 0, b"short"), msgspec.msgpack.encode(1), "MP244"),
        (store_key(5, 0, b"\x80" + b"\0" * 7), msgspec.msgpack.encode("text"), "MP244"),
        (store_key(5, 0, b"\x80" + b"\0" * 7), b"\x01\x01", "MP244"),
        (store_key(77, 0, b"a"), msgspec.msgpack.encode(1), "MP246"),
    ],
)
def test_entries_that_make_no_sense_are_told(key, value, code):
    """Whole files with right sums, as a fault of a writer would leave them."""
    checkpoint = checkpoint_of_all_kinds()
    file = write_changes(checkpoint.storage, FrameKind.DELTA, Changes([key], [value]), mark="test")
    own = msgspec.structs.replace(checkpoint.head.deltas[-1], files=(file,))
    forged(checkpoint, deltas=(*checkpoint.head.deltas[:-1], own))
    assert codes(verify(checkpoint.storage)) == {code}


def test_a_tombstone_in_a_snapshot_is_told():
    checkpoint = checkpoint_of_all_kinds()
    chunk = checkpoint.head.snapshot[0]
    data = seal(FrameKind.SNAPSHOT, encode_changes(Changes([store_key(0, 0, b"a")], [None])))
    bad = msgspec.structs.replace(
        chunk, file=put_content(checkpoint.storage, "snapshots", data, mark="test"), entries=1
    )
    forged(checkpoint, snapshot=(bad, *checkpoint.head.snapshot[1:]))
    assert codes(verify(checkpoint.storage)) == {"MP316"}


def test_files_that_no_epoch_names_are_listed_and_are_no_damage():
    checkpoint = checkpoint_of_all_kinds()
    left = put_content(checkpoint.storage, "deltas", b"a task that died", mark="test")
    findings = verify(checkpoint.storage, everything=True)
    assert (findings.problems, findings.unnamed) == ([], [left.name])


def test_published_replies_are_checked_if_asked(tmp_path):
    checkpoint = checkpoint_of_all_kinds()
    sink = FileStorage(tmp_path)
    out, waiting = (put_content(sink, "x", data, mark="test") for data in (b"published", b"staged"))
    names = (
        FileRef("one.parquet", out.size_bytes, out.sha256),
        FileRef("two.parquet", waiting.size_bytes, waiting.sha256),
    )
    sink.put("one.parquet", b"published")
    sink.put("_staged/two.parquet", b"staged")
    outputs = tuple(OutputFile("replies", ref, 1, str(tmp_path), visible=True) for ref in names)
    gone = OutputFile("memory", FileRef("three", 1, "0" * 64), 1, str(tmp_path))
    forged(checkpoint, outputs=(*outputs, gone))
    assert verify(checkpoint.storage).problems == []
    assert verify(checkpoint.storage, staged="_staged").problems == []
    replace(sink, "one.parquet", b"other")
    replace(sink, "_staged/two.parquet", None)
    assert codes(verify(checkpoint.storage, staged="_staged")) == {"MP304", "MP310"}
    assert verify(checkpoint.storage).problems == []


def test_what_can_not_be_checked_raises():
    with pytest.raises(StorageError) as caught:
        verify(MemoryStorage())
    assert caught.value.code == "MP350"
    with pytest.raises(MillpondError) as caught:
        verify(checkpoint_of_all_kinds().storage, (9,))
    assert caught.value.code == "MP450"
    assert verify(Made(MemoryStorage()).storage).problems == []


@given(st.data())
@settings(max_examples=some_of(25), deadline=None)
def test_any_single_change_to_any_file_is_found(data):
    checkpoint = checkpoint_of_all_kinds()
    name = data.draw(st.sampled_from(sorted(checkpoint.storage.list(""))))
    good = checkpoint.storage.get(name)
    bad = data.draw(st.binary(max_size=60) | st.just(good[::-1]))
    replace(checkpoint.storage, name, bad)
    assert (verify(checkpoint.storage, everything=True).problems == []) == (bad == good)
