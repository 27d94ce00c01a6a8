from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.checkpoint.commit.checkpoint import Changed, Checkpoint, EpochWork
from millpond.checkpoint.commit.commit import next_manifest, parent_of
from millpond.checkpoint.records.deltas import write_changes
from millpond.checkpoint.records.manifest import (
    FORMAT,
    ElementSchema,
    Genesis,
    StateFile,
    encode_manifest,
    manifest_hash,
    manifest_name,
)
from millpond.checkpoint.records.naming import HEADS
from millpond.checkpoint.records.offers import Batch
from millpond.checkpoint.recovery import (
    advance_files,
    last_manifest,
    read_changes,
    read_genesis,
    read_state,
    restore_files,
)
from millpond.checkpoint.snapshots.snapshots import Snapshot
from millpond.errors import EpochError, MillpondError, StorageError
from millpond.state.changes import Changes
from millpond.state.local.storekey import group_of, store_key
from millpond.storage.backends.memory import MemoryStorage
from millpond.storage.content import FileRef
from millpond.storage.frame import FrameKind
from tests.programs.ledger import BATCHES, MemorySink, open_ledger, run_batch, small_checkpoint, state_after

ELEMENTS = (ElementSchema("e", "map", "partitioned", "", "int", "int"),)
GENESIS = Genesis(FORMAT, "12345678-1234-4234-8234-123456789abc", 4, 1, ELEMENTS, 0)

epoch_changes = st.dictionaries(
    st.builds(store_key, st.integers(0, 1), st.integers(0, 3), st.sampled_from([b"x", b"y"])),
    st.none() | st.binary(max_size=2),
    max_size=6,
)
histories = st.lists(st.tuples(epoch_changes, st.booleans()), min_size=1, max_size=14)


def applied(files, storage, state, groups):
    for file in files:
        for key, value in read_changes(storage, file).pairs():
            if group_of(key) not in groups:
                continue
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
    return state


def play(history):
    """Build the manifests of a history; return the parents after each epoch with the state as it then is."""
    storage = MemoryStorage()
    head, digest = None, "0" * 64
    state = {}
    parents = [(parent_of(GENESIS, None, digest), {})]
    for epoch, (changes, wanted) in enumerate(history, start=1):
        snapshot, before_it = wanted and epoch > 1, state
        state = {key: value for key, value in {**state, **changes}.items() if value is not None}
        keys = sorted(changes)
        files = (
            (write_changes(storage, FrameKind.DELTA, Changes(keys, [changes[key] for key in keys]), mark="test"),)
            if keys
            else ()
        )
        made = None
        if snapshot:
            chunks = ()
            for covers in ((0, 1), (2, 3)):
                kept = sorted(key for key in before_it if covers[0] <= group_of(key) <= covers[1])
                values = [before_it[key] for key in kept]
                chunks += (
                    write_changes(storage, FrameKind.SNAPSHOT, Changes(kept, values), covers=covers, mark="test"),
                )
            made = Snapshot(head.epoch, digest, chunks)
        work = EpochWork((Changed(files=files),), (), {})
        before = parent_of(GENESIS, head, digest)
        head = next_manifest(before, head, Batch("q", epoch - 1), work, partitions=1, snapshot=made)
        digest = manifest_hash(encode_manifest(head))
        parents.append((parent_of(GENESIS, head, digest), state))
    return storage, parents


@given(histories, st.integers(0, 3), st.integers(0, 3))
def test_restoring_a_range_of_groups_gives_the_state_of_that_range(history, one, other):
    first, last = sorted((one, other))
    storage, parents = play(history)
    groups = range(first, last + 1)
    for parent, state in parents:
        wanted = {key: value for key, value in state.items() if group_of(key) in groups}
        assert applied(restore_files(parent, first, last), storage, {}, groups) == wanted


@given(histories, st.data())
def test_advancing_a_store_gives_the_same_as_restoring_it(history, data):
    storage, parents = play(history)
    stamp, old_state = parents[data.draw(st.integers(0, len(parents) - 1))]
    parent, state = parents[-1]
    files = advance_files(parent, stamp.epoch, stamp.hash, 0, 3)
    if parent.epoch - stamp.epoch <= 8 or parent.snapshot_epoch == 0:
        assert files is not None
    if files is not None:
        assert applied(files, storage, dict(old_state), range(4)) == state


@given(histories)
def test_a_store_of_another_timeline_or_of_the_future_is_not_advanced(history):
    _, parents = play(history)
    parent, _ = parents[-1]
    assert advance_files(parent, parent.epoch, "f" * 64, 0, 3) is None
    assert advance_files(parent, parent.epoch - 1, "f" * 64, 0, 3) is None
    assert advance_files(parent, parent.epoch + 1, parent.hash, 0, 3) is None
    assert advance_files(parent, parent.epoch, parent.hash, 0, 3) == ()


def test_the_newest_manifest_is_found_with_its_hash():
    storage = small_checkpoint()
    manifest, digest = last_manifest(storage, read_genesis(storage)[1])
    assert manifest.epoch == len(BATCHES)
    assert digest == manifest_hash(storage.get(manifest_name(4)))


def test_a_fresh_storage_has_neither_genesis_nor_manifest_nor_state():
    assert read_genesis(MemoryStorage()) is None
    assert read_state(MemoryStorage()) == {}
    storage = MemoryStorage()
    open_ledger(storage)
    assert last_manifest(storage, read_genesis(storage)[1]) is None
    assert read_state(storage) == {}


def test_the_state_at_an_older_manifest_can_be_read():
    storage = MemoryStorage()
    checkpoint = open_ledger(storage)
    manifests = [run_batch(checkpoint, storage, batch, MemorySink().publish).manifest for batch in range(4)]
    for batch, manifest in enumerate(manifests, start=1):
        assert read_state(storage, manifest) == state_after(batch)


