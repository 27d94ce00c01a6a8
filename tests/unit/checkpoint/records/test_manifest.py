from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.checkpoint.records.manifest import (
    FORMAT,
    ElementSchema,
    EpochDeltas,
    Genesis,
    Manifest,
    OutputFile,
    StateFile,
    decode_genesis,
    decode_manifest,
    encode_genesis,
    encode_manifest,
    manifest_hash,
    manifest_name,
)
from millpond.checkpoint.records.offers import Batch, BoundedRun, Evolved, Loaded, Lost, Rescaled, Ticked
from millpond.checkpoint.records.times import EventTimes, FeedMark, Times
from millpond.errors import EpochError, StorageError
from millpond.storage.content import FileRef
from millpond.storage.frame import FrameKind, seal

UUID = "12345678-1234-4234-8234-123456789abc"
SEEN = ElementSchema("seen", "map", "partitioned", "", "str", "int")


def ref(name="deltas/a"):
    return FileRef(name, 10, "a" * 64)


def state_file(name="deltas/a", first=0, last=3):
    return StateFile(ref(name), first, last, 5)


def delta(epoch, *files):
    return EpochDeltas(epoch, f"{epoch:064x}", files)


def manifest(**changes):
    epoch = changes.get("epoch", 3)
    fields = {
        "format": FORMAT,
        "checkpoint": UUID,
        "epoch": epoch,
        "parent": f"{epoch:064x}",
        "offer": Batch("q", 2, ("kafka",)),
        "partitions": 2,
        "snapshot_epoch": 1,
        "snapshot": (state_file("snapshots/a"),),
        "deltas": (delta(2, state_file("deltas/b")), delta(3, state_file("deltas/c"))),
        "outputs": (OutputFile("recs", ref("3-0"), 4),),
        "runs": (),
        "counters": {"rows": 7, "a": 1},
        "times": Times(7, over=((0, 3),), event=EventTimes(-5, feeds={"kafka": FeedMark(4)})),
        "stream": Batch("q", 2, ("kafka",)),
    }
    return Manifest(**{**fields, **changes})


def genesis(**changes):
    fields = {"format": FORMAT, "uuid": UUID, "key_groups": 128, "instances": 8, "elements": (SEEN,), "created_ms": 5}
    return Genesis(**{**fields, **changes})


def test_a_manifest_survives_its_bytes():
    record = manifest()
    assert decode_manifest(encode_manifest(record), record.name) == record


def test_a_genesis_survives_its_bytes():
    assert decode_genesis(encode_genesis(genesis())) == genesis()


def test_equal_manifests_have_equal_bytes_whatever_the_order_of_their_counters():
    one = manifest(counters={"a": 1, "rows": 7})
    other = manifest(counters={"rows": 7, "a": 1})
    assert encode_manifest(one) == encode_manifest(other)
    assert manifest_hash(encode_manifest(one)) != manifest_hash(
        encode_manifest(manifest(offer=Batch("q", 3, ("kafka",)), stream=Batch("q", 3, ("kafka",))))
    )


@given(st.integers(1, 10**10 - 1), st.integers(1, 10**10 - 1))
def test_names_sort_like_epochs(one, other):
    assert (manifest_name(one) < manifest_name(other)) == (one < other)


def test_the_name_has_ten_digits():
    assert manifest(epoch=12, snapshot_epoch=11, deltas=(delta(12),)).name == "manifests/0000000012"


@pytest.mark.parametrize(
    "changes",
    [
        {"format": FORMAT + 1},
        {"format": 0},
        {"checkpoint": "nobody"},
        {"epoch": 0, "deltas": (), "snapshot_epoch": 0, "snapshot": ()},
        {"epoch": 10**10, "deltas": (delta(10**10),), "snapshot_epoch": 10**10 - 1},
        {"partitions": 0},
        {"snapshot_epoch": 4},
        {"snapshot_epoch": -1},
        {"snapshot_epoch": 0, "deltas": (delta(1), delta(2), delta(3))},
        {"deltas": ()},
        {"deltas": (delta(3),)},
        {"deltas": (delta(1), delta(3))},
        {"deltas": (delta(2), delta(3), delta(4))},
        {"deltas": (delta(3), delta(2))},
        {"deltas": (delta(2),)},
        {"parent": "b" * 64},
        {"stream": None},
        {"stream": Batch("q", 1, ("kafka",))},
        {"offer": BoundedRun("june")},
        {"offer": Loaded("films"), "outputs": ()},
        {"offer": Lost(), "outputs": ()},
        {"offer": Evolved("0" * 16), "outputs": ()},
        {"snapshot": (state_file("snapshots/a"), state_file("snapshots/a"))},
        {"outputs": (OutputFile("recs", ref("x"), 1), OutputFile("recs", ref("x"), 1))},
        {"runs": ("june", "june")},
        {"offer": Rescaled(4)},
        {"offer": Rescaled(4), "outputs": (), "instances": 5},
        {"offer": Rescaled(4), "outputs": (), "pending": (ref("pending/a"),)},
        {"offer": Ticked(), "pending": (ref("pending/a"),)},
    ],
)
def test_a_manifest_that_contradicts_itself_is_not_born(changes):
    with pytest.raises(EpochError) as caught:
        manifest(**changes)
    assert caught.value.code == "MP412"


