"""Opening a partition's state at exactly the committed parent, whatever the local store holds."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from millpond.crashpoints import crashpoint
from millpond.epochs.deltas import within
from millpond.epochs.manifest import StateFile
from millpond.epochs.recovery import advance_files, read_changes, restore_files
from millpond.epochs.work import Parent
from millpond.errors import StateError
from millpond.ids import PartitionId
from millpond.keygroups import Layout
from millpond.state.localstore import Loaded, LocalStore, Stamp, StoreView
from millpond.storage.contract import Storage

OPEN_ATTEMPTS_MAX = 8
"""Another driver of the same checkpoint may take the store away between check and use; then we look again."""


def store_path(local_root: str, uuid: str, layout: Layout, partition: PartitionId) -> Path:
    """Where a partition's store lies; another layout has other stores."""
    aligned = f"-aligned-{layout.instances:05}" if layout.aligned else ""
    return Path(local_root) / uuid / f"{partition:05}-of-{layout.partitions:05}{aligned}"


def default_local_root(checkpoint_url: str, temporary: str) -> str:
    """A directory for local stores that no other checkpoint uses."""
    digest = hashlib.sha256(checkpoint_url.encode()).hexdigest()[:16]
    return str(Path(temporary) / f"millpond-{os.getuid()}-{digest}")


def open_state(storage: Storage, local_root: str, parent: Parent, layout: Layout, partition: PartitionId) -> StoreView:
    """A frozen view of the partition's state at the parent; the store is advanced or rebuilt first if it must be."""
    store = LocalStore.at(store_path(local_root, parent.uuid, layout, partition))
    wanted = Stamp(parent.uuid, parent.epoch, parent.hash)
    groups = layout.groups_of(partition)
    for _ in range(OPEN_ATTEMPTS_MAX):
        view = store.view()
        if view.stamp == wanted:
            return view
        stamp = view.stamp
        view.close()
        _bring(store, stamp, wanted, storage, parent, groups)
        crashpoint("store.advanced")
    raise StateError(
        "MP222",
        "the local store is taken away by another run of the same checkpoint",
        found=str(store.path),
        hint="stop the other run, or give each its own local root",
    )


def _bring(
    store: LocalStore, stamp: Stamp | None, wanted: Stamp, storage: Storage, parent: Parent, groups: range
) -> None:
    if not groups:
        store.rebuild(wanted, ())
        return
    if stamp is not None and stamp.uuid == wanted.uuid:
        missing = advance_files(parent, stamp.epoch, stamp.hash, groups[0], groups[-1])
        if missing is not None:
            store.advance(stamp, wanted, list(_load(storage, missing, groups)))
            return
    store.rebuild(wanted, _load(storage, restore_files(parent, groups[0], groups[-1]), groups))


def _load(storage: Storage, files: tuple[StateFile, ...], groups: range) -> Iterator[Loaded]:
    for state_file in files:
        yield within(read_changes(storage, state_file), groups[0], groups[-1])
