"""A driver that was taken for dead wakes up at some point of its commit, after none, one or two newer commits (R9)."""

from __future__ import annotations

import pytest

from millpond.epochs.recovery import read_state
from millpond.errors import EpochError
from millpond.storage.door import Door
from millpond.storage.files import FileStorage
from tests.crash.ledger import MemorySink, open_ledger, run_batch, state_after

STALLS = ("create", "write", "sync", "close", "link")


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


for _call in STALLS:
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
