"""Saved keys: files with the values that some keys of elements with bounded loss had after a committed epoch.

A save says which epoch it is of, by the hash of its manifest. So whoever wrote it, and however late, it tells the truth
about a timeline or is passed over; it needs no fence. The next manifest names it; one that nobody named is found all
the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from millpond.checkpoint.records.deltas import check_changes
from millpond.checkpoint.records.manifest import Manifest, SaveRef
from millpond.checkpoint.records.naming import given_in
from millpond.checkpoint.retention.reachable import SAVES
from millpond.errors import MillpondError, StorageError
from millpond.ids import EpochId, ManifestHash
from millpond.storage.content import get_content, put_content
from millpond.storage.contract import Storage
from millpond.storage.frame import FrameKind, seal, unseal


class Save(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The values of some keys after an epoch, None if they had none; keys ascend."""

    epoch: EpochId
    hash: ManifestHash
    keys: list[bytes]
    values: list[bytes | None]


_decoder = msgspec.msgpack.Decoder(Save)


def put_save(storage: Storage, save: Save) -> SaveRef:
    """Store a save; a manifest may name what comes back."""
    assert len(save.keys) == len(save.values), (len(save.keys), len(save.values))
    ref = put_content(storage, SAVES, seal(FrameKind.SAVED, msgspec.msgpack.encode(save)), save.hash)
    return SaveRef(save.epoch, ref, len(save.keys))


def read_save(storage: Storage, ref: SaveRef) -> Save:
    """Read a save that a manifest names, or raise a `StorageError`."""
    save = _decode(get_content(storage, ref.file), ref.file.name)
    if save.epoch != ref.epoch or len(save.keys) != ref.entries:
        raise _nonsense(ref.file.name, f"{len(save.keys)} keys after epoch {save.epoch}")
    return save


def saves_of(storage: Storage, head: Manifest, head_hash: ManifestHash, since: int) -> Iterator[Save]:
    """Yield all saves of the head's timeline after an epoch, the oldest first.

    One that the head names must be there. Of the others, those that can't be read were never finished.
    """
    hashes = {int(delta.epoch) - 1: delta.parent for delta in head.deltas} | {int(head.epoch): head_hash}
    named = [read_save(storage, ref) for ref in head.saves]
    known = {ref.file.name for ref in head.saves}
    others = [save for name in given_in(storage, SAVES) if name not in known and (save := _attempt(storage, name))]
    for save in sorted((*named, *others), key=lambda save: save.epoch):
        if save.epoch > since and hashes.get(save.epoch) == save.hash:
            yield save


def _attempt(storage: Storage, name: str) -> Save | None:
    try:
        return _decode(storage.get(name), name)
    except MillpondError:
        return None


def _decode(data: bytes, name: str) -> Save:
    try:
        save = _decoder.decode(unseal(FrameKind.SAVED, data, name))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _nonsense(name, str(error)[:200]) from error
    if len(save.keys) != len(save.values):
        raise _nonsense(name, f"{len(save.keys)} keys and {len(save.values)} values")
    check_changes(save.keys, name)
    return save


def _nonsense(name: str, found: str) -> StorageError:
    return StorageError(
        "MP315",
        f"the saved keys in {name} can't be decoded",
        expected="keys and values after the epoch that the manifest says",
        found=found,
        hint="restore this file from a copy of the checkpoint",
    )
