"""Damage of every file of a checkpoint, one at a time: what is mended is as it was, and what is not is told."""

from __future__ import annotations

import contextlib

import pytest

from millpond.checkpoint.commit import commit
from millpond.checkpoint.read.history import History, kept_epochs
from millpond.checkpoint.read.verify import verify
from millpond.checkpoint.records.manifest import GENESIS_NAME, decode_manifest, manifest_name
from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.repairing import repair
from millpond.checkpoint.retention.collection import collect_all
from millpond.checkpoint.retention.reachable import ASIDE
from millpond.checkpoint.retention.retention import Keep
from millpond.checkpoint.retention.savepoints import add_savepoint
from millpond.checkpoint.snapshots import snapshots
from millpond.clock import ManualClock
from millpond.errors import EpochError, MillpondError
from millpond.storage.backends.memory import MemoryStorage
from millpond.storage.composed.layered import TrialStorage
from tests.unit.checkpoint.keeping import Died, Driver, Watched, after, check_kept, stored

EPOCHS = 12


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)
    monkeypatch.setattr(commit, "DELTAS_KEPT", 1)


def rows(count):
    return [{"c": str(number), "abdefg"[number % 6]: None if number % 5 == 4 else "x"} for number in range(count)]


def made(count=EPOCHS, keep=None):
    storage, models = MemoryStorage(), {0: {}}
    driver = Driver(storage, keep or Keep.all(), ManualClock())
    for row in rows(count):
        models[driver.checkpoint.epoch + 1] = after(models[driver.checkpoint.epoch], row)
        driver.epoch(row)
    return storage, models


def copy_of(storage):
    copy = MemoryStorage()
    copy._files.update(storage._files)
    return copy


