"""Snapshots beside the epochs: a real process merges files, later commits name the result, and nothing waits for it."""

from __future__ import annotations

import io
import os
import pathlib
import signal
import sys

import msgspec
import pytest

from millpond.checkpoint.commit.checkpoint import Checkpoint
from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots import background, compaction, snapshots
from millpond.checkpoint.snapshots.background import Request, serve
from millpond.checkpoint.snapshots.compaction import MERGED, last_merged
from millpond.clock import SystemClock
from millpond.errors import EpochError
from millpond.storage.backends.files import FileStorage
from millpond.storage.backends.memory import MemoryStorage
from tests.children import in_child
from tests.programs.ledger import BATCHES, ELEMENTS, KEY_GROUPS, MemorySink, run_batch, state_after

WAIT_SECONDS = 600


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)


@pytest.fixture
def apart(monkeypatch):
    """However small the state is, it is merged by a process of its own."""
    monkeypatch.setattr(background, "AT_ONCE_BYTES", 0)


def opened(folder):
    return Checkpoint.open(FileStorage(folder), ELEMENTS, KEY_GROUPS)


def run(checkpoint, folder, batches):
    for batch in batches:
        run_batch(checkpoint, FileStorage(folder), batch, MemorySink().publish)


def wait_for(process):
    assert process.wait(WAIT_SECONDS) is not None


def test_a_process_merges_and_a_later_commit_names_the_result(tmp_path, often, apart):
    checkpoint = opened(tmp_path)
    run(checkpoint, tmp_path, range(2))
    wait_for(checkpoint._snapshots._process)
    assert checkpoint.head.snapshot_epoch == 0
    run(checkpoint, tmp_path, [2])
    assert checkpoint.head.snapshot_epoch == 2
    assert read_state(FileStorage(tmp_path)) == state_after(3)


def test_an_epoch_does_not_wait_for_a_process_that_takes_its_time(tmp_path, monkeypatch, often, apart):
    monkeypatch.setattr(background, "OVERDUE", len(BATCHES))
    checkpoint = opened(tmp_path)
    run(checkpoint, tmp_path, range(2))
    process = checkpoint._snapshots._process
    process.send_signal(signal.SIGSTOP)
    run(checkpoint, tmp_path, range(2, len(BATCHES)))
    assert checkpoint.head.snapshot_epoch == 0
    assert checkpoint._snapshots._process is process, "one at a time"
    checkpoint.close()
    assert process.returncode == -signal.SIGKILL
    assert read_state(FileStorage(tmp_path)) == state_after(len(BATCHES))


def test_a_snapshot_that_is_overdue_is_made_by_a_process_that_does_not_stand_back(tmp_path, monkeypatch, apart):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 1)
    monkeypatch.setattr(background, "OVERDUE", 3)
    checkpoint = opened(tmp_path)
    run(checkpoint, tmp_path, [0])
    patient = checkpoint._snapshots._process
    patient.send_signal(signal.SIGSTOP)
    run(checkpoint, tmp_path, [1])
    assert checkpoint._snapshots._process is patient
    run(checkpoint, tmp_path, [2])
    urgent = checkpoint._snapshots._process
    assert patient.returncode == -signal.SIGKILL
    assert urgent is not patient
    wait_for(urgent)
    run(checkpoint, tmp_path, [3])
    assert checkpoint.head.snapshot_epoch == 3
    checkpoint.close()
    assert read_state(FileStorage(tmp_path)) == state_after(4)


@pytest.mark.parametrize("urgent", [False, True])
def test_only_a_process_that_is_not_urgent_stands_back(tmp_path, monkeypatch, urgent):
    checkpoint = opened(tmp_path)
    run(checkpoint, tmp_path, range(2))
    request = Request(FileStorage(tmp_path).url, checkpoint.epoch, checkpoint.head_hash, KEY_GROUPS, urgent)
    usual = os.nice(0), os.sched_getscheduler(0)

    def merge():
        asked = io.BytesIO(msgspec.json.encode(request))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(asked, encoding="utf-8"))
        with pytest.raises(SystemExit) as ended:
            background.main()
        assert ended.value.code is None
        assert (os.nice(0), os.sched_getscheduler(0)) == (usual if urgent else (19, os.SCHED_IDLE))

    assert in_child(merge) == 0
    assert last_merged(FileStorage(tmp_path)).epoch == 2


def test_a_snapshot_that_was_finished_after_the_last_commit_is_named_by_the_next_driver(tmp_path, often, apart):
    checkpoint = opened(tmp_path)
    run(checkpoint, tmp_path, range(2))
    wait_for(checkpoint._snapshots._process)
    checkpoint.close()
    again = opened(tmp_path)
    run(again, tmp_path, [2])
    assert again.head.snapshot_epoch == 2
    again.close()


