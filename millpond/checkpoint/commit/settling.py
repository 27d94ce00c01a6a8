"""What a start does about state that its predecessor left near the host: it is kept from then on, or told as lost.

Files that are whole are copied into the checkpoint, under the names that manifests have for them. So after a start
everything up to the last commit is durable. If files with bounded loss are gone or torn, an epoch of its own goes on
without them: each key is then as the newest of what is left has it, a file or a save, and the manifest says how much is
lost at most.
"""

from __future__ import annotations

from collections.abc import Callable

from millpond.checkpoint.commit.checkpoint import Checkpoint
from millpond.checkpoint.commit.saver import PREFIX
from millpond.checkpoint.records.deltas import write_delta
from millpond.checkpoint.records.manifest import EpochDeltas, Loss, Manifest
from millpond.checkpoint.records.offers import Lost
from millpond.checkpoint.records.saves import saves_of
from millpond.checkpoint.records.work import Changed, EpochWork, Parent
from millpond.checkpoint.recovery import read_changes
from millpond.checkpoint.snapshots.snapshots import Snapshot
from millpond.crashpoints import crashpoint
from millpond.errors import StorageError
from millpond.state.changes import Changes
from millpond.storage.composed.unsynced import UnsyncedStorage
from millpond.storage.content import FileRef, get_content
from millpond.storage.contract import PutOutcome, Storage


def may_be_lost(head: Manifest | None) -> bool:
    """Whether some of a state may be near a host alone, and its loss is borne."""
    return head is not None and any(delta.lazy for delta in _after(head, head.snapshot_epoch))


def _after(head: Manifest, epoch: int) -> list[EpochDeltas]:
    return [delta for delta in head.deltas if delta.epoch > epoch]


def settle(storage: UnsyncedStorage, checkpoint: Checkpoint, publish: Callable[[Manifest], None]) -> Loss | None:
    """Make durable what is near; return what is lost, once the checkpoint says so too.

    A snapshot that was finished and that no manifest names yet may hold it: then nothing is.
    """
    head = checkpoint.head
    if head is None:
        return None
    lost: set[str] = set()
    for delta in _after(head, head.snapshot_epoch):
        for name in (state.file.name for state in delta.files if not _kept(storage, state.file)):
            # Any other file is told as missing by whoever needs it.
            if name in delta.lazy_names:
                lost.add(name)
    if not lost:
        return None
    told: list[Loss] = []

    def compute(parent: Parent) -> EpochWork:
        work = _without(storage.kept, head, parent, frozenset(lost), checkpoint.waiting_snapshot())
        assert work.loss is not None
        told.append(work.loss)
        for name in filter(storage.kept.contains, lost):
            # What is left of it must not hide a file that holds the same and is kept: the commit may merge a snapshot.
            storage.forget_near(name)
        return work

    checkpoint.run_epoch(Lost(), compute, publish, partitions=1)
    crashpoint("loss.reported")
    for name in lost:
        storage.forget_near(name)
        crashpoint("unsynced.forgotten")
    return told[-1] if told[-1].epochs else None


def _kept(storage: UnsyncedStorage, file: FileRef) -> bool:
    """Whether a file is in the checkpoint, or is now; what is near may be gone, or torn."""
    if storage.kept.contains(file.name):
        storage.forget_near(file.name)
        return True
    try:
        data = get_content(storage, file)
    except StorageError:
        return False
    if storage.kept.put(file.name, data) is PutOutcome.PRESENT:
        get_content(storage.kept, file)
    crashpoint("unsynced.kept")
    storage.forget_near(file.name)
    return True


def _without(
    kept: Storage, head: Manifest, parent: Parent, lost: frozenset[str], snapshot: Snapshot | None
) -> EpochWork:
    since = head.snapshot_epoch if snapshot is None else snapshot.epoch
    restored = _restored(kept, head, parent, lost, since)
    files = write_delta(kept, restored) if restored.keys else ()
    loss = _loss(head, lost, since, len(restored.keys))
    told = {"lost_keys": loss.keys, "lost_updates": loss.updates, "restored_keys": loss.restored}
    return EpochWork(
        changed=(Changed(files=files),),
        outputs=(),
        counters={f"{PREFIX}{name}": count for name, count in told.items()},
        loss=loss,
        lost=lost,
        snapshot=snapshot,
    )


def _restored(kept: Storage, head: Manifest, parent: Parent, lost: frozenset[str], since: int) -> Changes:
    """The saved keys that no file has as they were later."""
    epochs: dict[bytes, int] = {}
    values: dict[bytes, bytes | None] = {}
    for save in saves_of(kept, head, parent.hash, since):
        epochs.update(dict.fromkeys(save.keys, save.epoch))
        values.update(zip(save.keys, save.values, strict=True))
    oldest = min(epochs.values(), default=head.epoch)
    for delta in _after(head, since):
        if delta.epoch <= oldest:
            continue
        for state in delta.files:
            if state.file.name not in lost:
                for key in read_changes(kept, state).keys:
                    if epochs.get(key, delta.epoch) < delta.epoch:
                        del epochs[key], values[key]
    return Changes.of(values)


def _loss(head: Manifest, lost: frozenset[str], since: int, restored: int) -> Loss:
    """How much is gone at most: what the lost files held, or what was not durable when the head was committed."""
    deltas = [delta for delta in _after(head, since) if delta.lazy_names & lost]
    files = [state for delta in deltas for state in delta.files if state.file.name in lost]
    keys = sum(state.entries for state in files)
    updates = sum(count for delta in deltas for name, count in delta.lazy if name in lost)
    own = head.deltas[-1]
    if f"{PREFIX}dirty_keys" in head.counters:
        fresh = sum(state.entries for state in own.files if state.file.name in own.lazy_names)
        keys = min(keys, head.counters[f"{PREFIX}dirty_keys"] + fresh)
        updates = min(updates, head.counters[f"{PREFIX}dirty_updates"] + sum(count for _, count in own.lazy))
    return Loss(tuple(int(delta.epoch) for delta in deltas), len(files), keys, updates, restored)