def damaged(storage, name, how):
    copy = copy_of(storage)
    if how == "missing":
        del copy._files[name]
    elif how == "flipped":
        copy._files[name] = copy._files[name][:-1] + bytes([copy._files[name][-1] ^ 1])
    else:
        copy._files[name] = copy._files[name][: len(copy._files[name]) // 2]
    return copy


def chunks_of(storage):
    """The chunks of snapshots that manifests name."""
    manifests = [named_by(storage, epoch)[1] for epoch in kept_epochs(storage)[0]]
    return sorted({state.file.name for manifest in manifests for state in manifest.snapshot})


def named_by(storage, epoch):
    manifest = decode_manifest(storage.get(manifest_name(epoch)), manifest_name(epoch))
    return History(storage).point(epoch).files(), manifest


@pytest.mark.parametrize("how", ["missing", "flipped", "cut"])
def test_every_chunk_of_a_snapshot_is_made_again_byte_for_byte(how):
    storage, models = made()
    chunks = chunks_of(storage)
    assert len(chunks) >= 3
    for name in chunks:
        hurt = damaged(storage, name, how)
        done = repair(hurt)
        assert done.problems
        assert done.rebuilt == [name]
        assert done.lost == []
        assert done.healthy
        assert done.whole == list(range(1, EPOCHS + 1))
        assert hurt.get(name) == storage.get(name)
        assert verify(hurt, everything=True).problems == []
        check_kept(hurt, models)


def test_all_chunks_at_once_are_made_again():
    storage, models = made()
    hurt = copy_of(storage)
    for name in chunks_of(storage):
        del hurt._files[name]
    done = repair(hurt)
    assert sorted(done.rebuilt) == chunks_of(storage)
    assert done.healthy
    check_kept(hurt, models)


@pytest.mark.parametrize("how", ["missing", "flipped"])
def test_a_lost_delta_is_told_with_the_epochs_that_are_whole(how):
    storage, models = made()
    for name in storage.list("deltas"):
        hurt = damaged(storage, name, how)
        done = repair(hurt)
        needs = [e for e in range(1, EPOCHS + 1) if name in {file.file.name for file in named_by(storage, e)[0]}]
        assert done.lost == [name]
        assert done.whole == [e for e in range(1, EPOCHS + 1) if e not in needs]
        assert done.healthy is (EPOCHS not in needs)
        check_kept(hurt, models, done.whole)
        if not done.healthy and done.whole:
            back = repair(hurt, done.whole[-1])
            assert back.healthy
            assert back.went_back == list(range(done.whole[-1] + 1, EPOCHS + 1))
            assert read_state(hurt) == stored(models[done.whole[-1]])
            Driver(hurt, Keep.all(), ManualClock())


@pytest.mark.parametrize("how", ["flipped", "cut"])
def test_a_damaged_newest_manifest_is_set_aside_and_the_job_goes_on(how):
    storage, models = made()
    hurt = damaged(storage, manifest_name(EPOCHS), how)
    with pytest.raises(MillpondError, match="MP301"):
        Driver(hurt, Keep.all(), ManualClock())
    assert not repair(hurt).healthy
    done = repair(hurt, EPOCHS - 1)
    assert done.healthy
    assert done.went_back == [EPOCHS]
    assert any(name.endswith("-" + name[-16:]) and f"{EPOCHS:010}" in name for name in hurt.list(ASIDE))
    driver = Driver(hurt, Keep.all(), ManualClock())
    assert driver.checkpoint.epoch == EPOCHS - 1
    models[EPOCHS] = after(models[EPOCHS - 1], {"z": "new"})
    driver.epoch({"z": "new"})
    check_kept(hurt, models)


def test_going_back_loses_savepoints_that_it_tells_and_keeps_what_was_set_aside():
    storage, _ = made()
    add_savepoint(storage, "late", 11)
    before = dict(storage._files)
    done = repair(storage, 8)
    assert done.savepoints_lost == ["late"]
    assert done.went_back == [9, 10, 11, 12]
    aside = {storage.get(name) for name in storage.list(ASIDE)}
    assert aside == {before[manifest_name(epoch)] for epoch in (9, 10, 11, 12)}
    collect_all(storage, Keep(last=2, grace="0 s"), ManualClock())
    for name in [name for name in before if name.startswith("deltas/")]:
        needed = any(name in str(data) for data in aside)
        assert storage.contains(name) or not needed


def test_a_whole_checkpoint_is_left_alone():
    storage, models = made()
    before = dict(storage._files)
    done = repair(storage)
    assert (done.healthy, done.rebuilt, done.lost, done.problems) == (True, [], [], [])
    assert repair(storage, EPOCHS).went_back == []
    assert storage._files == before
    check_kept(storage, models)


def test_an_epoch_that_is_not_whole_or_has_deleted_followers_can_not_be_gone_back_to():
    storage, _ = made()
    name = named_by(storage, EPOCHS)[0][-1].file.name
    hurt = damaged(storage, name, "missing")
    with pytest.raises(MillpondError, match="MP249"):
        repair(hurt, EPOCHS)
    with pytest.raises(MillpondError, match="MP249"):
        repair(storage, 99)
    storage, _ = made(40, Keep(last=2, every=10, grace="0 s"))
    assert 10 in kept_epochs(storage)[0]
    with pytest.raises(MillpondError, match="MP249") as caught:
        repair(storage, 10)
    assert "fork" in str(caught.value)


def test_a_trial_tells_the_same_and_changes_nothing():
    storage, _ = made()
    hurt = damaged(storage, chunks_of(storage)[0], "flipped")
    before = dict(hurt._files)
    trial = repair(TrialStorage(hurt), 9)
    assert hurt._files == before
    real = repair(hurt, 9)
    assert (trial.rebuilt, trial.went_back, trial.whole) == (real.rebuilt, real.went_back, real.whole)
    assert hurt._files != before


def test_a_death_at_any_point_of_a_repair_leaves_one_that_can_be_repaired():
    storage, models = made()
    name = chunks_of(storage)[-1]
    death = 0
    while death >= 0:
        hurt = damaged(storage, name, "flipped")
        left = [death]

        def before(call, name, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise Died

        death += 1
        with contextlib.suppress(Died):
            repair(Watched(hurt, before), 9)
            death = -1
        done = repair(hurt, 9)
        assert done.healthy
        assert kept_epochs(hurt)[0][-1] == 9
        assert hurt.get(name) == storage.get(name)
        check_kept(hurt, models)


def test_a_lost_genesis_can_not_be_mended():
    storage, _ = made()
    del storage._files[GENESIS_NAME]
    with pytest.raises(EpochError, match="MP414"):
        repair(storage)
