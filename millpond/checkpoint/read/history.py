"""The kept epochs of a checkpoint, and the points of time that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from millpond.checkpoint.read.elements import ElementReader
from millpond.checkpoint.records.heads import newest_head
from millpond.checkpoint.records.manifest import (
    EPOCH_DIGITS,
    MANIFESTS,
    Elements,
    ElementSchema,
    EpochDeltas,
    Genesis,
    Manifest,
    StateFile,
    decode_manifest,
    elements_of,
    manifest_hash,
    manifest_name,
)
from millpond.checkpoint.recovery import misplaced, newest_lost, read_genesis, restore_files
from millpond.errors import EpochError, NoCheckpointError, StateError, StorageError
from millpond.ids import ManifestHash
from millpond.keygroups import KEY_GROUPS_MAX
from millpond.storage.addresses import shown_url
from millpond.storage.contract import Storage

_SHOWN_MAX = 12
"""How many epochs or elements an error lists."""


def is_here(storage: Storage, delta: EpochDeltas) -> bool:
    """Say whether all that an epoch changed is in a storage; of one whose rows were logged it may be elsewhere."""
    return all(storage.contains(state.file.name) for state in delta.files)


@dataclass(frozen=True, slots=True)
class Point:
    """A committed epoch and its state; epoch 0 is the empty checkpoint before the first one."""

    epoch: int
    hash: ManifestHash
    instances: int
    manifest: Manifest | None
    elements: Elements

    def files(self, groups: range | None = None) -> tuple[StateFile, ...]:
        """Return the files that hold the state of some key groups, in the order in which they apply."""
        if self.manifest is None or (groups is not None and not groups):
            return ()
        first, last = (0, KEY_GROUPS_MAX) if groups is None else (groups[0], groups[-1])
        return restore_files(self.manifest, first, last)

    @property
    def over_us(self) -> Mapping[int, int]:
        """By the index of an element with a time to live, the stamp up to which its entries are over here."""
        return {} if self.manifest is None else self.manifest.times.over_us


class History:
    """A checkpoint as it is found now; epochs that are committed later are not seen."""

    def __init__(self, storage: Storage) -> None:
        there = read_genesis(storage)
        if there is None:
            raise NoCheckpointError(
                "MP350",
                "there is no checkpoint here",
                expected="the folder or the address that was given to a job as `checkpoint`",
                found=f"no genesis in {shown_url(storage.url)}",
                hint="check the path",
            )
        self.storage = storage
        self.genesis: Genesis
        self.genesis, self.genesis_hash = there
        self.head = newest_head(storage)
        self.epochs, self.strays = kept_epochs(storage)

    def point(self, epoch: int | None = None) -> Point:
        """Return the state after an epoch; by default the newest, or the empty state if there is none yet."""
        if epoch is None:
            epoch = self.newest()
        if epoch == 0:
            return Point(0, self.genesis_hash, self.genesis.instances, None, self.genesis.elements)
        if epoch not in self.epochs:
            raise _not_kept(epoch, self.epochs)
        manifest, digest = self.manifest(epoch)
        self.check_link(manifest)
        return Point(epoch, digest, self.instances_of(manifest), manifest, elements_of(self.genesis, manifest))

    def newest(self) -> int:
        """Return the newest epoch, 0 before the first one; an error if a later one is known to be lost."""
        newest = self.epochs[-1] if self.epochs else 0
        if self.head is not None and self.head.epoch > newest:
            raise newest_lost(newest, self.head.epoch)
        return newest

    def manifest(self, epoch: int) -> tuple[Manifest, ManifestHash]:
        """Return the manifest of a kept epoch and its hash; that it is this checkpoint's own is checked."""
        name = manifest_name(epoch)
        data = self.storage.get(name)
        manifest = decode_manifest(data, name)
        if manifest.epoch != epoch:
            raise misplaced(name, f"the manifest of epoch {epoch}", f"that of epoch {manifest.epoch}")
        if manifest.checkpoint != self.genesis.uuid:
            raise misplaced(name, f"a manifest of checkpoint {self.genesis.uuid}", f"one of {manifest.checkpoint}")
        manifest.check_instances(self.genesis)
        manifest.check_elements(self.genesis)
        return manifest, manifest_hash(data)

    def hash_of(self, epoch: int) -> ManifestHash | None:
        """Return the hash of an epoch's manifest as it is stored, of the genesis for epoch 0.

        None if it is not kept.
        """
        if epoch == 0:
            return self.genesis_hash
        try:
            return manifest_hash(self.storage.get(manifest_name(epoch))) if epoch in self.epochs else None
        except StorageError:
            if self.holds(epoch):
                raise
            return None

    def holds(self, epoch: int) -> bool:
        """Say whether the manifest of an epoch is still there: a job may delete old ones at any time."""
        return self.storage.contains(manifest_name(epoch))

    def check_link(self, manifest: Manifest) -> None:
        """Refuse a manifest that is not the child of the one before it, if that one is kept."""
        before = self.hash_of(manifest.epoch - 1)
        if before is not None and before != manifest.parent:
            expected, found = f"a parent with hash {before}", f"a parent with hash {manifest.parent}"
            raise misplaced(manifest.name, expected, found)

    def instances_of(self, manifest: Manifest) -> int:
        """Say how many instances partial state has after an epoch.

        The genesis' number, unless the manifest has its own.
        """
        return manifest.instances or self.genesis.instances

    def element(self, name: str, point: Point | None = None) -> tuple[int, ElementSchema]:
        """Return the index and the schema that an element has at a point, by default the newest."""
        point = point or self.point()
        found = find_element(name, point)
        if found is not None:
            return found
        raise StateError(
            "MP240",
            "the checkpoint has no state element of this name",
            expected=", ".join(names_of(point)) or "none: the program has no state",
            found=ascii(name)[:80],
            hint="use a name as the program declared it at that epoch",
        )

    def reader(self, name: str, point: Point) -> ElementReader:
        """Return what decodes the entries of an element at a point."""
        self.check_here(point)
        index, schema = self.element(name, point)
        return ElementReader(index, schema, self.genesis.key_groups, point.instances)

    def check_here(self, point: Point) -> None:
        """Refuse a state of which a part is only near the host that ran the job."""
        manifest = point.manifest
        if manifest is None:
            return
        for delta in manifest.deltas:
            near = (delta.input is not None or delta.lazy) and delta.epoch > manifest.snapshot_epoch
            if near and not is_here(self.storage, delta):
                level = "its rows" if delta.input is not None else "some of its keys"
                raise EpochError(
                    "MP456",
                    f"the state of epoch {point.epoch} is not in the checkpoint as a whole",
                    expected=f"what epoch {delta.epoch} changed",
                    found=f"{level}, by the durability of the job; the rest is unsynced, on the host that ran it",
                    hint=f"read epoch {manifest.snapshot_epoch} if it is kept, or start the job once with "
                    'Durability("exactly_once"): that keeps what is missing, up to the last epoch',
                )

    def deltas(self, since: int, until: int) -> tuple[EpochDeltas, ...]:
        """Return what each epoch after `since` changed, up to `until`.

        Each is in its own manifest or in a later one.
        """
        found: dict[int, EpochDeltas] = {}
        at = until
        while at > since:
            lister = next((epoch for epoch in self.epochs if epoch >= at), None)
            listed = () if lister is None else self.manifest(lister)[0].deltas
            fresh = {int(delta.epoch): delta for delta in listed if since < delta.epoch <= at}
            if at not in fresh:
                raise EpochError(
                    "MP451",
                    "the changes of an epoch are not kept any more",
                    expected=f"the changes of each epoch from {since + 1} to {until}",
                    found=f"no manifest that lists those of epoch {at}",
                    hint="compare the two epochs instead: `millpond state diff`",
                )
            found |= fresh
            at = min(fresh) - 1
        return tuple(found[epoch] for epoch in sorted(found))


