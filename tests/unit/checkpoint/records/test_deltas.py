from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.checkpoint.records import deltas
from millpond.checkpoint.records.deltas import (
    VERSION,
    check_changes,
    decode_changes,
    encode_changes,
    kind_of,
    merge_segments,
    within,
    write_changes,
    write_delta,
)
from millpond.checkpoint.records.manifest import StateFile
from millpond.checkpoint.recovery import read_changes
from millpond.errors import EpochError, StorageError
from millpond.state.changes import Changes
from millpond.state.local.storekey import group_of, store_key
from millpond.storage.backends.memory import MemoryStorage
from millpond.storage.content import FileRef
from millpond.storage.frame import FrameKind

store_keys = st.builds(store_key, st.integers(0, 255), st.integers(0, 127), st.binary(max_size=6))
changes = st.dictionaries(store_keys, st.none() | st.binary(max_size=8), max_size=40)


def sorted_changes(mapping):
    keys = sorted(mapping)
    return Changes(keys, [mapping[key] for key in keys])


@given(changes)
def test_changes_survive_their_bytes(mapping):
    keys, values = sorted_changes(mapping)
    assert decode_changes(encode_changes(Changes(keys, values)), "x") == (keys, values)


@given(changes)
def test_written_changes_are_read_back_with_their_range(mapping):
    keys, values = sorted_changes(mapping)
    storage = MemoryStorage()
    file = write_changes(storage, FrameKind.DELTA, Changes(keys, values), mark="test")
    assert file.entries == len(keys)
    assert read_changes(storage, file, FrameKind.DELTA) == (keys, values)


@given(changes, st.integers(1, 5))
def test_segments_of_disjoint_partitions_merge_into_one_sorted_segment(mapping, partitions):
    parts = [{} for _ in range(partitions)]
    for key, value in mapping.items():
        parts[group_of(key) % partitions][key] = value
    assert merge_segments([sorted_changes(part) for part in parts]) == sorted_changes(mapping)


def test_two_partitions_that_change_one_key_are_refused():
    key = store_key(0, 1, b"k")
    with pytest.raises(EpochError, match="1 of 2") as caught:
        merge_segments([Changes([key], [b"1"]), Changes([key], [b"2"])])
    assert caught.value.code == "MP411"


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"\x92\x90",
        b"\xdd\xff\xff\xff\xff",
        b"\x92\xdd\xff\xff\xff\xff",
        b"\x93\x02\xdd\xff\xff\xff\xff",
        b"\x91" * 100_000,
        msgspec.msgpack.encode(([b"abc"], [])),
        msgspec.msgpack.encode(([b"abc"], ["text"])),
        msgspec.msgpack.encode(([None], [b"x"])),
        msgspec.msgpack.encode(([b"abc"], [b"x"], [])),
        msgspec.msgpack.encode((2, [b"abc"], [])),
        msgspec.msgpack.encode((2, [b"abc"], [b"x"], [])),
        msgspec.msgpack.encode((2, [b"abc"])),
        msgspec.msgpack.encode({"keys": 1}),
    ],
)
def test_a_payload_that_holds_no_changes_is_a_coded_error_that_names_the_file(payload):
    with pytest.raises(StorageError, match="deltas/x") as caught:
        decode_changes(payload, "deltas/x")
    assert caught.value.code == "MP315"


@given(changes)
def test_a_payload_of_the_first_version_is_read_as_it_was_meant(mapping):
    changed = sorted_changes(mapping)
    payload = encode_changes(changed, 1)
    assert payload == msgspec.msgpack.encode(tuple(changed)) != encode_changes(changed)
    assert decode_changes(payload, "x") == changed


@pytest.mark.parametrize("version", [0, 1, VERSION + 1, -1, 2**40])
def test_a_payload_of_another_version_is_told(version):
    with pytest.raises(StorageError, match="deltas/x") as caught:
        decode_changes(msgspec.msgpack.encode((version, [b"abc"], [b"x"])), "deltas/x")
    assert caught.value.code == "MP302"


@given(st.binary(max_size=60))
def test_random_payloads_give_changes_or_a_coded_error(payload):
    code = None
    keys, values = [], []
    try:
        keys, values = decode_changes(payload, "deltas/x")
    except StorageError as error:
        code = error.code
    assert code in {None, "MP302", "MP315"}
    assert len(keys) == len(values)


@pytest.mark.parametrize("keys", [[b"ab"], [b"abc", b"abb"], [b"abc", b"abc"], [b""]])
def test_keys_out_of_order_doubled_or_short_are_refused(keys):
    with pytest.raises(StorageError) as caught:
        check_changes(keys, "deltas/x")
    assert caught.value.code == "MP315"


def test_a_snapshot_has_no_tombstones():
    with pytest.raises(StorageError) as caught:
        write_changes(MemoryStorage(), FrameKind.SNAPSHOT, Changes([store_key(0, 0, b"")], [None]), mark="test")
    assert caught.value.code == "MP315"


def test_a_snapshot_chunk_covers_more_groups_than_it_has_keys_for():
    file = write_changes(
        MemoryStorage(), FrameKind.SNAPSHOT, Changes([store_key(0, 5, b"")], [b""]), covers=(0, 63), mark="test"
    )
    assert (file.first_group, file.last_group) == (0, 63)


def test_the_folder_tells_the_kind():
    storage = MemoryStorage()
    for kind in (FrameKind.DELTA, FrameKind.SNAPSHOT):
        assert kind_of(write_changes(storage, kind, Changes([], []), mark="test")) is kind
    with pytest.raises(StorageError) as caught:
        kind_of(StateFile(FileRef("elsewhere/x", 0, "0" * 64), 0, 0, 0))
    assert caught.value.code == "MP315"


@given(changes, st.integers(0, 127), st.integers(0, 127))
def test_what_lies_within_a_range_of_groups_is_found(changed, one, other):
    first, last = sorted((one, other))
    keys, values = sorted_changes(changed)
    own = [key for key in keys if first <= group_of(key) <= last]
    found = within(Changes(keys, values), first, last)
    assert found == (own, [changed[key] for key in own])


@given(changes, st.sampled_from([1, 4, 20, 10**9]))
def test_large_deltas_are_several_files_that_share_no_group_and_lose_nothing(changed, size):
    storage = MemoryStorage()
    keys, values = sorted_changes(changed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deltas, "FILE_BYTES", size)
        files = write_delta(storage, Changes(keys, values), mark="test")
    groups = [group for file in files for group in range(file.first_group, file.last_group + 1)]
    assert len(groups) == len(set(groups))
    found = [pair for file in files for pair in read_changes(storage, file).pairs()]
    assert len(found) == len(changed)
    assert dict(found) == changed
    if size == 1:
        assert len(files) == len({group_of(key) for key in keys}) or not keys
