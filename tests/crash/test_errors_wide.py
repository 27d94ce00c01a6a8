"""Any error of the disk at any call, one or two, on every storage in plain files: coded, and nothing lost (R4)."""

from __future__ import annotations

import errno
import os

import pytest

from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots import snapshots
from millpond.clock import ManualClock
from millpond.errors import StorageError
from millpond.storage.backends.files import FileStorage
from millpond.storage.backends.log.log import LogStorage
from millpond.storage.backends.perkey import PerKeyStorage
from millpond.storage.door import Door
from tests.programs.ledger import MemorySink, open_ledger, run_batch, state_after

pytestmark = pytest.mark.slow

BATCH_COUNT = 2
ERRORS = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EMFILE, errno.EINTR, errno.EROFS)
CODES = {"MP307", "MP308", "MP309"}
SYNCS = {"sync", "sync_data", "sync_folder"}
LETS_GO = {"close", "unlock"}
"""Calls that give something back: a failure of these is told by others, and must not leak what they hold."""

BACKENDS = {
    "files": FileStorage,
    "perkey": PerKeyStorage,
    "log": lambda root, door=None: LogStorage(root, door, ManualClock(), file_bytes_max=1200, index_records_min=4),
}


class FailingDoor(Door):
    """Fails at some calls, by their numbers; counts all calls."""

    def __init__(self, number=0, at=()):
        self.number, self.at = number, frozenset(at)
        self.count = 0
        self.failed = []
        self.after_sync = []

    def passes(self, call):
        self.count += 1
        if self.failed and self.failed[0] in SYNCS and call in SYNCS:
            self.after_sync.append(call)
        if self.count in self.at:
            self.failed.append(call)
            raise OSError(self.number, os.strerror(self.number))


def _failing(call):
    real = getattr(Door, call)

    def method(self, *args, **options):
        self.passes(call)
        return real(self, *args, **options)

    return method


for _call, _value in vars(Door).items():
    if callable(_value) and not _call.startswith("_") and _call not in LETS_GO:
        setattr(FailingDoor, _call, _failing(_call))


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 1)


def run_all(storage, sink):
    checkpoint = open_ledger(storage)
    for batch in range(max(checkpoint.epoch - 1, 0), BATCH_COUNT):
        run_batch(checkpoint, storage, batch, sink.publish)


def check(backend, folder, number, at):
    """Run with faults at some calls, look at what is left, go on without: all as if nothing had been."""
    door, sink, error = FailingDoor(number, at), MemorySink(), None
    try:
        run_all(BACKENDS[backend](folder, door), sink)
    except StorageError as caught:
        error = caught
    told = (backend, errno.errorcode[number], sorted(at), door.failed)
    assert error is None or error.code in CODES, (told, str(error))
    assert error is None or error.code == "MP307" or number not in {errno.ENOSPC, errno.EDQUOT}, told
    if len(at) == 1 and error is not None and error.code == "MP308":
        assert not door.after_sync, told
    good = BACKENDS[backend](folder)
    epochs = len(good.list("manifests"))
    assert read_state(good) == state_after(epochs), told
    assert set(sink.published) <= set(range(1, epochs + 1)), told
    run_all(good, sink)
    assert read_state(BACKENDS[backend](folder)) == state_after(BATCH_COUNT), told
    assert sorted(sink.published) == list(range(1, BATCH_COUNT + 1)), told
    return error is not None


def count_calls(backend, folder):
    door = FailingDoor()
    run_all(BACKENDS[backend](folder, door), MemorySink())
    return door.count


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_error_at_some_call_is_coded_and_loses_nothing(tmp_path, backend):
    calls = count_calls(backend, tmp_path / "counted")
    assert calls > 60
    for at in range(1, calls + 1, 13):
        check(backend, tmp_path / str(at), ERRORS[at % len(ERRORS)], {at})


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_error_at_any_call_is_coded_and_loses_nothing(tmp_path, backend):
    calls = count_calls(backend, tmp_path / "counted")
    numbers = (ERRORS[at % len(ERRORS)] for at in range(calls))
    failures = sum(check(backend, tmp_path / str(at), number, {at + 1}) for at, number in enumerate(numbers))
    assert failures > calls // 3


@pytest.mark.campaign
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", ERRORS, ids=errno.errorcode.get)
def test_any_error_at_any_call_is_coded_and_loses_nothing(tmp_path, backend, number):
    for at in range(1, count_calls(backend, tmp_path / "counted") + 1):
        check(backend, tmp_path / str(at), number, {at})


@pytest.mark.campaign
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("apart", [1, 2, 3, 7, 20, 50])
def test_two_errors_are_coded_and_lose_nothing(tmp_path, backend, apart):
    calls = count_calls(backend, tmp_path / "counted")
    for at in range(1, calls + 1):
        check(backend, tmp_path / str(at), ERRORS[at % len(ERRORS)], {at, at + apart})
