"""The records of a checkpoint: its genesis, and one manifest per epoch, chained by hashes.

A manifest is the commit point of its epoch: what it names exists, and what no manifest names was never written.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import msgspec

from millpond.checkpoint.records.claims import claim, claim_unique
from millpond.checkpoint.records.format1 import renewed
from millpond.checkpoint.records.offers import Batch, BoundedRun, Evolved, Loaded, Lost, Offer, Rescaled, Ticked
from millpond.checkpoint.records.times import Times
from millpond.errors import MillpondError, StorageError
from millpond.ids import EpochId, ManifestHash
from millpond.keygroups import KEY_GROUPS_MAX, Layout
from millpond.state.codec.shapes import TypeShape
from millpond.state.local.storekey import ELEMENTS_MAX
from millpond.storage.content import FileRef
from millpond.storage.contract import check_name
from millpond.storage.frame import FrameKind, seal, unseal
from millpond.windowing.keyed.notes import WindowsNote

FORMAT = 2
"""The version of genesis and manifest; docs/FORMAT.md says what each version holds."""

GENESIS_NAME = "genesis"
MANIFESTS = "manifests"
EPOCH_DIGITS = 10

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HASH = re.compile(r"[0-9a-f]{64}")


class ElementSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A state element as the checkpoint knows it; its place among the elements is its index in every store key.

    `shape` is what values look like, if their type's text does not say all of it: what their classes are made of.
    `windows` is what an element of windows was made for.
    """

    name: str
    kind: str
    distribution: str
    by: str
    key: str
    value: str
    shape: TypeShape | None = None
    windows: WindowsNote | None = None

    def __str__(self) -> str:
        by = f" by {self.by}" if self.by else ""
        return f"{self.name}: {self.distribution} {self.kind}[{self.key}, {self.value}]{by}"


class Ancestor(NamedTuple):
    """A checkpoint that another one was forked from, and the epoch up to which both have one history."""

    checkpoint: str
    epoch: int


