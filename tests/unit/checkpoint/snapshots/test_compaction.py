"""Snapshots made of committed files: the state is the same, unchanged chunks stay, memory is bounded by a chunk."""

from __future__ import annotations

from tempfile import SpooledTemporaryFile, TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.checkpoint.commit.checkpoint import Changed, Checkpoint, EpochWork
from millpond.checkpoint.records.deltas import write_changes
from millpond.checkpoint.records.manifest import StateFile
from millpond.checkpoint.records.offers import Batch
from millpond.checkpoint.recovery import read_changes, read_state
from millpond.checkpoint.snapshots import compaction
from millpond.checkpoint.snapshots.compaction import chunk_ranges, compact
from millpond.checkpoint.snapshots.snapshots import covers_all
from millpond.errors import MillpondError
from millpond.state.changes import Changes
from millpond.state.local.storekey import group_of, store_key
from millpond.storage.backends.files import FileStorage
from millpond.storage.backends.memory import MemoryStorage
from millpond.storage.content import put_content
from millpond.storage.frame import FrameKind, seal

KEY_GROUPS = 8
keys = st.builds(store_key, st.integers(0, 1), st.integers(0, KEY_GROUPS - 1), st.binary(max_size=2))
epochs = st.lists(st.dictionaries(keys, st.none() | st.binary(max_size=40), max_size=12), min_size=1, max_size=6)


def committed(history, cut=None, storage=None):
    """A checkpoint with one epoch per dict of changes, each in one delta, or in one for each half of the groups."""
    storage = storage or MemoryStorage()
    checkpoint = Checkpoint.open(storage, (), KEY_GROUPS)
    for batch, changes in enumerate(history):
        parts = [changes]
        if cut is not None:
            parts = [{k: v for k, v in changes.items() if (group_of(k) < cut) is low} for low in (True, False)]
        files = []
        for part in parts:
            ordered = sorted(part)
            if ordered:
                files.append(
                    write_changes(
                        storage, FrameKind.DELTA, Changes(ordered, [part[key] for key in ordered]), mark="test"
                    )
                )
        work = EpochWork((Changed(files=tuple(dict.fromkeys(files))),), (), {})
        checkpoint.run_epoch(Batch("q", batch), lambda _, work=work: work, lambda _: None, partitions=1)
    return storage, checkpoint


def whole(storage, snapshot):
    state = {}
    for file in snapshot.files:
        state.update(read_changes(storage, file).pairs())
    return state


@given(epochs, st.none() | st.integers(1, 7), *[st.sampled_from([1, 60, 10**9])] * 2, st.booleans())
def test_a_snapshot_holds_the_state_of_its_manifest(history, cut, size, in_round, in_files):
    with TemporaryDirectory() as folder:
        check_merged(FileStorage(folder) if in_files else MemoryStorage(), history, cut, size, in_round)


def check_merged(storage, history, cut, size, in_round):
    storage, checkpoint = committed(history, cut, storage)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "FILE_BYTES", size)
        patch.setattr(compaction, "HELD_BYTES_MAX", size)
        patch.setattr(compaction, "ROUND_BYTES", in_round)
        snapshot = compact(storage, checkpoint.head, checkpoint.head_hash, KEY_GROUPS)
        again = compact(storage, checkpoint.head, checkpoint.head_hash, KEY_GROUPS)
    assert whole(storage, snapshot) == read_state(storage)
    assert covers_all(snapshot.files, KEY_GROUPS)
    assert snapshot == again
    assert (snapshot.epoch, snapshot.hash) == (checkpoint.epoch, checkpoint.head_hash)


class NoFile(SpooledTemporaryFile):
    def write(self, data):
        raise AssertionError("changes were written once more")


@pytest.mark.parametrize("in_round", [1, 10**9])
def test_changes_of_a_storage_in_files_stay_where_they_are(tmp_path, monkeypatch, in_round):
    monkeypatch.setattr(compaction, "SpooledTemporaryFile", NoFile)
    lengths = [0, 255, 256, 65535, 65536]
    history = [
        {store_key(element, group, b"%d" % at): None if at > epoch + 20 else b"%d" % epoch * lengths[at % 5]
         for element in range(2) for group in range(KEY_GROUPS) for at in range(25)}
        for epoch in range(3)
    ]  # fmt: skip
    check_merged(FileStorage(tmp_path), history, 3, 10**6, in_round)
    with pytest.raises(AssertionError, match="once more"):
        check_merged(MemoryStorage(), history, 3, 10**6, in_round)


def test_changes_that_another_writer_wrote_in_its_own_way_are_merged_too(tmp_path):
    """MessagePack may say a length with more bytes than it needs."""
    storage = FileStorage(tmp_path)
    checkpoint = Checkpoint.open(storage, (), KEY_GROUPS)
    key = store_key(0, 1, b"x")
    payload = b"\x92\x91\xc6" + len(key).to_bytes(4, "big") + key + b"\x91\xc5\x00\x03abc"
    ref = put_content(storage, "deltas", seal(FrameKind.DELTA, payload), mark="test")
    work = EpochWork((Changed(files=(StateFile(ref, 1, 1, 1),)),), (), {})
    checkpoint.run_epoch(Batch("q", 0), lambda _: work, lambda _: None, partitions=1)
    snapshot = compact(storage, checkpoint.head, checkpoint.head_hash, KEY_GROUPS)
    assert whole(storage, snapshot) == {key: b"abc"}


def test_a_chunk_that_nothing_changed_is_not_written_again(monkeypatch):
    monkeypatch.setattr(compaction, "FILE_BYTES", 1)
    history = [{store_key(0, group, b"x"): b"1" for group in range(KEY_GROUPS)}]
    storage, checkpoint = committed(history)
    first = compact(storage, checkpoint.head, checkpoint.head_hash, KEY_GROUPS)
    assert len(first.files) == KEY_GROUPS
    delta = write_changes(storage, FrameKind.DELTA, Changes([store_key(0, 3, b"x")], [b"2"]), mark="test")
    head = checkpoint.head
    later = type(head)(
        **{name: getattr(head, name) for name in head.__struct_fields__}
        | {
            "snapshot_epoch": head.epoch,
            "snapshot": first.files,
            "epoch": head.epoch + 1,
            "parent": checkpoint.head_hash,
            "offer": Batch("q", 1),
            "stream": Batch("q", 1),
            "deltas": (type(head.deltas[0])(head.epoch + 1, checkpoint.head_hash, (delta,)),),
        }
    )
    second = compact(storage, later, checkpoint.head_hash, KEY_GROUPS)
    assert [one == other for one, other in zip(first.files, second.files, strict=True)] == [
        group != 3 for group in range(KEY_GROUPS)
    ]


def test_chunks_of_a_large_state_are_about_as_large_as_they_shall_be():
    value = b"x" * 1000
    history = [{store_key(0, group, b"%d" % at): value for group in range(KEY_GROUPS) for at in range(50)}]
    storage, checkpoint = committed(history)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "FILE_BYTES", 100_000)
        ranges = [groups for groups, _ in chunk_ranges(checkpoint.head, KEY_GROUPS)]
    assert ranges == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert storage


def test_a_damaged_delta_is_an_error_and_no_snapshot():
    storage, checkpoint = committed([{store_key(0, 1, b"x"): b"1"}])
    name = checkpoint.head.deltas[0].files[0].file.name
    data = bytearray(storage.get(name))
    data[-1] ^= 1
    storage.delete(name)
    storage.put(name, bytes(data))
    with pytest.raises(MillpondError):
        compact(storage, checkpoint.head, checkpoint.head_hash, KEY_GROUPS)
