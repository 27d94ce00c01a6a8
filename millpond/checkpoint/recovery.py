"""Finding the last committed epoch, and the files that make up its state."""

from __future__ import annotations

from millpond.checkpoint.records.deltas import check_changes, decode_changes, kind_of
from millpond.checkpoint.records.heads import newest_head
from millpond.checkpoint.records.manifest import (
    EPOCH_DIGITS,
    GENESIS_NAME,
    MANIFESTS,
    Genesis,
    Manifest,
    StateFile,
    decode_genesis,
    decode_manifest,
    manifest_hash,
    manifest_name,
)
from millpond.checkpoint.records.naming import HEADS, given_in
from millpond.checkpoint.records.work import Parent
from millpond.errors import EpochError, StorageError
from millpond.ids import ManifestHash
from millpond.keygroups import KEY_GROUPS_MAX
from millpond.state.changes import Changes
from millpond.state.local.storekey import group_span
from millpond.storage.addresses import shown_url
from millpond.storage.content import get_content
from millpond.storage.contract import Storage, bottom
from millpond.storage.frame import FrameKind, unseal_hashed

CERTAIN = (HEADS, "retired", "savepoints", "merged")
"""Folders in which there is nothing before an epoch was committed."""

_AFTER_GENESIS = (MANIFESTS, *CERTAIN, "deltas", "snapshots", "pending", "inputs", "saves", "condemned")
"""Folders in which there is nothing before the genesis is durable; but a fork puts its manifest first."""


def read_genesis(storage: Storage) -> tuple[Genesis, ManifestHash] | None:
    """Return the genesis and its hash; None if the checkpoint is not there yet."""
    if not storage.contains(GENESIS_NAME):
        _refuse_orphans(storage)
        return None
    data = storage.get(GENESIS_NAME)
    return decode_genesis(data), manifest_hash(data)


def last_manifest(storage: Storage, genesis_hash: ManifestHash) -> tuple[Manifest, ManifestHash] | None:
    """Return the newest manifest and its hash; None before the first epoch.

    A newest manifest that is damaged, or is not the child of the one before it, is an error: falling back to an older
    one would forget a committed epoch.
    """
    head = newest_head(storage)
    names = storage.list(MANIFESTS)
    if not names:
        lost = [folder for folder in CERTAIN if given_in(storage, folder)]
        # Looked for again: another driver may have made the first epochs meanwhile.
        if lost and not storage.list(MANIFESTS):
            raise manifests_lost(lost)
        return None
    epochs = [_epoch_in(name) for name in names]
    newest = max(epochs)
    if head is not None and head.epoch > newest:
        raise newest_lost(newest, head.epoch)
    manifest, digest = _read_manifest(storage, newest)
    _check_origin(storage, manifest, genesis_hash)
    if head is not None and head.epoch == newest and not head.is_of(digest):
        raise misplaced(manifest.name, f"a manifest whose hash begins with {head.digits}", f"hash {digest}")
    if newest == 1:
        before = genesis_hash
    elif newest - 1 in epochs:
        before = manifest_hash(storage.get(manifest_name(newest - 1)))
    else:
        before = manifest.parent
    if manifest.parent != before:
        raise misplaced(manifest.name, f"a parent with hash {before}", f"a parent with hash {manifest.parent}")
    return manifest, digest


def restore_files(parent: Parent | Manifest, first_group: int, last_group: int) -> tuple[StateFile, ...]:
    """Return the files that hold a range of key groups, in the order in which they apply to an empty store."""
    deltas = [delta for delta in parent.deltas if delta.epoch > parent.snapshot_epoch]
    files = (*parent.snapshot, *(state for delta in deltas for state in delta.files))
    return tuple(state for state in files if state.overlaps(first_group, last_group))


def advance_files(
    parent: Parent, stamp_epoch: int, stamp_hash: str, first_group: int, last_group: int
) -> tuple[StateFile, ...] | None:
    """Return the deltas that bring a store from its stamp to the parent.

    None if the store is on another timeline, ahead, or too far behind: then it must be restored.
    """
    if stamp_epoch == parent.epoch:
        return () if stamp_hash == parent.hash else None
    missed = [delta for delta in parent.deltas if delta.epoch > stamp_epoch]
    if not missed or missed[0].epoch != stamp_epoch + 1 or missed[0].parent != stamp_hash:
        return None
    if any(delta.loss is not None for delta in missed):
        # The store may hold what is lost to all others.
        return None
    files = (state for delta in missed for state in delta.files)
    return tuple(state for state in files if state.overlaps(first_group, last_group))


