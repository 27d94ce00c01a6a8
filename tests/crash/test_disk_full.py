"""A disk that is really full: in an epoch, in a merge of snapshots, below a local store; then it has room again."""

from __future__ import annotations

import random
import resource
import signal

import pytest

from millpond.checkpoint.commit.checkpoint import Changed, EpochWork
from millpond.checkpoint.records.offers import Batch
from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots import background, snapshots
from millpond.checkpoint.snapshots.compaction import last_merged
from millpond.engine.simulated import Simulated
from millpond.errors import EpochError, MillpondError, StateError, StorageError
from millpond.state.changes import Changes
from millpond.state.local.localstore import LocalStore
from millpond.storage.backends.files import FileStorage
from millpond.storage.backends.log.log import LogStorage
from millpond.storage.backends.perkey import PerKeyStorage
from tests.children import in_child
from tests.crash.small_disk import MIB, fill, small_disk
from tests.programs.keyed import Store, committed_state, oracle, random_rows
from tests.programs.ledger import FEEDS, KEY_GROUPS, QUERY, key_of, open_ledger
from tests.sizes import compile_once

BACKENDS = {"files": FileStorage, "log": LogStorage, "perkey": PerKeyStorage}
VALUE_BYTES = 20_000


class Filling:
    """A job whose every epoch writes one value that can't be made smaller, and what its state must be."""

    def __init__(self, storage):
        self.storage = storage
        self.states = [{}]
        self.published = set()

    def epoch(self, checkpoint, batch):
        key, value = key_of(b"%c" % (97 + batch % KEY_GROUPS)), random.Random(batch).randbytes(VALUE_BYTES)
        work = EpochWork((Changed(Changes([key], [value])),), (), {})
        if len(self.states) == batch + 1:
            self.states.append({**self.states[-1], key: value})
        checkpoint.run_epoch(
            Batch(QUERY, batch, FEEDS),
            lambda _: work,
            lambda manifest: self.published.add(manifest.epoch),
            partitions=1,
        )

    def until_full(self, checkpoint):
        """Run epochs until one fails; its number and its code."""
        for batch in range(checkpoint.epoch, 400):
            try:
                self.epoch(checkpoint, batch)
            except MillpondError as error:
                return batch, error.code
        raise AssertionError("the disk never was full")

    def check(self, storage=None):
        """What is there is the state of a whole number of epochs; what was published is among them."""
        storage = storage or self.storage
        epochs = len(storage.list("manifests"))
        assert read_state(storage) == self.states[epochs]
        assert self.published <= set(range(1, epochs + 1))
        return epochs


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("size", [MIB, pytest.param(8 * MIB, marks=pytest.mark.slow)], ids=["1 MiB", "8 MiB"])
def test_an_epoch_on_a_full_disk_fails_by_its_code_and_goes_on_when_there_is_room(tmp_path, backend, size):
    with small_disk(tmp_path / "disk", size) as disk:
        ballast = fill(disk, left_bytes=size // 2)
        job = Filling(BACKENDS[backend](disk / "checkpoint"))
        checkpoint = open_ledger(job.storage)
        failed, code = job.until_full(checkpoint)
        assert code == "MP307"
        assert failed > 3
        assert job.check() in {failed, failed + 1}
        with pytest.raises(StorageError) as caught:
            job.epoch(checkpoint, failed)
        assert caught.value.code == "MP307"
        ballast.unlink()
        job.epoch(checkpoint, failed)
        assert job.check() == failed + 1
        checkpoint.close()
        again = open_ledger(BACKENDS[backend](disk / "checkpoint"))
        job.epoch(again, failed + 1)
        again.close()
        assert job.check() == failed + 2
        assert job.published == set(range(1, failed + 3))


def room_for_epochs_only(job, disk, checkpoint):
    """Fill the disk so that another epoch fits, and a snapshot of all before it does not."""
    for batch in range(6):
        job.epoch(checkpoint, batch)
    return fill(disk, left_bytes=60_000)


def test_a_snapshot_that_does_not_fit_loses_nothing_and_is_made_when_there_is_room(tmp_path, monkeypatch):
    with small_disk(tmp_path / "disk", MIB) as disk:
        job = Filling(FileStorage(disk / "checkpoint"))
        checkpoint = open_ledger(job.storage)
        ballast = room_for_epochs_only(job, disk, checkpoint)
        monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 4)
        with pytest.raises(StorageError) as caught:
            job.epoch(checkpoint, 6)
        assert caught.value.code == "MP307"
        assert job.check() == 7, "the epoch itself is committed: its snapshot is not part of it"
        assert last_merged(job.storage) is None
        ballast.unlink()
        for batch in range(6, 10):
            job.epoch(checkpoint, batch)
        assert job.check() == 10
        assert checkpoint.head.snapshot_epoch >= 7
        checkpoint.close()
        assert job.published == set(range(1, 11))