class Genesis(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is fixed for the life of a checkpoint.

    `lineage` is what a fork comes from, the oldest first; forks that earlier versions made do not tell.
    """

    format: int
    uuid: str
    key_groups: int
    instances: int
    elements: tuple[ElementSchema, ...]
    created_ms: int
    lineage: tuple[Ancestor, ...] = ()

    def __post_init__(self) -> None:
        claim(1 <= self.format <= FORMAT, "format", f"1 to {FORMAT}", self.format)
        claim(_UUID.fullmatch(self.uuid) is not None, "uuid", "a UUID in lower case", self.uuid)
        claim(1 <= self.key_groups <= KEY_GROUPS_MAX, "key_groups", f"1 to {KEY_GROUPS_MAX}", self.key_groups)
        claim(1 <= self.instances <= self.key_groups, "instances", f"1 to {self.key_groups}", self.instances)
        claim(len(self.elements) <= ELEMENTS_MAX, "elements", f"at most {ELEMENTS_MAX}", len(self.elements))
        claim_unique([element.name for element in self.elements], "elements")
        known = all(_UUID.fullmatch(base.checkpoint) and base.epoch >= 1 for base in self.lineage)
        claim(known, "lineage", "UUIDs in lower case, and epochs from 1 on", self.lineage)


Elements = tuple[ElementSchema | None, ...]
"""The elements of a checkpoint at some epoch, by their index; None where one was dropped."""


def elements_mark(elements: Elements) -> str:
    """Name elements by what they are: equal ones have equal marks."""
    return hashlib.sha256(msgspec.json.encode(elements, order="sorted")).hexdigest()[:16]


class StateFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A delta or a chunk of a snapshot, and the range of key groups that it covers, both ends included."""

    file: FileRef
    first_group: int
    last_group: int
    entries: int

    def __post_init__(self) -> None:
        ordered = 0 <= self.first_group <= self.last_group < KEY_GROUPS_MAX
        claim(ordered, "key groups", "first <= last", (self.first_group, self.last_group))
        claim(self.entries >= 0, "entries", "0 or more", self.entries)

    def overlaps(self, first_group: int, last_group: int) -> bool:
        """Say whether the file covers a group of the given range, both ends included."""
        return self.first_group <= last_group and first_group <= self.last_group


class Ownership(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which partition owns which key groups, where that does not follow from their numbers.

    `runs` are key groups and partitions: from each group on up to the next one, that partition owns all.
    """

    partitions: int
    runs: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        firsts = [first for first, _ in self.runs]
        claim(firsts[:1] == [0], "ownership", "runs from key group 0 on", firsts[:1])
        claim(all(a < b for a, b in pairwise(firsts)), "ownership", "ascending key groups", firsts)
        claim(firsts[-1] < KEY_GROUPS_MAX, "ownership", f"key groups below {KEY_GROUPS_MAX}", firsts[-1])
        owners = [owner for _, owner in self.runs]
        fit = all(0 <= owner < self.partitions for owner in owners)
        claim(fit, "ownership", f"partitions 0 to {self.partitions - 1}", owners)

    @classmethod
    def of(cls, layout: Layout) -> Ownership | None:
        """Return what a manifest says of a layout; nothing if no owners were assigned."""
        if layout.assigned is None:
            return None
        ended = zip(layout.assigned, (None, *layout.assigned), strict=False)
        runs = tuple((group, owner) for group, (owner, before) in enumerate(ended) if owner != before)
        return cls(layout.partitions, runs)

    def owners(self, key_groups: int) -> tuple[int, ...]:
        """Return the owner of every key group."""
        ends = [*(first for first, _ in self.runs[1:]), key_groups]
        return tuple(owner for (first, owner), end in zip(self.runs, ends, strict=True) for _ in range(first, end))


class EpochInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an epoch was computed from, so that it can be computed again: rows by partition, or messages that were left.

    The rest is what the plan of the epoch had: the feeds, how names of sources began, its time, and how it was divided.
    """

    sources: tuple[str, ...]
    now_us: int
    partitions: int
    instances: int
    steps_max: int
    rows: tuple[tuple[int, str], ...] = ()
    pending: tuple[FileRef, ...] = ()
    source_prefix: str = ""
    ownership: Ownership | None = None

    def __post_init__(self) -> None:
        claim(self.partitions >= 1, "partitions", "1 or more", self.partitions)
        claim(self.instances >= 1, "instances", "1 or more", self.instances)
        claim(self.steps_max >= 1, "steps_max", "1 or more", self.steps_max)
        claim(not (self.rows and self.pending), "rows", "none, since messages were left", len(self.rows))
        numbers = [partition for partition, _ in self.rows]
        claim(all(0 <= number < self.partitions for number in numbers), "rows", "partitions of the epoch", numbers)
        claim_unique(numbers, "rows")
        for _, name in self.rows:
            check_name(name)


class Loss(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was near a host alone and is lost: the epochs that wrote it, and at most so many keys and updates.

    `restored` keys had been saved, and are as their last save has them.
    """

    epochs: tuple[int, ...]
    files: int
    keys: int
    updates: int
    restored: int

    def __str__(self) -> str:
        if not self.epochs:
            return "nothing was lost with the host"
        first, last = self.epochs[0], self.epochs[-1]
        numbers = f"epoch {first}" if first == last else f"epochs {first} to {last}"
        lost = f"at most {self.updates:,} updates of at most {self.keys:,} keys"
        return f"{lost} of {numbers} were lost with their host; {self.restored:,} keys came back from their last save"


class SaveRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file with saved keys of elements with bounded loss, as they were after an epoch."""

    epoch: EpochId
    file: FileRef
    entries: int


class EpochDeltas(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one epoch changed, and the hash of the manifest it changed: so a store knows which deltas it lacks.

    With an `input`, the files may be near a host alone, and are computed again if they are lost. Those in `lazy`, each
    with how many updates it holds, may be near a host alone too; if one is lost, an epoch with a `loss` says so, and
    the file is no longer among those of its epoch. No store is brought over that epoch by deltas.
    """

    epoch: EpochId
    parent: ManifestHash
    files: tuple[StateFile, ...]
    input: EpochInput | None = None
    lazy: tuple[tuple[str, int], ...] = ()
    loss: Loss | None = None

    def __post_init__(self) -> None:
        claim(self.epoch >= 1, "epoch", "1 or more", self.epoch)
        claim(_HASH.fullmatch(self.parent) is not None, "parent", "a SHA-256 in hex", self.parent)
        claim_unique([state.file.name for state in self.files if state.entries], "files")
        strangers = self.lazy_names - {state.file.name for state in self.files}
        claim(not strangers, "lazy", "files of the epoch", sorted(strangers))

    @property
    def lazy_names(self) -> frozenset[str]:
        """The files whose loss is borne."""
        return frozenset(name for name, _ in self.lazy)

    def without(self, lost: Container[str]) -> EpochDeltas:
        """Return what is left of the epoch's changes when files are lost."""
        files = tuple(state for state in self.files if state.file.name not in lost)
        lazy = tuple(pair for pair in self.lazy if pair[0] not in lost)
        return self if files == self.files else msgspec.structs.replace(self, files=files, lazy=lazy)


class OutputFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of replies; its name is relative to `root`, the folder of its sink.

    A `visible` one is published by the name itself, so the manifest alone says all that publication must know. Of one
    that is `noted` a note says when it was published; earlier versions made none.
    """

    sink: str
    file: FileRef
    rows: int
    root: str = ""
    visible: bool = False
    noted: bool = False

    def __post_init__(self) -> None:
        claim(self.rows >= 0, "rows", "0 or more", self.rows)
        claim("/" not in self.file.name, "outputs", "a file in the root of its sink", self.file.name)
        claim(_is_root(self.root), "root", "a whole path, or checkpoint:", self.root)


def _is_root(root: str) -> bool:
    """Say whether this is where a sink's files may lie: a folder, or the checkpoint itself."""
    return (root.startswith("/") and "\0" not in root) or root in {"", "checkpoint:"}


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A committed epoch: what was applied, by the `offer`, and what the state is made of since.

    `deltas` end with the epoch's own and reach back at least to the snapshot, and further for stores that lag a
    little. `stream` is the last batch of a stream up to here, this one included: bounded runs in between keep it.
    `pending` are files of messages that the batch left; the next epoch goes on with them before any other batch.
    `instances` is how many there are of partial state from this epoch on; None is the number of the genesis.
    `elements` are the state elements from this epoch on, by index; None are those of the genesis. `evolved` is the last
    epoch that changed them, 0 if none did. `loads` are the names of all loads of initial state so far. `saves` are
    files of saved keys since the snapshot. `ownership` is who owned which key groups, if that was assigned;
    epochs without rows hand it on, as they do with `times`. `settings` are marks of the program's settings by name. The
    `format` is the one that it was written in, also if it is told as it is now.
    """

    format: int
    checkpoint: str
    epoch: EpochId
    parent: ManifestHash
    offer: Offer
    partitions: int
    snapshot_epoch: EpochId
    snapshot: tuple[StateFile, ...]
    deltas: tuple[EpochDeltas, ...]
    outputs: tuple[OutputFile, ...]
    runs: tuple[str, ...]
    counters: dict[str, int]
    times: Times
    stream: Batch | None
    pending: tuple[FileRef, ...] = ()
    instances: int | None = None
    elements: Elements | None = None
    evolved: EpochId = EpochId(0)
    loads: tuple[str, ...] = ()
    saves: tuple[SaveRef, ...] = ()
    ownership: Ownership | None = None
    settings: dict[str, str] = {}

    def __post_init__(self) -> None:
        claim(1 <= self.format <= FORMAT, "format", f"1 to {FORMAT}", self.format)
        claim(_UUID.fullmatch(self.checkpoint) is not None, "checkpoint", "a UUID in lower case", self.checkpoint)
        claim(1 <= self.epoch < 10**EPOCH_DIGITS, "epoch", f"1 to {EPOCH_DIGITS} digits", self.epoch)
        claim(self.partitions >= 1, "partitions", "1 or more", self.partitions)
        claim(0 <= self.snapshot_epoch <= self.epoch, "snapshot_epoch", f"0 to {self.epoch}", self.snapshot_epoch)
        claim(self.snapshot_epoch > 0 or not self.snapshot, "snapshot", "none at epoch 0", len(self.snapshot))
        self._check_deltas()
        self._check_offer()
        claim_unique([state.file.name for state in self.snapshot if state.entries], "snapshot")
        claim_unique([(output.sink, output.file.name) for output in self.outputs], "outputs")
        claim_unique(self.runs, "runs")
        claim_unique(self.loads, "loads")
        claim(0 <= self.evolved <= self.epoch, "evolved", f"0 to {self.epoch}", self.evolved)
        if self.elements is not None:
            claim(len(self.elements) <= ELEMENTS_MAX, "elements", f"at most {ELEMENTS_MAX}", len(self.elements))
            claim_unique([element.name for element in self.elements if element is not None], "elements")

    def _check_deltas(self) -> None:
        epochs = [delta.epoch for delta in self.deltas]
        first = epochs[0] if epochs else self.epoch + 1
        claim(epochs == list(range(first, self.epoch + 1)), "deltas", f"contiguous up to {self.epoch}", epochs)
        claim(epochs != [], "deltas", "at least the epoch's own", epochs)
        claim(first <= self.snapshot_epoch + 1, "deltas", f"from {self.snapshot_epoch + 1} or before", epochs)
        claim(self.deltas[-1].parent == self.parent, "parent", self.deltas[-1].parent, self.parent)

    def _check_offer(self) -> None:
        match self.offer:
            case Batch():
                claim(self.stream == self.offer, "stream", "the epoch's own batch", self.stream)
            case BoundedRun(name):
                claim(name in self.runs, "runs", f"{name} among them", self.runs)
            case Rescaled(instances):
                claim(self.instances in (None, instances), "instances", str(instances), self.instances)
            case Evolved():
                claim(self.evolved == self.epoch, "evolved", str(self.epoch), self.evolved)
            case Loaded(name):
                claim(name in self.loads, "loads", f"{name} among them", self.loads)
            case Lost():
                claim(self.deltas[-1].loss is not None, "loss", "what was lost", None)
        if not isinstance(self.offer, Batch | BoundedRun):
            told = () if isinstance(self.offer, Ticked) else self.outputs
            claim(not told and not self.pending, "outputs", "none, since no rows are fed", len(told))

    def check_instances(self, genesis: Genesis) -> None:
        """Raise unless the number of instances is one that this checkpoint can have, noted in the one way there is."""
        count = self.instances
        fits = count is None or (1 <= count <= genesis.key_groups and count != genesis.instances)
        claim(fits, "instances", f"1 to {genesis.key_groups}, and none for {genesis.instances}", count)
        if isinstance(self.offer, Rescaled):
            asked = self.offer.instances
            claim(asked == (count or genesis.instances), "instances", str(asked), count)

    def check_elements(self, genesis: Genesis) -> None:
        """Raise unless the elements are noted in the one way there is, and are what an evolution said."""
        claim(self.elements != genesis.elements, "elements", "none for those of the genesis", "those of the genesis")
        if isinstance(self.offer, Evolved):
            mark = elements_mark(elements_of(genesis, self))
            claim(self.offer.mark == mark, "elements", f"the mark {self.offer.mark}", mark)

    def check_ownership(self, genesis: Genesis) -> None:
        """Raise unless the key groups that are owned are those of the checkpoint."""
        last = 0 if self.ownership is None else self.ownership.runs[-1][0]
        claim(last < genesis.key_groups, "ownership", f"key groups below {genesis.key_groups}", last)

    @property
    def name(self) -> str:
        """The name under which this manifest is committed."""
        return manifest_name(self.epoch)


def elements_of(genesis: Genesis, manifest: Manifest | None) -> Elements:
    """Return the elements after an epoch: those of its manifest, or of the genesis if it has none of its own."""
    return genesis.elements if manifest is None or manifest.elements is None else manifest.elements


class _Versioned(msgspec.Struct, frozen=True):
    """The one field of a manifest that tells what the others are."""

    format: int


_Record = TypeVar("_Record", Genesis, Manifest)


def manifest_name(epoch: int) -> str:
    """Return the name of an epoch's manifest; names sort by epoch."""
    return f"{MANIFESTS}/{epoch:0{EPOCH_DIGITS}}"


def manifest_hash(data: bytes) -> ManifestHash:
    """Return the hash of a manifest's (or the genesis') file, which names a point of one timeline."""
    return ManifestHash(hashlib.sha256(data).hexdigest())


def encode_genesis(genesis: Genesis) -> bytes:
    """Return the bytes of the genesis file; equal records give equal bytes."""
    return seal(FrameKind.GENESIS, msgspec.json.encode(genesis, order="sorted"))


def decode_genesis(data: bytes) -> Genesis:
    """Read a genesis file, or raise a `StorageError`."""
    return _decode(Genesis, FrameKind.GENESIS, data, GENESIS_NAME)


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the bytes of a manifest's file; equal records give equal bytes."""
    assert manifest.format == FORMAT, "what an older version wrote is read, and never written again"
    return seal(FrameKind.MANIFEST, msgspec.json.encode(manifest, order="sorted"))


def decode_manifest(data: bytes, name: str) -> Manifest:
    """Read a manifest's file, or raise a `StorageError` that names it."""
    return _decode(Manifest, FrameKind.MANIFEST, data, name)


def _decode(record: type[_Record], kind: FrameKind, data: bytes, name: str) -> _Record:
    payload = unseal(kind, data, name)
    try:
        if record is Manifest and msgspec.json.decode(payload, type=_Versioned).format == 1:
            return msgspec.convert(renewed(msgspec.json.decode(payload, type=dict[str, Any])), record)
        return msgspec.json.decode(payload, type=record)
    except (msgspec.MsgspecError, MillpondError, ValueError, RecursionError) as error:
        raise StorageError(
            "MP312",
            f"{name} can't be understood",
            expected=f"a {kind.name.lower()} of format 1 to {FORMAT}",
            found=str(error)[:400],
            hint="run the version of Millpond that wrote the checkpoint, or a newer one",
        ) from error
