"""What passes between the commit protocol and those who run an epoch: the parent goes out, work comes back."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

import msgspec

from millpond.checkpoint.records.manifest import (
    Elements,
    EpochDeltas,
    EpochInput,
    Loss,
    Manifest,
    OutputFile,
    SaveRef,
    StateFile,
)
from millpond.checkpoint.records.times import TaskTimes, Times
from millpond.checkpoint.snapshots.snapshots import Snapshot
from millpond.errors import EpochError
from millpond.ids import EpochId, ManifestHash
from millpond.state.changes import Changes
from millpond.storage.content import FileRef

EVENT_BYTES = 4
_NO_TIMES = TaskTimes()

NO_CHANGES = Changes([], [])

ENTRIES = "entries"
"""The counter of how many entries of state an epoch adds."""

RUNNING_TOTAL = "total."
"""How counters begin that go on from epoch to epoch."""


class JobAborted(EpochError):  # noqa: N818 - an event of the protocol, told by raising it
    """The job of an epoch was given up before it gave a result; the epoch may be tried again from its parent."""


class Parent(msgspec.Struct, frozen=True):
    """The committed point that an epoch starts from: all that a task needs to open its state.

    `mark` goes into the names of all files that the epoch writes: no other epoch has it, and no other driver.
    """

    uuid: str
    epoch: EpochId
    hash: ManifestHash
    key_groups: int
    instances: int
    snapshot_epoch: EpochId
    snapshot: tuple[StateFile, ...]
    deltas: tuple[EpochDeltas, ...]
    pending: tuple[FileRef, ...] = ()
    elements: Elements = ()
    mark: str = ""


class UnsyncedFile(msgspec.Struct, frozen=True):
    """A file of elements with bounded loss, and how many rows met each of its keys, four bytes each, big-endian."""

    state: StateFile
    events: bytes


def pack_events(events: Iterable[int]) -> bytes:
    """Say how many rows met each key, as bytes."""
    packed = array("I", events)
    assert packed.itemsize == EVENT_BYTES
    if sys.byteorder == "little":
        packed.byteswap()
    return packed.tobytes()


def unpack_events(data: bytes) -> array[int]:
    """Read what `pack_events` wrote."""
    events = array("I", data)
    if sys.byteorder == "little":
        events.byteswap()
    return events


class UnsyncedChanges(msgspec.Struct, frozen=True):
    """What a task changed of elements with bounded loss: small changes inline, large ones in files near the host."""

    inline: Changes = NO_CHANGES
    events: list[int] = []
    files: tuple[UnsyncedFile, ...] = ()


class Changed(msgspec.Struct, frozen=True):
    """What a task or an epoch changed: small changes inline, large ones in files that it wrote.

    `growth` is by how many entries the state grew. What has bounded loss is `near`, and not among the others.
    """

    inline: Changes = NO_CHANGES
    files: tuple[StateFile, ...] = ()
    growth: int = 0
    unsynced: UnsyncedChanges = UnsyncedChanges()


NO_CHANGE = Changed()


@dataclass(frozen=True, slots=True)
class EpochWork:
    """All that an epoch computed; `pending` are files of messages that the next epoch goes on with.

    `elements` are those of the checkpoint from now on, if the epoch changes them. `input` is what it was computed from,
    if that is kept instead of what it changed. `saves` are what was saved of state with bounded loss since the last
    epoch. With a `loss`, the epoch goes on without the files
    that are `lost`. A `snapshot` is one that the manifest must name, because the work builds on it. `observed` is what
    its tasks told of time, and `times` is what follows from it; without, the times before it go on.
    """

    changed: tuple[Changed, ...]
    outputs: tuple[OutputFile, ...]
    counters: dict[str, int]
    pending: tuple[FileRef, ...] = ()
    elements: Elements | None = None
    input: EpochInput | None = None
    saves: tuple[SaveRef, ...] = ()
    loss: Loss | None = None
    lost: frozenset[str] = frozenset()
    snapshot: Snapshot | None = None
    observed: TaskTimes = _NO_TIMES
    times: Times | None = None


class EpochResult(Enum):
    """How an offer ended well."""

    COMMITTED = auto()
    ALREADY_COMMITTED = auto()


@dataclass(frozen=True, slots=True)
class EpochTimings:
    """Where the time of an epoch went, in seconds."""

    compute_s: float = 0.0
    segment_s: float = 0.0
    commit_s: float = 0.0
    publish_s: float = 0.0


@dataclass(frozen=True, slots=True)
class EpochOutcome:
    """How an offer ended, and the manifest that holds it, with its files of elements with bounded loss."""

    result: EpochResult
    manifest: Manifest
    timings: EpochTimings
    unsynced: tuple[UnsyncedFile, ...] = ()