def test_the_end_of_a_run_waits_if_deltas_grew_far_too_large(tmp_path, monkeypatch, often, apart):
    monkeypatch.setattr(background, "OVERDUE", 1)
    checkpoint = opened(tmp_path)
    run(checkpoint, tmp_path, range(2))
    checkpoint.close()
    assert last_merged(FileStorage(tmp_path)).epoch == 2


def test_a_killed_process_is_followed_by_another(tmp_path, often, apart):
    checkpoint = opened(tmp_path)
    run(checkpoint, tmp_path, range(2))
    first = checkpoint._snapshots._process
    first.kill()
    wait_for(first)
    run(checkpoint, tmp_path, [2])
    second = checkpoint._snapshots._process
    assert second is not first
    wait_for(second)
    run(checkpoint, tmp_path, [3])
    assert checkpoint.head.snapshot_epoch == 3
    assert read_state(FileStorage(tmp_path)) == state_after(4)


def test_a_process_ends_when_its_driver_is_gone(tmp_path, often, apart):
    """The driver is a child that stops the merge, tells its number and dies without a farewell."""
    told = tmp_path / "pid"

    def drive():
        checkpoint = opened(tmp_path / "c")
        run(checkpoint, tmp_path / "c", range(2))
        told.write_text(str(checkpoint._snapshots._process.pid))
        signal.raise_signal(signal.SIGKILL)

    assert in_child(drive) == -signal.SIGKILL
    clock = SystemClock()
    deadline = clock.ticks() + WAIT_SECONDS
    while _alive(int(told.read_text())):
        assert clock.ticks() < deadline
        clock.sleep(0.05)
    again = opened(tmp_path / "c")
    run(again, tmp_path / "c", range(2, 4))
    again.close()
    assert read_state(FileStorage(tmp_path / "c")) == state_after(4)


def _alive(pid):
    try:
        with pathlib.Path(f"/proc/{pid}/stat").open(encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_tries_that_fail_again_and_again_are_told(tmp_path, monkeypatch, often, apart):
    checkpoint = opened(tmp_path)
    run(checkpoint, tmp_path, range(2))
    checkpoint.close()
    delta = checkpoint.head.deltas[0].files[0].file.name
    path = tmp_path / delta
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    snapshots_of = checkpoint._snapshots
    for _ in range(background.FAILURES_MAX - 1):
        snapshots_of.committed(checkpoint.head, checkpoint.head_hash)
        wait_for(snapshots_of._process)
        assert snapshots_of.take() is None
    snapshots_of.committed(checkpoint.head, checkpoint.head_hash)
    wait_for(snapshots_of._process)
    with pytest.raises(EpochError) as caught:
        snapshots_of.take()
    assert caught.value.code == "MP418"
    assert delta in caught.value.found


def test_a_request_for_another_timeline_is_not_served(tmp_path):
    checkpoint = opened(tmp_path)
    run(checkpoint, tmp_path, range(2))
    request = Request(FileStorage(tmp_path).url, checkpoint.epoch, "0" * 64, KEY_GROUPS)
    assert not serve(request)
    assert serve(msgspec.structs.replace(request, hash=checkpoint.head_hash))


@pytest.mark.parametrize("damage", [b"", b"nonsense"])
def test_a_finished_snapshot_that_can_not_be_read_is_as_good_as_none(often, damage):
    storage = MemoryStorage()
    checkpoint = Checkpoint.open(storage, ELEMENTS, KEY_GROUPS)
    for batch in range(2):
        run_batch(checkpoint, storage, batch, MemorySink().publish)
    name = storage.list(MERGED)[-1]
    storage.delete(name)
    storage.put(name, damage)
    assert last_merged(storage) is None
    again = Checkpoint.open(storage, ELEMENTS)
    for batch in (2, 3):
        run_batch(again, storage, batch, MemorySink().publish)
    assert read_state(storage) == state_after(4)


def test_a_snapshot_whose_chunks_were_tidied_away_is_not_named(often):
    storage = MemoryStorage()
    checkpoint = Checkpoint.open(storage, ELEMENTS, KEY_GROUPS)
    for batch in range(2):
        run_batch(checkpoint, storage, batch, MemorySink().publish)
    for name in storage.list("snapshots"):
        storage.delete(name)
    run_batch(checkpoint, storage, 2, MemorySink().publish)
    assert checkpoint.head.snapshot_epoch == 0
    assert read_state(storage) == state_after(3)


def test_the_folder_of_finished_snapshots_is_named_by_epochs(often):
    storage = MemoryStorage()
    checkpoint = Checkpoint.open(storage, ELEMENTS, KEY_GROUPS)
    for batch in range(3):
        run_batch(checkpoint, storage, batch, MemorySink().publish)
    assert storage.list(MERGED) == [compaction._name(2)]
