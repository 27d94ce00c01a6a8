"""An error of the disk at the nth call, for every n (R4)."""

from __future__ import annotations

import errno
import os

import pytest

from millpond.checkpoint.recovery import read_genesis, read_state
from millpond.checkpoint.snapshots import snapshots
from millpond.errors import StorageError
from millpond.storage.backends.files import FileStorage
from millpond.storage.door import Door
from tests.programs.ledger import MemorySink, open_ledger, run_batch, state_after

pytestmark = pytest.mark.slow

PRIMITIVES = ("create", "write", "sync", "close", "link", "unlink", "mkdir", "sync_folder", "read", "listdir", "entry")
SYNCS = ("sync", "sync_folder")
BATCH_COUNT = 2


class FaultyDoor(Door):
    """Fails at the nth call (of some kinds), once; counts all calls of these kinds."""

    def __init__(self, nth, number, kinds=PRIMITIVES):
        self.nth = nth
        self.number = number
        self.kinds = kinds
        self.count = 0
        self.after_failure = []
        self.failed = None

    def passes(self, kind):
        if self.failed is not None:
            self.after_failure.append(kind)
        if kind not in self.kinds:
            return
        self.count += 1
        if self.count == self.nth:
            self.failed = kind
            raise OSError(self.number, os.strerror(self.number))


def _guarded(kind):
    real = getattr(Door, kind)

    def call(self, *args):
        self.passes(kind)
        return real(self, *args)

    return call


for _kind in PRIMITIVES:
    setattr(FaultyDoor, _kind, _guarded(_kind))


class TearingDoor(FaultyDoor):
    """The nth write takes half of the bytes, and the one after it fails."""

    def write(self, descriptor, data):
        self.count += 1
        if self.count == self.nth:
            return Door.write(self, descriptor, data[: max(1, len(data) // 2)])
        if self.count == self.nth + 1:
            self.failed = "write"
            raise OSError(self.number, os.strerror(self.number))
        return Door.write(self, descriptor, data)

    def passes(self, kind):
        """Only writes fail."""


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 1)


def run_all(storage, sink, checkpoint=None):
    checkpoint = checkpoint or open_ledger(storage)
    for batch in range(max(checkpoint.epoch - 1, 0), BATCH_COUNT):
        run_batch(checkpoint, storage, batch, sink.publish)


def check_one(folder, door):
    """Run with the bad door; whatever happens, what is committed stays, and a new start comes to the right end."""
    sink = MemorySink()
    error = None
    try:
        run_all(FileStorage(folder, door), sink)
    except StorageError as caught:
        error = caught
    good = FileStorage(folder)
    epochs = len(good.list("manifests"))
    assert read_state(good) == state_after(epochs)
    assert set(sink.published) <= set(range(1, epochs + 1))
    assert len(sink.published) >= epochs - 1
    if read_genesis(good) is None:
        assert epochs == 0
    run_all(good, sink)
    assert read_state(good) == state_after(BATCH_COUNT)
    assert sorted(sink.published) == list(range(1, BATCH_COUNT + 1))
    return error


def count_calls(folder, kinds=PRIMITIVES):
    door = FaultyDoor(0, errno.EIO, kinds)
    run_all(FileStorage(folder, door), MemorySink())
    return door.count


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EACCES], ids=errno.errorcode.get)
def test_an_error_at_any_call_is_coded_and_loses_nothing(tmp_path, number):
    calls = count_calls(tmp_path / "counted")
    assert calls > 60
    failures = 0
    for nth in range(1, calls + 1):
        door = FaultyDoor(nth, number)
        error = check_one(tmp_path / f"at-{nth}", door)
        assert door.failed is not None, nth
        if error is not None:
            failures += 1
            assert error.code in {"MP307", "MP308", "MP309"}, (nth, error)
            assert (error.code == "MP307") == (number == errno.ENOSPC), (nth, error)
    assert failures > calls // 2


def test_a_failed_sync_stops_the_writer_and_is_never_asked_for_again(tmp_path):
    calls = count_calls(tmp_path / "counted", SYNCS)
    for nth in range(1, calls + 1):
        door = FaultyDoor(nth, errno.EIO, SYNCS)
        error = check_one(tmp_path / f"at-{nth}", door)
        assert error is not None
        assert error.code == "MP308"
        assert not set(SYNCS) & set(door.after_failure), nth


def test_a_short_write_before_a_full_disk_is_never_taken_for_a_file(tmp_path):
    door = TearingDoor(-1, errno.ENOSPC)
    run_all(FileStorage(tmp_path / "counted", door), MemorySink())
    assert door.count > 5
    for nth in range(1, door.count + 1):
        error = check_one(tmp_path / f"at-{nth}", TearingDoor(nth, errno.ENOSPC))
        assert error is not None
        assert error.code == "MP307"


def test_the_same_driver_goes_on_when_there_is_room_again(tmp_path):
    calls = count_calls(tmp_path / "counted", ("create", "write", "link"))
    for nth in range(2, calls + 1):
        door = FaultyDoor(nth, errno.ENOSPC, ("create", "write", "link"))
        storage = FileStorage(tmp_path / f"at-{nth}", door)
        sink = MemorySink()
        try:
            checkpoint = open_ledger(storage)
        except StorageError:
            continue
        codes = []
        for batch in range(BATCH_COUNT):
            try:
                run_batch(checkpoint, storage, batch, sink.publish)
            except StorageError as error:
                codes.append(error.code)
                run_batch(checkpoint, storage, batch, sink.publish)
        assert codes == ["MP307"]
        assert read_state(storage) == state_after(BATCH_COUNT)
        assert sorted(sink.published) == [1, 2]
