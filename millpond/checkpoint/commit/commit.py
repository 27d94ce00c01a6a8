"""From an epoch's work to its manifest."""

from __future__ import annotations

from collections.abc import Mapping

from millpond.checkpoint.commit.machine import Head, advance
from millpond.checkpoint.records.deltas import by_place, merge_segments, write_changes
from millpond.checkpoint.records.manifest import (
    FORMAT,
    Elements,
    EpochDeltas,
    Genesis,
    Manifest,
    Ownership,
    StateFile,
    elements_of,
)
from millpond.checkpoint.records.offers import Evolved, Lost, Offer, Rescaled, Upkeep
from millpond.checkpoint.records.times import Times
from millpond.checkpoint.records.work import (
    ENTRIES,
    RUNNING_TOTAL,
    EpochWork,
    Parent,
    UnsyncedFile,
    pack_events,
    unpack_events,
)
from millpond.checkpoint.snapshots.snapshots import Snapshot
from millpond.crashpoints import crashpoint
from millpond.errors import EpochError
from millpond.ids import EpochId, ManifestHash
from millpond.storage.contract import Storage
from millpond.storage.frame import FrameKind

DELTAS_KEPT = 8
"""Epochs whose deltas stay listed after a snapshot, so that a store a little behind catches up without a restore."""


def head_of(manifest: Manifest | None, instances: int = 0, mark: str = "") -> Head:
    """Return what the machine knows of the last committed epoch, with its instances, and elements with this mark."""
    if manifest is None:
        return Head(instances=instances, elements=mark)
    unfinished = manifest.offer if manifest.pending else None
    return Head(manifest.epoch, manifest.stream, manifest.runs, unfinished, instances, mark, manifest.loads)


def parent_of(genesis: Genesis, head: Manifest | None, head_hash: ManifestHash, driver: str = "") -> Parent:
    """Return the point that the next epoch of a driver starts from."""
    return Parent(
        uuid=genesis.uuid,
        epoch=head.epoch if head else EpochId(0),
        hash=head_hash,
        key_groups=genesis.key_groups,
        instances=genesis.instances if head is None or head.instances is None else head.instances,
        snapshot_epoch=head.snapshot_epoch if head else EpochId(0),
        snapshot=head.snapshot if head else (),
        deltas=head.deltas if head else (),
        pending=head.pending if head else (),
        elements=elements_of(genesis, head),
        mark=f"{head_hash}/{driver}",
    )


def check_work(work: EpochWork, key_groups: int) -> None:
    """Refuse work that does not fit the checkpoint, before any of it is written."""
    unsynced = tuple(file.state for one in work.changed for file in one.unsynced.files)
    for state in (*unsynced, *(state for one in work.changed for state in one.files)):
        if state.last_group >= key_groups:
            raise EpochError(
                "MP415",
                "the work of an epoch does not fit its checkpoint",
                expected=f"key groups 0 to {key_groups - 1}",
                found=f"{state.file.name} with group {state.last_group}",
                hint="this is a fault of Millpond, please report it; nothing was committed",
            )


def write_segment(storage: Storage, work: EpochWork, mark: str) -> tuple[StateFile, ...]:
    """Write the small changes of all partitions as one delta, or one for each place that their elements go to."""
    changes = merge_segments([one.inline for one in work.changed])
    placed = [(place, own) for place, own in by_place(storage, changes) if own.keys]
    return tuple(write_changes(place, FrameKind.DELTA, own, mark) for place, own in placed)


def write_unsynced(storage: Storage, work: EpochWork, mark: str) -> tuple[UnsyncedFile, ...]:
    """Write the small changes with bounded loss as one delta near the host; it comes before the files of tasks."""
    unsynced = [one.unsynced for one in work.changed]
    files = tuple(file for one in unsynced for file in one.files)
    changes = merge_segments([one.inline for one in unsynced])
    if not changes.keys:
        return files
    met = {key: count for one in unsynced for key, count in zip(one.inline.keys, one.events, strict=True)}
    segment = write_changes(storage, FrameKind.DELTA, changes, mark)
    crashpoint("unsynced.written")
    return (UnsyncedFile(segment, pack_events([met[key] for key in changes.keys])), *files)


def next_manifest(
    parent: Parent,
    head: Manifest | None,
    offer: Offer,
    work: EpochWork,
    segment: tuple[StateFile, ...] = (),
    *,
    unsynced: tuple[UnsyncedFile, ...] = (),
    partitions: int,
    instances: int | None = None,
    elements: Elements | None = None,
    snapshot: Snapshot | None = None,
    ownership: Ownership | None = None,
    settings: Mapping[str, str] | None = None,
) -> Manifest:
    """Build the manifest of the epoch after `parent`.

    `instances` if they are not as many as in the genesis, `elements` if they are not those of the genesis; a `snapshot`
    if a new one is ready, which must fit; an `ownership` if it was assigned; marks of `settings` if there are some.
    """
    epoch = EpochId(parent.epoch + 1)
    files = tuple(state for one in work.changed for state in one.files)
    own = EpochDeltas(
        epoch,
        parent.hash,
        segment + files + tuple(file.state for file in unsynced),
        work.input,
        tuple((file.state.file.name, sum(unpack_events(file.events))) for file in unsynced),
        work.loss,
    )
    last = snapshot or Snapshot(parent.snapshot_epoch, parent.hash, parent.snapshot)
    # What may be near a host alone begins with the snapshot, and nothing leads back to before it.
    oldest = last.epoch if work.input or unsynced or work.loss else min(last.epoch, epoch - DELTAS_KEPT)
    before = tuple(delta.without(work.lost) for delta in parent.deltas)
    saves = (*(head.saves if head else ()), *work.saves)
    after = advance(head_of(head), offer)
    return Manifest(
        format=FORMAT,
        checkpoint=parent.uuid,
        epoch=epoch,
        parent=parent.hash,
        offer=offer,
        partitions=partitions,
        snapshot_epoch=last.epoch,
        snapshot=last.files,
        deltas=tuple(delta for delta in (*before, own) if delta.epoch > oldest),
        outputs=work.outputs,
        runs=after.runs,
        counters=_carried(head, work) if isinstance(offer, Upkeep) else dict(work.counters),
        times=work.times or (head.times if head else Times()),
        stream=after.stream,
        pending=work.pending,
        instances=instances,
        elements=elements,
        evolved=epoch if isinstance(offer, Evolved) else head.evolved if head else EpochId(0),
        loads=after.loads,
        saves=() if isinstance(offer, Lost) else tuple(save for save in saves if save.epoch > last.epoch),
        ownership=_handed_on(head, offer) if isinstance(offer, Upkeep) else ownership,
        settings=dict(settings or {}) if not isinstance(offer, Upkeep) else head.settings if head else {},
    )


def _handed_on(head: Manifest | None, offer: Offer) -> Ownership | None:
    """Return what an epoch without rows says of owners.

    What was said before, unless instances are others from now on.
    """
    return None if head is None or isinstance(offer, Rescaled) else head.ownership


def _carried(head: Manifest | None, work: EpochWork) -> dict[str, int]:
    """Return the counters of an epoch of upkeep: running totals go on, and what it adds itself is on top of them."""
    growth = sum(one.growth for one in work.changed)
    before = {} if head is None else head.counters
    totals = {name: count for name, count in before.items() if name.startswith(RUNNING_TOTAL)}
    running = RUNNING_TOTAL + ENTRIES
    totals |= {ENTRIES: growth, running: totals.get(running, 0) + growth}
    return dict(sorted({**totals, **work.counters}.items()))
