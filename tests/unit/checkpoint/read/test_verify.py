"""Epochs that are missing are damage, unless they were given up: then a mark says so."""

from __future__ import annotations

import pytest

from millpond.checkpoint.commit import commit
from millpond.checkpoint.forking import fork
from millpond.checkpoint.read.history import History, kept_epochs
from millpond.checkpoint.read.verify import verify
from millpond.checkpoint.records.manifest import manifest_name
from millpond.checkpoint.repairing import repair
from millpond.checkpoint.retention import retired
from millpond.checkpoint.retention.collection import collect_all
from millpond.checkpoint.retention.retention import Keep
from millpond.checkpoint.retention.savepoints import add_savepoint
from millpond.checkpoint.snapshots import snapshots
from millpond.clock import ManualClock
from millpond.errors import MillpondError
from millpond.storage.backends.files import FileStorage
from millpond.storage.backends.memory import MemoryStorage
from millpond.storage.open import open_storage
from tests.unit.checkpoint.keeping import GRACE_MS, Driver

KEEP = Keep(last=2, every=10, grace="0 s")


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)
    monkeypatch.setattr(commit, "DELTAS_KEPT", 1)


def run(storage, count, keep=KEEP):
    driver = Driver(storage, keep, ManualClock())
    for number in range(count):
        driver.clock.advance(GRACE_MS)
        driver.epoch({"a": str(number % 5)})
    return storage


def gaps(findings):
    return [(each.file, list(each.epochs)) for each in findings.problems if each.error.code == "MP457"]


def both(storage):
    found = gaps(verify(storage, everything=True))
    assert gaps(verify(storage)) == found
    return found


def test_epochs_that_were_given_up_are_no_damage():
    storage = run(MemoryStorage(), 60)
    assert len(kept_epochs(storage)[0]) < 40
    assert verify(storage, everything=True).problems == []
    assert verify(storage).problems == []


@pytest.mark.parametrize("large", [16, 32])
def test_large_marks_count_too(monkeypatch, large):
    monkeypatch.setattr(retired, "LARGE", large)
    monkeypatch.setattr(retired, "SIZES", (retired.SMALL, large))
    storage = run(MemoryStorage(), 60)
    assert any(name.startswith(f"retired/{large}-") for name in storage.list("retired"))
    assert verify(storage, everything=True).problems == []


def test_epochs_in_the_middle_that_are_lost_are_told_in_runs():
    storage = run(MemoryStorage(), 9, Keep.all())
    for epoch in (2, 4, 5, 6):
        storage.delete(manifest_name(epoch))
    assert both(storage) == [(manifest_name(2), [2]), (manifest_name(4), [4, 5, 6])]
    assert gaps(verify(storage, (3,))) == [], "who asks for one epoch is told of that one"


def test_the_first_and_the_one_before_the_newest_are_missed_too():
    storage = run(MemoryStorage(), 5, Keep.all())
    for epoch in (1, 4):
        storage.delete(manifest_name(epoch))
    assert both(storage) == [(manifest_name(1), [1]), (manifest_name(4), [4])]


def test_a_lost_epoch_after_others_were_given_up_is_told():
    storage = run(MemoryStorage(), 60)
    epochs, _ = kept_epochs(storage)
    storage.delete(manifest_name(epochs[-2]))
    assert both(storage) == [(manifest_name(epochs[-2]), [epochs[-2]])]


def test_newest_epochs_that_are_lost_are_told_by_what_is_noted_of_the_last_one():
    storage = run(MemoryStorage(), 5)
    for epoch in (4, 5):
        storage.delete(manifest_name(epoch))
    assert both(storage) == [(manifest_name(4), [4, 5])]


def test_newest_epochs_that_are_lost_are_told_if_a_mark_knows_of_them():
    storage = run(MemoryStorage(), 60)
    for name in storage.list("heads"):
        storage.delete(name)
    epochs, _ = kept_epochs(storage)
    until = 8 * len([name for name in storage.list("retired") if name.startswith("retired/8-")])
    assert until > 30
    for epoch in epochs:
        if epoch >= 20:
            storage.delete(manifest_name(epoch))
    newest = kept_epochs(storage)[0][-1]
    assert both(storage) == [(manifest_name(newest + 1), list(range(newest + 1, until)))]