def find_element(name: str, point: Point) -> tuple[int, ElementSchema] | None:
    """Return the index and the schema of an element at a point; None if there was no such element."""
    for index, schema in enumerate(point.elements):
        if schema is not None and schema.name == name:
            return index, schema
    return None


def names_of(*points: Point) -> list[str]:
    """Return the names of all elements at some points, by index."""
    found = {schema.name: None for point in points for schema in point.elements if schema is not None}
    return list(found)


def kept_epochs(storage: Storage) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the epochs whose manifests are there, ascending, and the names among them that are no manifest's."""
    epochs, strays = [], []
    for name in storage.list(MANIFESTS):
        digits = name.removeprefix(f"{MANIFESTS}/")
        if len(digits) == EPOCH_DIGITS and digits.isascii() and digits.isdecimal() and int(digits):
            epochs.append(int(digits))
        else:
            strays.append(name)
    return tuple(sorted(epochs)), tuple(strays)


def shown_epochs(epochs: Iterable[int]) -> str:
    """Epochs as ranges, short: `1 to 3, 7`."""
    runs: list[list[int]] = []
    for epoch in epochs:
        if runs and runs[-1][1] == epoch - 1:
            runs[-1][1] = epoch
        else:
            runs.append([epoch, epoch])
    shown = [str(first) if first == last else f"{first} to {last}" for first, last in runs]
    return ", ".join(shown if len(shown) <= _SHOWN_MAX else ["...", *shown[-_SHOWN_MAX:]])


def _not_kept(epoch: int, epochs: tuple[int, ...]) -> EpochError:
    number = str(epoch) if abs(epoch) < 10**EPOCH_DIGITS else f"of more than {EPOCH_DIGITS} digits"
    return EpochError(
        "MP450",
        f"epoch {number} is not kept in this checkpoint",
        expected=shown_epochs(epochs) or "none: no epoch was committed yet",
        found=number,
        hint="`millpond state ls` shows the epochs that are kept",
    )
