"""The machine dies after any call of a longer story: several parts, a rescale, snapshots, deleted names (R3)."""

from __future__ import annotations

import random

import pytest

from millpond.checkpoint.commit.checkpoint import Changed, Checkpoint, EpochWork
from millpond.checkpoint.records.deltas import write_changes
from millpond.checkpoint.records.offers import Batch, Rescaled
from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.snapshots import snapshots
from millpond.errors import MillpondError
from millpond.state.changes import Changes
from millpond.state.local.storekey import store_key
from millpond.storage.backends.files import FileStorage
from millpond.storage.backends.perkey import PerKeyStorage
from millpond.storage.frame import FrameKind
from tests.crash.model_disk import ModelDoor
from tests.programs.keyed import fresh_seed

ROOT = "/data/checkpoint"
BACKENDS = {"files": FileStorage, "perkey": PerKeyStorage}


class Story:
    """Epochs with several files each; the world remembers at which call it learnt of an epoch."""

    def __init__(self, storage, parts, door=None):
        self.storage, self.parts, self.door = storage, parts, door
        self.learnt = []

    def changes(self, epoch, part):
        """Some keys come, some go; the same for whoever computes it."""
        keys = sorted({store_key(0, part, b"%d" % (epoch % 3)), store_key(0, part, b"%d" % ((epoch + part) % 4))})
        return keys, [None if (epoch + number) % 3 == 0 else b"%d-%d" % (epoch, part) for number in range(len(keys))]

    def work(self, parent):
        made = []
        for part in range(self.parts):
            keys, values = self.changes(parent.epoch + 1, part)
            if part % 2:
                made.append(
                    Changed(files=(write_changes(self.storage, FrameKind.DELTA, Changes(keys, values), mark="test"),))
                )
            else:
                made.append(Changed(Changes(keys, values)))
        return EpochWork(tuple(made), (), {})

    def publish(self, manifest):
        if self.door is not None:
            self.learnt.append((len(self.door.log), manifest.epoch))

    def epoch(self, checkpoint):
        if checkpoint.epoch == 2 and checkpoint.instances == 1:
            checkpoint.run_epoch(Rescaled(2), lambda _: EpochWork((), (), {}), self.publish, partitions=self.parts)
        batch = 0 if checkpoint.head is None or checkpoint.head.stream is None else checkpoint.head.stream.number + 1
        checkpoint.run_epoch(Batch("q", batch), self.work, self.publish, partitions=self.parts)

    def open(self):
        return Checkpoint.open(self.storage, (), key_groups=8, instances=1)

    def run(self, epochs, delete_below=0):
        checkpoint = self.open()
        while checkpoint.epoch < epochs:
            self.epoch(checkpoint)
        for name in self.storage.list("manifests"):
            if int(name[-10:]) < delete_below:
                self.storage.delete(name)


def oracle(parts, epochs):
    """The state after each epoch; the third one is the rescale, and changes nothing."""
    story, states = Story(None, parts), [{}]
    for epoch in range(1, epochs + 1):
        state = dict(states[-1])
        if epoch != 3:
            for part in range(parts):
                state.update(zip(*story.changes(epoch, part), strict=True))
        states.append({key: value for key, value in state.items() if value is not None})
    return states


def violation(backend, tree, least, states, parts):
    storage = BACKENDS[backend](ROOT, ModelDoor(tree))
    newest = max((int(name[-10:]) for name in storage.list("manifests")), default=0)
    if newest < least:
        return f"epoch {least} was published, and {newest} is left"
    try:
        if read_state(storage) != states[newest]:
            return f"the state of epoch {newest} is wrong"
        Story(storage, parts).run(len(states) - 1)
        if read_state(storage) != states[-1]:
            return "the state at the end is wrong"
    except MillpondError as error:
        return str(error)
    return None


def look(backend, parts, epochs, limit=None):
    """Every tree at every cut, or a sample of so many trees; how many were looked at."""
    door = ModelDoor()
    story = Story(BACKENDS[backend](ROOT, door), parts, door)
    story.run(epochs, delete_below=epochs - 2)
    states = oracle(parts, epochs)
    found = []
    for cut in range(len(door.log) + 1):
        least = max((epoch for at, epoch in story.learnt if at <= cut), default=0)
        found += [(tree, least) for tree in door.after_power_cut(cut)]
    different = list({(repr(sorted(tree.items())), least): (tree, least) for tree, least in found}.values())
    chosen = (
        different if limit is None or len(different) <= limit else random.Random(fresh_seed()).sample(different, limit)
    )
    wrong = [told for tree, least in chosen if (told := violation(backend, tree, least, states, parts))]
    assert wrong == []
    return len(chosen)


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 2)


def test_after_a_power_cut_anywhere_in_a_longer_story_some_whole_epoch_is_there():
    assert look("files", 2, 4, limit=60) == 60


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_after_a_power_cut_at_any_call_of_a_longer_story_some_whole_epoch_is_there(backend):
    assert look(backend, 4, 5, limit=800) > 150


@pytest.mark.campaign
@pytest.mark.parametrize("backend", BACKENDS)
def test_after_a_power_cut_at_any_call_of_a_long_story_some_whole_epoch_is_there(backend):
    assert look(backend, 8, 7, limit=50_000) > 300