def read_changes(storage: Storage, state_file: StateFile, kind: FrameKind | None = None) -> Changes:
    """Read a delta or a snapshot chunk and check all that its manifest says of it.

    Without a `kind`, the folder in the file's name tells it.
    """
    name = state_file.file.name
    kind = kind or kind_of(state_file)
    payload = unseal_hashed(kind, get_content(storage, state_file.file), name)
    changes = decode_changes(payload, name)
    keys = changes.keys
    check_changes(keys, name)
    if kind is FrameKind.SNAPSHOT and None in changes.values:
        raise _not_as_told(state_file, "a tombstone in a snapshot")
    if len(keys) != state_file.entries:
        raise _not_as_told(state_file, f"{len(keys)} entries")
    if keys:
        first, last = group_span(keys)
        if first < state_file.first_group or last > state_file.last_group:
            raise _not_as_told(state_file, f"key groups {first} to {last}")
    return changes


def read_state(storage: Storage, manifest: Manifest | None = None) -> dict[bytes, bytes]:
    """Return the whole committed state by store key, at a given manifest or at the newest one."""
    if manifest is None:
        genesis = read_genesis(storage)
        head = None if genesis is None else last_manifest(storage, genesis[1])
        if head is None:
            return {}
        manifest = head[0]
    state: dict[bytes, bytes] = {}
    for state_file in restore_files(manifest, 0, KEY_GROUPS_MAX):
        for key, value in read_changes(storage, state_file).pairs():
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
    return state


def _read_manifest(storage: Storage, epoch: int) -> tuple[Manifest, ManifestHash]:
    name = manifest_name(epoch)
    data = storage.get(name)
    manifest = decode_manifest(data, name)
    if manifest.epoch != epoch:
        raise misplaced(name, f"the manifest of epoch {epoch}", f"that of epoch {manifest.epoch}")
    return manifest, manifest_hash(data)


def _check_origin(storage: Storage, manifest: Manifest, genesis_hash: ManifestHash) -> None:
    data = storage.get(GENESIS_NAME)
    if manifest_hash(data) != genesis_hash:
        raise misplaced(GENESIS_NAME, f"the genesis with hash {genesis_hash}", f"hash {manifest_hash(data)}")
    genesis = decode_genesis(data)
    if manifest.checkpoint != genesis.uuid:
        raise misplaced(manifest.name, f"a manifest of checkpoint {genesis.uuid}", f"one of {manifest.checkpoint}")
    manifest.check_instances(genesis)
    manifest.check_elements(genesis)
    manifest.check_ownership(genesis)


def _epoch_in(name: str) -> int:
    digits = name.removeprefix(f"{MANIFESTS}/")
    if len(digits) != EPOCH_DIGITS or not digits.isascii() or not digits.isdecimal():
        raise misplaced(name, f"a manifest, named by the {EPOCH_DIGITS} digits of its epoch", digits)
    return int(digits)


def _refuse_orphans(storage: Storage) -> None:
    kept = bottom(storage)
    orphans = kept.list(MANIFESTS) or [name for folder in _AFTER_GENESIS for name in given_in(kept, folder)]
    # Looked for again: another driver may have made the checkpoint meanwhile.
    if orphans and not storage.contains(GENESIS_NAME):
        raise EpochError(
            "MP414",
            "the checkpoint has lost its genesis",
            expected=f"a file `{GENESIS_NAME}` beside the others in {shown_url(storage.url)}",
            found=f"{len(orphans)} files of a checkpoint without one",
            hint="restore it from a copy of the checkpoint; a new one would not fit the state that is there",
        )


def manifests_lost(folders: list[str]) -> EpochError:
    """Return the error for a checkpoint with files of epochs in some folders, and without a manifest."""
    return EpochError(
        "MP457",
        "manifests of the checkpoint are missing",
        expected=f"a manifest for each epoch, since there are files in {', '.join(folders)}",
        found="no manifest at all",
        hint="restore the folder of manifests from a copy of the checkpoint; if no epoch was ever committed, these "
        "files were left by the first one, and a start goes on",
    )


def newest_lost(newest: int, noted: int) -> EpochError:
    """Return the error for a checkpoint whose newest manifests are gone, by what is noted of them elsewhere."""
    return EpochError(
        "MP457",
        "manifests of the checkpoint are missing",
        expected=f"the manifest of epoch {noted}, which was committed",
        found=f"none after that of epoch {newest}",
        hint="restore the manifests from a copy of the checkpoint; if an older epoch is what you want, "
        f"`millpond state repair CHECKPOINT --to {newest}` goes on from there",
    )


def misplaced(name: str, expected: str, found: str) -> EpochError:
    """Return the error for a file that breaks the chain of manifests."""
    return EpochError(
        "MP413",
        f"{name} does not belong where it is",
        expected=expected,
        found=found,
        hint="files of two checkpoints were mixed, or one was put back alone: restore the whole checkpoint from a copy",
    )


def _not_as_told(state_file: StateFile, found: str) -> StorageError:
    return StorageError(
        "MP316",
        f"{state_file.file.name} does not hold what its manifest says",
        expected=f"{state_file.entries} entries in key groups {state_file.first_group} to {state_file.last_group}",
        found=found,
        hint="restore the checkpoint from a copy",
    )
