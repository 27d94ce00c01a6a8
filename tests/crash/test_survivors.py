"""Claims that no test made until a fault made by hand survived (`tests/mutants`)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.checkpoint.commit.checkpoint import Checkpoint, EpochWork
from millpond.checkpoint.commit.commit import DELTAS_KEPT
from millpond.checkpoint.records.deltas import write_changes
from millpond.checkpoint.records.manifest import StateFile
from millpond.checkpoint.records.offers import Batch
from millpond.checkpoint.recovery import read_changes
from millpond.checkpoint.snapshots import snapshots
from millpond.errors import StorageError
from millpond.state.changes import Changes
from millpond.state.local.localstore import KEY_BYTES_MAX, LocalStore
from millpond.state.local.storekey import store_key
from millpond.state.local.storeversion import Stamp, StoreVersion
from millpond.storage.backends.memory import MemoryStorage
from millpond.storage.frame import FrameKind


@pytest.mark.parametrize("every", [1, 3, 5, DELTAS_KEPT, DELTAS_KEPT + 3])
def test_the_last_deltas_stay_listed_whatever_the_age_of_the_snapshot(monkeypatch, every):
    """So many, that a store a little behind catches up; more only as long as the snapshot is older."""
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", every)
    checkpoint = Checkpoint.open(MemoryStorage(), (), key_groups=1)
    for batch in range(3 * DELTAS_KEPT):
        work = EpochWork((), (), {})
        checkpoint.run_epoch(Batch("q", batch), lambda _, work=work: work, lambda _: None, partitions=1)
        head = checkpoint.head
        wanted = max(min(DELTAS_KEPT, head.epoch), head.epoch - head.snapshot_epoch)
        assert [delta.epoch for delta in head.deltas] == list(range(head.epoch - wanted + 1, head.epoch + 1))


@pytest.mark.parametrize("entries", [0, 1, 3, 100])
def test_a_state_file_with_fewer_or_more_entries_than_its_manifest_says_is_refused(entries):
    storage = MemoryStorage()
    good = write_changes(
        storage, FrameKind.DELTA, Changes([store_key(0, 1, b"a"), store_key(0, 2, b"b")], [b"1", None]), mark="test"
    )
    with pytest.raises(StorageError) as caught:
        read_changes(storage, StateFile(good.file, good.first_group, good.last_group, entries))
    assert caught.value.code == "MP316"


few_keys = st.sampled_from([store_key(0, 1, b"u" * size) for size in (0, 1, KEY_BYTES_MAX - 3, KEY_BYTES_MAX, 600)])


@given(st.lists(st.dictionaries(few_keys, st.binary(max_size=2) | st.none(), min_size=1), min_size=1, max_size=5))
def test_what_a_delta_deletes_is_gone_from_the_store(tmp_path_factory, deltas):
    """The same few keys over and over: what is put by one delta is deleted by the next."""
    store = LocalStore(tmp_path_factory.mktemp("local") / "store")
    uuid, model = "0" * 36, {}
    store.rebuild(Stamp(uuid, 0, "0"), ())
    for epoch, delta in enumerate(deltas):
        changes = Changes.of(delta)
        assert store.advance(
            StoreVersion(Stamp(uuid, epoch, str(epoch))), Stamp(uuid, epoch + 1, str(epoch + 1)), [changes]
        )
        model = {key: value for key, value in {**model, **delta}.items() if value is not None}
        with store.view() as view:
            assert list(view.scan(b"")) == sorted(model.items())
    store.close()
