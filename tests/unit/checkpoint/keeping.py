"""A tiny job over a checkpoint with retention, and the model of it: a dict for each epoch."""

from __future__ import annotations

from millpond import Map
from millpond.checkpoint.commit.checkpoint import Changed, Checkpoint, EpochWork
from millpond.checkpoint.read.history import kept_epochs
from millpond.checkpoint.records.deltas import write_changes
from millpond.checkpoint.records.manifest import ElementSchema, decode_manifest, manifest_name
from millpond.checkpoint.records.offers import Batch
from millpond.checkpoint.recovery import read_state
from millpond.checkpoint.retention.reachable import Names, files_there
from millpond.checkpoint.retention.savepoints import pinned
from millpond.keygroups import Layout
from millpond.state.changes import Changes
from millpond.state.containers.element import ElementType
from millpond.state.local.storekey import group_of, store_key
from millpond.storage.frame import FrameKind

ELEMENTS = (ElementSchema("seen", "map", "partitioned", "", "str", "str"),)
KEY_GROUPS = 4
QUERY = "3f0e"
GRACE_MS = 1000

_TYPE = ElementType.parse(Map[str, str], None)
_LAYOUT = Layout(KEY_GROUPS, 1, 1, aligned=False)


def key_of(word: str) -> bytes:
    return store_key(0, _LAYOUT.group_of(word), _TYPE.keys.encode(word))


def after(state, changes):
    """The model: a state after an epoch."""
    return {key: value for key, value in {**state, **changes}.items() if value is not None}


class Driver:
    """One driver of a checkpoint; several may have the same storage, and each believes to be alone."""

    def __init__(self, storage, keep, clock, publish=lambda _manifest: None):
        self.storage = storage
        self.clock = clock
        self.publish = publish
        self.checkpoint = Checkpoint.open(storage, ELEMENTS, KEY_GROUPS, clock=clock, keep=keep)

    def epoch(self, changes):
        """Run one epoch that sets words to values, or takes them away: one partition inline, one by a file."""
        head = self.checkpoint.head
        batch = 0 if head is None or head.stream is None else head.stream.number + 1
        offer = Batch(QUERY, batch, ("words",))
        return self.checkpoint.run_epoch(
            offer, lambda parent: self.work(changes, parent.mark), self.publish, partitions=2
        )

    def work(self, changes, mark):
        by_key = {
            key_of(word): None if value is None else _TYPE.values.encode(value) for word, value in changes.items()
        }
        keys = sorted(by_key)
        inline = [key for key in keys if group_of(key) < 2]
        rest = [key for key in keys if group_of(key) >= 2]
        files = ()
        if rest:
            files = (write_changes(self.storage, FrameKind.DELTA, Changes(rest, [by_key[key] for key in rest]), mark),)
        return EpochWork((Changed(Changes(inline, [by_key[key] for key in inline])), Changed(files=files)), (), {})


def stored(state):
    return {key_of(word): _TYPE.values.encode(value) for word, value in state.items()}


def check_kept(storage, models, epochs=None):
    """Every epoch whose manifest is there reads as it did when it was committed."""
    there, _ = kept_epochs(storage)
    for epoch in there if epochs is None else epochs:
        name = manifest_name(epoch)
        assert read_state(storage, decode_manifest(storage.get(name), name)) == stored(models[epoch]), epoch


def garbage(storage):
    """Files that no manifest names."""
    names = Names(storage)
    epochs, _ = kept_epochs(storage)
    assert names.read(epochs, 10**6)
    named = names.of(epochs)
    return [name for name in files_there(storage) if name not in named]


def settle(driver, models, keep, ticks=40):
    """Run epochs that change nothing, while time passes, until all is deleted that may be; return the newest epoch."""
    for _ in range(ticks):
        driver.clock.advance(GRACE_MS)
        models[driver.checkpoint.epoch + 1] = models[driver.checkpoint.epoch]
        driver.epoch({})
    storage = driver.storage
    epochs, _ = kept_epochs(storage)
    held = keep.kept(range(1, epochs[-1] + 1), pinned(storage))
    # What went out of the window in the last epochs is on its way.
    assert set(held) & set(models) <= set(epochs)
    assert len(epochs) <= len(held) + 16
    return epochs[-1]


class Died(BaseException):
    """The process is gone."""


class Watched:
    """A storage that tells before each call that changes something, so that a test can die or stall there."""

    def __init__(self, storage, before):
        self._storage = storage
        self._before = before

    def put(self, name, data):
        self._before("put", name)
        outcome = self._storage.put(name, data)
        self._before("did put", name)
        return outcome

    def delete(self, name):
        self._before("delete", name)
        self._storage.delete(name)
        self._before("did delete", name)

    def __getattr__(self, name):
        return getattr(self._storage, name)