@pytest.mark.slow
def test_a_background_merge_on_a_full_disk_is_told_after_some_tries_and_epochs_go_on_meanwhile(tmp_path, monkeypatch):
    with small_disk(tmp_path / "disk", MIB) as disk:
        job = Filling(FileStorage(disk / "checkpoint"))
        checkpoint = open_ledger(job.storage)
        ballast = room_for_epochs_only(job, disk, checkpoint)
        monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 4)
        monkeypatch.setattr(background, "AT_ONCE_BYTES", 0)
        made = checkpoint._snapshots
        for _ in range(background.FAILURES_MAX - 1):
            made.committed(checkpoint.head, checkpoint.head_hash)
            assert made._process.wait(600) == 1
            assert made.take() is None
        job.epoch(checkpoint, 6)
        assert made._process.wait(600) == 1
        with pytest.raises(EpochError) as caught:
            job.epoch(checkpoint, 7)
        assert caught.value.code == "MP418"
        assert "MP307" in caught.value.found
        assert job.check() == 7
        checkpoint.close()
        ballast.unlink()
        again = open_ledger(job.storage)
        for batch in range(7, 10):
            job.epoch(again, batch)
            if again._snapshots._process is not None:
                assert again._snapshots._process.wait(600) == 0
        again.close()
        assert job.check() == 10
        assert again.head.snapshot_epoch >= 7


def test_a_local_store_on_a_full_disk_fails_by_its_code_and_goes_on_when_there_is_room(tmp_path):
    rows = random_rows(Store, 9, 60)
    wanted = oracle(Store, rows)
    compiled = compile_once(Store)
    with small_disk(tmp_path / "disk", 8 * MIB) as disk:
        Simulated(compiled, disk, 2).epoch(rows[:20])
        ballast = fill(disk)
        codes = set()
        for _ in range(3):
            with pytest.raises((StorageError, StateError)) as caught:
                Simulated(compiled, disk, 2).epoch(rows[20:40])
            codes.add(caught.value.code)
        assert codes <= {"MP307", "MP220", "MP221"}
        ballast.unlink()
        again = Simulated(compiled, disk, 2)
        while again.fed < len(rows):
            again.epoch(rows[again.fed : again.fed + 20])
        assert committed_state(disk / "checkpoint") == wanted.state
        LocalStore.close_below(disk)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_limit_on_the_size_of_files_is_a_coded_error_and_loses_nothing(tmp_path, backend):
    """For those who may not mount a disk: the system itself refuses to let files grow."""

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (VALUE_BYTES // 2, VALUE_BYTES // 2))
        job = Filling(BACKENDS[backend](tmp_path / "checkpoint"))
        job.states.append({})
        with pytest.raises(StorageError) as caught:
            job.epoch(open_ledger(job.storage), 1)
        assert caught.value.code == "MP309"

    job = Filling(BACKENDS[backend](tmp_path / "checkpoint"))
    job.epoch(open_ledger(job.storage), 0)
    if hasattr(job.storage, "close"):
        job.storage.close()
    assert in_child(limited) == 0
    job.storage = BACKENDS[backend](tmp_path / "checkpoint")
    assert job.check() == 1
    job.epoch(open_ledger(job.storage), 1)
    assert job.check() == 2
