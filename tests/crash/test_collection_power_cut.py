"""The machine dies while epochs are deleted: no manifest is there again whose files are gone, nor is one lost."""

from __future__ import annotations

import pytest

from millpond.checkpoint.commit import commit
from millpond.checkpoint.read.history import kept_epochs
from millpond.checkpoint.retention import collection
from millpond.checkpoint.retention.retention import Keep
from millpond.checkpoint.snapshots import snapshots
from millpond.clock import ManualClock
from millpond.errors import MillpondError
from millpond.storage.backends.files import FileStorage
from tests.crash.model_disk import ModelDoor
from tests.unit.checkpoint.keeping import Driver, after, check_kept

ROOT = "/data/checkpoint"
KEEP = Keep(last=2, grace="0 s")
EPOCHS = 22
CYCLE = 14
"""Deltas come again after so many epochs, when they were deleted."""


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)
    monkeypatch.setattr(commit, "DELTAS_KEPT", 1)
    # What was deleted since the last sync may be there or not, in every combination.
    monkeypatch.setattr(collection, "DELETES_MAX", 2)


def row_of(epoch):
    # One word in a part that goes inline and one in a part that goes by a file, so that each epoch syncs all folders.
    return {word: str(epoch % CYCLE) for word in "abcd"}


def run(door, models, epochs):
    """Run epochs; how many calls there had been when each one was known to be committed."""
    clock = ManualClock()
    driver = Driver(FileStorage(ROOT, door), KEEP, clock)
    learnt = {}
    for _ in range(epochs):
        clock.advance(1000)
        epoch = driver.checkpoint.epoch + 1
        models[epoch] = after(models[epoch - 1], row_of(epoch))
        driver.publish = lambda manifest: learnt.setdefault(manifest.epoch, len(door.log))
        driver.epoch(row_of(epoch))
    assert epochs == 1 or driver.checkpoint.collected.files > 3
    return learnt


def violation(tree, models, least):
    storage = FileStorage(ROOT, ModelDoor(tree))
    try:
        there, _ = kept_epochs(storage)
        if there[-1] < least or not set(KEEP.kept(range(1, there[-1] + 1), ())) <= set(there):
            return f"epochs {there} are left, and {least} was published"
        check_kept(storage, models)
        door = ModelDoor(tree)
        own = dict(models)
        run(door, own, 1)
        check_kept(FileStorage(ROOT, door), own)
    except MillpondError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    "every", [pytest.param(23, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.campaign)]
)
def test_after_a_power_cut_while_epochs_are_deleted_every_manifest_that_is_there_is_whole(every):
    door, models = ModelDoor(), {0: {}}
    learnt = run(door, models, EPOCHS)
    models[EPOCHS + 1] = after(models[EPOCHS], row_of(EPOCHS + 1))
    begin = learnt[10]
    seen = set()
    for cut in range(begin, len(door.log) + 1, every):
        least = max(epoch for epoch, at in learnt.items() if at <= cut)
        for tree in door.after_power_cut(cut):
            known = (repr(sorted(tree.items())), least)
            if known not in seen:
                seen.add(known)
                assert violation(tree, models, least) is None, cut
    assert len(seen) > 200 // every