def test_deltas_may_reach_back_before_the_snapshot():
    assert manifest(snapshot_epoch=3).snapshot_epoch == 3


def test_two_sinks_may_have_files_of_the_same_name():
    outputs = (OutputFile("one", ref("x"), 1), OutputFile("two", ref("x"), 1))
    assert manifest(outputs=outputs).outputs == outputs


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 9},
        {"uuid": "../../etc"},
        {"key_groups": 0},
        {"key_groups": 10**6},
        {"instances": 0},
        {"instances": 129},
        {"elements": (SEEN, SEEN)},
        {"elements": tuple(ElementSchema(f"e{i}", "map", "partitioned", "", "int", "int") for i in range(300))},
    ],
)
def test_a_genesis_that_makes_no_sense_is_not_born(changes):
    with pytest.raises(EpochError) as caught:
        genesis(**changes)
    assert caught.value.code == "MP412"


@pytest.mark.parametrize(("first", "last", "entries"), [(3, 2, 1), (-1, 2, 1), (0, 10**6, 1), (0, 1, -1)])
def test_a_state_file_with_a_bad_range_is_not_born(first, last, entries):
    with pytest.raises(EpochError) as caught:
        StateFile(ref(), first, last, entries)
    assert caught.value.code == "MP412"


def test_ranges_overlap_when_they_share_a_group():
    file = state_file(first=4, last=7)
    assert [group for group in range(12) if file.overlaps(group, group)] == [4, 5, 6, 7]
    assert file.overlaps(0, 4)
    assert file.overlaps(0, 100)
    assert not file.overlaps(8, 100)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"format":1}',
        b"\xff\xfe",
        msgspec.json.encode({**msgspec.to_builtins(manifest()), "surprise": 1}),
        msgspec.json.encode({**msgspec.to_builtins(manifest()), "epoch": "three"}),
        msgspec.json.encode({**msgspec.to_builtins(manifest()), "epoch": 4}),
        msgspec.json.encode({**msgspec.to_builtins(manifest()), "format": FORMAT + 1}),
        msgspec.json.encode({**msgspec.to_builtins(manifest()), "format": 1}),
        msgspec.json.encode({**msgspec.to_builtins(manifest()), "offer": {"kind": "rescale", "instances": 0}}),
        msgspec.json.encode({**msgspec.to_builtins(manifest()), "offer": {"kind": "unheard"}}),
    ],
)
def test_a_payload_that_is_no_manifest_is_a_coded_error_that_names_the_file(payload):
    with pytest.raises(StorageError, match="manifests/0000000003") as caught:
        decode_manifest(seal(FrameKind.MANIFEST, payload), "manifests/0000000003")
    assert caught.value.code == "MP312"


def rescaled(**changes):
    """A manifest right after a rescale from 8 to 16."""
    fields = {"offer": Rescaled(16), "outputs": (), "instances": 16}
    return manifest(**{**fields, **changes})


def test_a_manifest_of_a_rescale_keeps_the_stream_and_survives_its_bytes():
    record = rescaled()
    assert record.stream == Batch("q", 2, ("kafka",))
    assert decode_manifest(encode_manifest(record), record.name) == record


def test_a_manifest_without_instances_has_the_bytes_that_it_always_had():
    assert b"instances" not in encode_manifest(manifest())
    assert b'"instances":16' in encode_manifest(manifest(instances=16))


@pytest.mark.parametrize(
    "record", [manifest(instances=129), manifest(instances=8), manifest(instances=0), rescaled(instances=None)]
)
def test_a_number_of_instances_that_does_not_fit_the_genesis_is_seen(record):
    with pytest.raises(EpochError) as caught:
        record.check_instances(genesis())
    assert caught.value.code == "MP412"


@pytest.mark.parametrize(
    "record",
    [
        manifest(),
        manifest(instances=128),
        manifest(instances=1),
        rescaled(),
        rescaled(offer=Rescaled(8), instances=None),
    ],
)
def test_a_number_of_instances_that_fits_the_genesis_passes(record):
    record.check_instances(genesis())
