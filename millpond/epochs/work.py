"""What passes between the commit protocol and those who run an epoch: the parent goes out, work comes back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

import msgspec

from millpond.epochs.deltas import Changes
from millpond.epochs.manifest import Elements, EpochDeltas, EpochInput, Manifest, OutputFile, StateFile
from millpond.errors import EpochError
from millpond.ids import EpochId, ManifestHash, PartitionId
from millpond.storage.content import FileRef


class JobAborted(EpochError):  # noqa: N818 - an event of the protocol, told by raising it
    """The job of an epoch was given up before it gave a result; the epoch may be tried again from its parent."""


class Parent(msgspec.Struct, frozen=True):
    """The committed point that an epoch starts from: all that a task needs to open its state."""

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


@dataclass(frozen=True, slots=True)
class PartResult:
    """What one partition changed: small changes inline, large ones in files that it wrote."""

    partition: PartitionId
    inline: Changes | None = None
    files: tuple[StateFile, ...] = ()


@dataclass(frozen=True, slots=True)
class EpochWork:
    """All that an epoch computed; `pending` are files of messages that the next epoch goes on with.

    `elements` are those of the checkpoint from now on, if the epoch changes them. `input` is what it was computed from,
    if that is kept instead of what it changed.
    """

    parts: tuple[PartResult, ...]
    outputs: tuple[OutputFile, ...]
    counters: dict[str, int]
    pending: tuple[FileRef, ...] = ()
    elements: Elements | None = None
    input: EpochInput | None = None


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
    """How an offer ended, and the manifest that holds it."""

    result: EpochResult
    manifest: Manifest
    timings: EpochTimings