@pytest.mark.parametrize("count", [1, 9, 60])
def test_a_checkpoint_without_its_manifests_is_damaged(tmp_path, count):
    storage = run(FileStorage(tmp_path / "c"), count)
    for file in (tmp_path / "c" / "manifests").iterdir():
        file.unlink()
    (tmp_path / "c" / "manifests").rmdir()
    for findings in (verify(storage), verify(storage, everything=True)):
        assert [(each.file, each.error.code) for each in findings.problems] == [("manifests", "MP457")]
    assert not repair(storage).healthy


def test_a_job_does_not_begin_anew_where_epochs_are_known_to_be_lost(tmp_path):
    storage = run(FileStorage(tmp_path / "c"), 5, Keep.all())
    add_savepoint(storage, "here")
    for epoch in range(1, 6):
        storage.delete(manifest_name(epoch))
    with pytest.raises(MillpondError, match="MP457"):
        run(FileStorage(tmp_path / "c"), 1)


def test_a_new_checkpoint_is_whole():
    storage = MemoryStorage()
    Driver(storage, KEEP, ManualClock())
    assert both(storage) == []


@pytest.mark.parametrize("copy", [False, True])
def test_a_fork_has_no_epochs_before_its_first(tmp_path, copy):
    run(FileStorage(tmp_path / "base"), 5, Keep.all())
    fork(tmp_path / "base", tmp_path / "new", 4, copy=copy)
    new = open_storage(str(tmp_path / "new"))
    assert both(new) == []
    run(new, 3, Keep.all())
    assert both(new) == []
    new.delete(manifest_name(6))
    assert both(new) == [(manifest_name(6), [6])]
    run(open_storage(str(tmp_path / "new")), 40)
    assert kept_epochs(new)[0][0] > 5
    assert [epoch for _, epochs in both(new) for epoch in epochs] == [], "what was lost is given up by now"


def test_going_back_makes_no_gap():
    storage = run(MemoryStorage(), 9, Keep.all())
    assert repair(storage, 6).healthy
    assert both(storage) == []
    run(storage, 2, Keep.all())
    assert both(storage) == []


class CollectedMeanwhile(MemoryStorage):
    """After so many reads, all but the newest epochs are deleted, as a job does that runs meanwhile."""

    left = None

    def happens(self):
        collect_all(self, Keep(last=2, grace="0 s"), ManualClock())

    def get(self, name):
        if self.left is not None:
            self.left -= 1
            if self.left == 0:
                self.left = None
                self.happens()
        return super().get(name)


@pytest.mark.parametrize("reads", range(1, 60, 3))
def test_epochs_that_are_given_up_while_they_are_looked_at_are_no_damage(reads):
    storage = CollectedMeanwhile()
    driver = Driver(storage, Keep.all(), ManualClock())
    for number in range(20):
        driver.epoch({"a": str(number), "b": "x", "c": str(number), "d": "y"})
    storage.left = reads
    assert verify(storage, everything=True).problems == []
    assert storage.left is None, "nothing was deleted meanwhile"
    # What is damaged in epochs that stay is told all the same.
    needed = History(storage).point().files()[-1].file.name
    storage.delete(needed)
    assert [problem.error.code for problem in verify(storage, everything=True).problems] == ["MP304"]


def test_epochs_that_are_lost_while_they_are_looked_at_are_told():
    class LostMeanwhile(CollectedMeanwhile):
        def happens(self):
            for name in self.list("deltas") + self.list("manifests")[:-1]:
                self.delete(name)

    storage = LostMeanwhile()
    driver = Driver(storage, Keep.all(), ManualClock())
    for number in range(4):
        driver.epoch({"a": str(number), "c": "x"})
    storage.left = 2
    found = verify(storage, everything=True).problems
    assert {each.file for each in found} >= set(map(manifest_name, (2, 3)))
