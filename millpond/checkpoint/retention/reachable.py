"""What manifests name, and which files of a checkpoint's storage may be garbage at all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from millpond.checkpoint.records.deltas import FOLDERS
from millpond.checkpoint.records.manifest import Manifest, decode_manifest, manifest_name
from millpond.checkpoint.records.naming import given_in
from millpond.checkpoint.snapshots.compaction import MERGED
from millpond.errors import MillpondError, MissingError
from millpond.ids import ManifestHash
from millpond.storage.contract import Storage

PENDING = "pending"
INPUTS = "inputs"
SAVES = "saves"
ASIDE = "aside"
"""Where a repair puts manifests that it takes out of the chain, and damaged files."""

COLLECTED = (*FOLDERS.values(), PENDING, INPUTS, SAVES, MERGED)
"""The folders in which files are deleted; whatever else lies in a checkpoint is left alone."""

UNNAMED_SNAPSHOTS = ("snapshots/", f"{MERGED}/")
"""What a merge in the background writes before any manifest names it."""


def names_of(manifest: Manifest) -> frozenset[str]:
    """Return all files that a manifest names in its checkpoint's storage; those of replies lie with their sinks."""
    names = {state.file.name for state in manifest.snapshot} | {ref.name for ref in manifest.pending}
    names.update(save.file.name for save in manifest.saves)
    for delta in manifest.deltas:
        names.update(state.file.name for state in delta.files)
        if delta.input is not None:
            names.update(name for _, name in delta.input.rows)
            names.update(ref.name for ref in delta.input.pending)
    return frozenset(names)


class Names:
    """The names in each manifest, read once each: a manifest never changes."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._known: dict[int, frozenset[str]] = {}

    def note(self, manifest: Manifest) -> None:
        """Take up a manifest that was just committed."""
        self._known[manifest.epoch] = names_of(manifest)

    def read(self, epochs: Iterable[int], reads_max: int) -> bool:
        """Read manifests that are not known yet; False if more are left than may be read at a time.

        One that is gone names nothing. One that can't be read is an error: what it names must not be deleted.
        """
        for epoch in epochs:
            if epoch in self._known:
                continue
            if reads_max == 0:
                return False
            reads_max -= 1
            name = manifest_name(epoch)
            try:
                self._known[epoch] = names_of(decode_manifest(self._storage.get(name), name))
            except MissingError:
                self._known[epoch] = frozenset()
        return True

    def forget_all_but(self, epochs: Collection[int]) -> None:
        """Forget manifests that are not there any more."""
        for epoch in [epoch for epoch in self._known if epoch not in epochs]:
            del self._known[epoch]

    def of(self, epochs: Iterable[int]) -> set[str]:
        """Everything that some manifests name, and what those name that were set aside."""
        found: set[str] = set()
        for epoch in epochs:
            found |= self._known[epoch]
        return found | self._set_aside()

    def _set_aside(self) -> set[str]:
        return {name for manifest in set_aside(self._storage) for name in names_of(manifest)}


def set_aside(storage: Storage) -> Iterator[Manifest]:
    """Yield the manifests that repairs took out of the chain, as far as they can be read."""
    for name in storage.list(ASIDE):
        try:
            yield decode_manifest(storage.get(name), name)
        except MillpondError:
            # Not a manifest, or a damaged one: that is why it was set aside.
            continue


def was_followed(storage: Storage, epoch: int, digest: ManifestHash) -> bool:
    """Say whether a repair went back to this epoch from the next one: then all that it has for sinks was published."""
    return any(one.epoch == epoch + 1 and one.parent == digest for one in set_aside(storage))


def files_there(storage: Storage) -> list[str]:
    """Return every file of a checkpoint that may be garbage; what Millpond did not name is none."""
    return [name for folder in COLLECTED for name in given_in(storage, folder)]