def test_old_manifests_may_be_gone():
    storage = small_checkpoint()
    for epoch in (1, 2, 3):
        storage.delete(manifest_name(epoch))
    assert open_ledger(storage).epoch == 4


def swap(storage, name, data):
    storage.delete(name)
    storage.put(name, data)


def refused(storage):
    with pytest.raises(MillpondError) as caught:
        open_ledger(storage)
    return caught.value


def test_a_damaged_newest_manifest_is_named_and_the_older_one_is_not_used():
    storage = small_checkpoint()
    swap(storage, manifest_name(4), storage.get(manifest_name(4))[:-1] + b"?")
    error = refused(storage)
    assert error.code == "MP301"
    assert manifest_name(4) in str(error)


def test_a_manifest_under_another_epochs_name_is_refused():
    storage = small_checkpoint()
    storage.put(manifest_name(5), storage.get(manifest_name(4)))
    assert refused(storage).code == "MP413"


def timelines():
    """Two checkpoints that begin with the same genesis and go on with other epochs."""
    storage, other = small_checkpoint(), MemoryStorage()
    swap(other, "genesis", storage.get("genesis"))
    checkpoint = Checkpoint.open(other, open_ledger(storage).genesis.elements)
    for batch in range(4):
        checkpoint.run_epoch(Batch("q", batch), lambda parent: EpochWork((), (), {}), lambda m: None, partitions=1)
    return storage, other


def test_a_manifest_of_another_timeline_is_refused():
    storage, other = timelines()
    swap(storage, manifest_name(4), other.get(manifest_name(4)))
    assert refused(storage).code == "MP413"


@pytest.mark.parametrize("epoch", [3, 4])
def test_a_manifest_that_follows_another_one_is_refused_where_no_head_tells_it(epoch):
    storage, other = timelines()
    swap(storage, manifest_name(epoch), other.get(manifest_name(epoch)))
    # As in a checkpoint whose epochs were committed before heads were noted; and a head tells nothing of the parent.
    for name in storage.list(HEADS) if epoch == 4 else ():
        storage.delete(name)
    error = refused(storage)
    assert error.code == "MP413"
    assert "a parent with hash" in str(error)


def test_a_manifest_of_another_checkpoint_is_refused():
    storage, other = small_checkpoint(), small_checkpoint()
    for epoch in range(1, 5):
        swap(storage, manifest_name(epoch), other.get(manifest_name(epoch)))
    assert refused(storage).code == "MP413"


def test_a_first_manifest_that_does_not_follow_the_genesis_is_refused():
    storage, other = MemoryStorage(), MemoryStorage()
    open_ledger(storage)
    run_batch(open_ledger(other), other, 0, MemorySink().publish)
    storage.put(manifest_name(1), other.get(manifest_name(1)))
    assert refused(storage).code == "MP413"


def test_the_wrong_genesis_hash_is_refused():
    with pytest.raises(EpochError) as caught:
        last_manifest(small_checkpoint(), "f" * 64)
    assert caught.value.code == "MP413"


def test_a_strange_file_among_the_manifests_is_named():
    storage = small_checkpoint()
    storage.put("manifests/0000000004.bak", b"x")
    assert "0000000004.bak" in str(refused(storage))


def test_manifests_without_a_genesis_are_never_adopted_by_a_new_one():
    storage = small_checkpoint()
    storage.delete("genesis")
    assert refused(storage).code == "MP414"
    assert not storage.contains("genesis")


def test_a_missing_state_file_is_named():
    storage = small_checkpoint()
    name = storage.list("deltas")[0]
    storage.delete(name)
    with pytest.raises(StorageError, match=name) as caught:
        read_state(storage)
    assert caught.value.code == "MP304"


@pytest.mark.parametrize(("first", "last", "entries"), [(1, 2, 1), (2, 5, 2), (1, 1, 2), (0, 0, 2)])
def test_a_state_file_that_is_not_as_its_manifest_says_is_refused(first, last, entries):
    storage = MemoryStorage()
    keys = [store_key(0, 1, b"a"), store_key(0, 2, b"b")]
    good = write_changes(storage, FrameKind.DELTA, Changes(keys, [b"1", None]), mark="test")
    assert read_changes(storage, StateFile(good.file, 0, 5, 2)) == (keys, [b"1", None])
    with pytest.raises(StorageError, match=good.file.name) as caught:
        read_changes(storage, StateFile(good.file, first, last, entries))
    assert caught.value.code == "MP316"


def test_a_delta_is_not_read_as_a_snapshot():
    storage = MemoryStorage()
    file = write_changes(storage, FrameKind.DELTA, Changes([store_key(0, 1, b"a")], [b"1"]), mark="test")
    with pytest.raises(StorageError) as caught:
        read_changes(storage, file, FrameKind.SNAPSHOT)
    assert caught.value.code == "MP303"


@pytest.mark.parametrize("name", ["", "../deltas/x", "/etc/passwd", "a/../b", "a\0b", "a//b", ".hidden"])
def test_a_reference_that_leads_out_of_the_checkpoint_is_not_born(name):
    with pytest.raises(StorageError) as caught:
        FileRef(name, 0, "0" * 64)
    assert caught.value.code == "MP305"


def test_restoring_reads_the_snapshot_and_only_the_deltas_after_it():
    changes = {store_key(0, 1, b"x"): b"1"}
    _, parents = play([(changes, False), (changes, False), (changes, True), (changes, False)])
    parent, _ = parents[-1]
    assert parent.snapshot_epoch == 2
    later = [file for delta in parent.deltas if delta.epoch > 2 for file in delta.files]
    assert restore_files(parent, 0, 3) == (*parent.snapshot, *later)
