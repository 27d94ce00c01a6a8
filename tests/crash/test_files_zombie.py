"""A driver that was taken for dead wakes up at some point of its commit, after none, one or two newer commits (R9)."""

from __future__ import annotations

import pytest

from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots import snapshots
from millpond.checkpoint.snapshots.compaction import compact
from millpond.errors import EpochError
from millpond.storage.backends.files import FileStorage
from millpond.storage.door import Door
from tests.programs.ledger import KEY_GROUPS, MemorySink, open_ledger, run_batch, state_after

STALLS = ("create", "write", "sync", "close", "link", "entry", "sync_folder")
LATE_STALLS = ("unlink",)
"""A call before which the commit is done: whoever works meanwhile finds it."""


class StallingDoor(Door):
    """Stalls before one call of the commit; while it does, somebody else works."""

    def __init__(self, stall, meanwhile):
        self.stall = stall
        self.meanwhile = meanwhile
        self.armed = False

    def passes(self, call):
        if self.armed and call == self.stall:
            self.armed = False
            self.meanwhile()


def _stalling(call):
    real = getattr(Door, call)

    def method(self, *args):
        self.passes(call)
        return real(self, *args)

    return method


for _call in (*STALLS, *LATE_STALLS):
    setattr(StallingDoor, _call, _stalling(_call))


def files_of(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".staging" not in path.parts
    }


@pytest.mark.parametrize("newer_commits", [0, 1, 2])
@pytest.mark.parametrize("stall", STALLS)
def test_a_late_commit_never_changes_what_was_committed(tmp_path, stall, newer_commits):
    folder = tmp_path / "checkpoint"
    sink = MemorySink()
    after_newer = {}

    def meanwhile():
        storage = FileStorage(folder)
        newer = open_ledger(storage)
        for batch in range(newer_commits):
            run_batch(newer, storage, batch, sink.publish)
        after_newer.update(files_of(folder))

    door = StallingDoor(stall, meanwhile)

    class ArmingStorage(FileStorage):
        def put(self, name, data):
            door.armed = name == "manifests/0000000001"
            return super().put(name, data)

    storage = ArmingStorage(folder, door)
    zombie = open_ledger(storage)
    zombie_sink = MemorySink()
    if newer_commits == 0:
        run_batch(zombie, storage, 0, zombie_sink.publish)
        assert list(zombie_sink.published) == [1]
    else:
        with pytest.raises(EpochError) as caught:
            run_batch(zombie, storage, 0, zombie_sink.publish)
        assert caught.value.code == "MP408"
        assert zombie_sink.published == {}
        assert files_of(folder) == after_newer
    assert read_state(FileStorage(folder)) == state_after(max(newer_commits, 1))


@pytest.mark.parametrize("newer_commits", [1, 2])
@pytest.mark.parametrize("stall", LATE_STALLS)
def test_a_commit_that_stalls_when_its_name_is_there_is_done_and_built_upon(tmp_path, stall, newer_commits):
    folder, sink, after_newer = tmp_path / "checkpoint", MemorySink(), {}

    def meanwhile():
        storage = FileStorage(folder)
        newer = open_ledger(storage)
        for batch in range(newer_commits):
            run_batch(newer, storage, batch, sink.publish)
        after_newer.update(files_of(folder))

    door = StallingDoor(stall, meanwhile)

    class ArmingStorage(FileStorage):
        def put(self, name, data):
            door.armed = name == "manifests/0000000001"
            return super().put(name, data)

    storage = ArmingStorage(folder, door)
    zombie = open_ledger(storage)
    run_batch(zombie, storage, 0, sink.publish)
    assert files_of(folder) == after_newer
    if newer_commits == 2:
        with pytest.raises(EpochError) as caught:
            run_batch(zombie, storage, 1, sink.publish)
        assert caught.value.code == "MP408"
    assert sorted(sink.published) == list(range(1, newer_commits + 1))
    assert read_state(FileStorage(folder)) == state_after(newer_commits)


@pytest.mark.parametrize("stall", ["create", "write", "link"])
def test_a_zombie_that_merges_a_snapshot_late_changes_nothing_that_is_read(tmp_path, monkeypatch, stall):
    """Its chunks are named by their content, and what waits for a manifest is named only if it is newer and fits."""
    folder = tmp_path / "checkpoint"
    storage = FileStorage(folder)
    old = open_ledger(storage)
    run_batch(old, storage, 0, MemorySink().publish)
    manifest, digest = old.head, old.head_hash

    def meanwhile():
        monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)
        newer = open_ledger(FileStorage(folder))
        for batch in (1, 2, 3):
            run_batch(newer, FileStorage(folder), batch, MemorySink().publish)

    door = StallingDoor(stall, meanwhile)
    door.armed = True
    compact(FileStorage(folder, door), manifest, digest, KEY_GROUPS)
    assert read_state(FileStorage(folder)) == state_after(4)
    again = open_ledger(FileStorage(folder))
    assert again.head.snapshot_epoch in {2, 3}
    run_batch(again, FileStorage(folder), 3, MemorySink().publish)
    assert read_state(FileStorage(folder)) == state_after(4)


def test_a_zombie_that_won_before_it_was_taken_for_dead_is_published_by_its_successor(tmp_path):
    storage = FileStorage(tmp_path)
    successor_sink = MemorySink()

    def stalled_publish(manifest):
        successor = open_ledger(storage)
        run_batch(successor, storage, 0, successor_sink.publish)
        run_batch(successor, storage, 1, successor_sink.publish)

    zombie = open_ledger(storage)
    run_batch(zombie, storage, 0, stalled_publish)
    assert sorted(successor_sink.published) == [1, 2]
    with pytest.raises(EpochError) as caught:
        run_batch(zombie, storage, 1, successor_sink.publish)
    assert caught.value.code == "MP408"
    assert read_state(storage) == state_after(2)
