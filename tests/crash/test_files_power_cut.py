"""The machine dies after any call, and any part of what was not synced is lost (R3)."""

from __future__ import annotations

import pytest

from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots import snapshots
from millpond.errors import MillpondError
from millpond.storage.backends.files import FileStorage
from tests.crash.model_disk import FolderSynced, ModelDoor, Named, PowerCutError
from tests.programs.ledger import open_ledger, run_batch, state_after

pytestmark = pytest.mark.slow

ROOT = "/data/checkpoint"
BATCH_COUNT = 3


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)


class Witness:
    """The world outside of the disk: remembers at which call it learnt that an epoch is committed."""

    def __init__(self, door):
        self.door = door
        self.learnt = []

    def publish(self, manifest):
        self.learnt.append((len(self.door.log), manifest.epoch))

    def epoch_known_at(self, cut):
        return max((epoch for position, epoch in self.learnt if position <= cut), default=0)


def run_rest(door, witness, batches=BATCH_COUNT):
    storage = FileStorage(ROOT, door)
    checkpoint = open_ledger(storage)
    for batch in range(max(checkpoint.epoch - 1, 0), batches):
        run_batch(checkpoint, storage, batch, witness.publish)


def violation(tree, least):
    """Recover from what is left, and go on; return what is wrong, if anything."""
    storage = FileStorage(ROOT, ModelDoor(tree))
    epochs = len(storage.list("manifests"))
    if epochs < least:
        return f"epoch {least} was published, and {epochs} is left"
    try:
        if read_state(storage) != state_after(epochs):
            return f"the state of epoch {epochs} is wrong"
        door = ModelDoor(tree)
        run_rest(door, Witness(door))
        if read_state(FileStorage(ROOT, door)) != state_after(BATCH_COUNT):
            return "the state at the end is wrong"
    except MillpondError as error:
        return str(error)
    return None


def violations(door, witness, cuts=None):
    """Every crash state at every cut; each different tree is looked at once for each epoch that must be there."""
    seen = set()
    found = []
    for cut in cuts or range(len(door.log) + 1):
        least = witness.epoch_known_at(cut)
        for tree in door.after_power_cut(cut):
            known = (repr(sorted(tree.items())), least)
            if known not in seen:
                seen.add(known)
                wrong = violation(tree, least)
                if wrong is not None:
                    found.append((cut, wrong))
    return found, len(seen)


def test_after_a_power_cut_at_any_call_the_last_epoch_or_the_one_in_flight_is_there():
    door = ModelDoor()
    witness = Witness(door)
    run_rest(door, witness)
    found, states = violations(door, witness)
    assert found == []
    assert states > 80, states


def test_a_process_that_died_before_a_sync_leaves_nothing_that_the_next_one_builds_on_unsynced():
    whole = ModelDoor()
    run_rest(whole, Witness(whole))
    deaths = [
        index + 1
        for index, record in enumerate(whole.log)
        if isinstance(record, Named | FolderSynced) and ".staging" not in record.folder
    ]
    assert len(deaths) > 20
    for death in deaths:
        door = ModelDoor()
        witness = Witness(door)
        door.dies_after = death
        with pytest.raises(PowerCutError):
            run_rest(door, witness)
        door.dies_after = None
        run_rest(door, witness)
        # Before the death the cuts are those of the test above; after it, what counts is what the world has learnt.
        found, _ = violations(door, witness, [cut for cut, _ in witness.learnt if cut >= death])
        assert found == [], death


@pytest.mark.parametrize("forgotten", ["sync", "sync_folder"])
def test_a_door_that_forgets_a_sync_is_found_out(forgotten):
    door = ModelDoor(forgets=frozenset({forgotten}))
    witness = Witness(door)
    run_rest(door, witness, batches=1)
    found, _ = violations(door, witness, [len(door.log)])
    assert found
