"""When it pays to merge the deltas into a snapshot, and what a snapshot is before a manifest names it."""

from __future__ import annotations

import msgspec

from millpond.checkpoint.records.manifest import EpochDeltas, Manifest, StateFile
from millpond.ids import EpochId, ManifestHash

DELTA_BYTES_MIN = 16 * 1024 * 1024
"""Replaying less than this takes well under a second, so a snapshot would not be felt."""

GROWTH = 2
"""How many times as large as the last snapshot deltas grow before the next: it is written half as often as the state is
written by deltas, and recovery reads at most three times the state. A merge of gigabytes takes what epochs would use:
at 1, epochs on two full cores lost a tenth of their rate to it.
"""

DELTA_EPOCHS_MAX = 64
"""Each epoch adds a file to open at recovery and a line to every manifest, however small its delta is."""

EPOCH_BYTES = 4 * 1024 * 1024
"""For a large state more epochs may pass: one for so many bytes of the snapshot. A file more is soon read beside it,
while small changes anywhere in the state let all of it be written anew.
"""

OVERDUE = 2
"""How many times the deltas may outgrow the point where a snapshot is due before the end of a run waits for one."""


class Snapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole state of a committed epoch, in chunks that cover all key groups; the hash tells timelines apart."""

    epoch: EpochId
    hash: ManifestHash
    files: tuple[StateFile, ...]


def snapshot_due(head: Manifest | None, times: int = 1) -> bool:
    """Say whether the state at `head` shall be written as a snapshot, or is overdue by so many times.

    As long as there is none, the largest delta counts as one: to write what a first epoch loaded once more would bring
    nothing.
    """
    if head is None:
        return False
    since = [_total(delta.files) for delta in _since(head)]
    base = _total(head.snapshot) or max(since, default=0)
    grown = sum(since) - (0 if head.snapshot else base)
    epochs_max = max(DELTA_EPOCHS_MAX, _total(head.snapshot) // EPOCH_BYTES)
    return len(since) >= times * epochs_max or grown > times * max(DELTA_BYTES_MIN, GROWTH * base)


def bytes_to_merge(head: Manifest) -> int:
    """Say how many bytes a snapshot of `head` reads."""
    return _total(head.snapshot) + sum(_total(delta.files) for delta in _since(head))


def fits(snapshot: Snapshot, head: Manifest, head_hash: ManifestHash, key_groups: int) -> bool:
    """Say whether a manifest after `head` may name a snapshot.

    It is newer, of the same timeline, and speaks for all.
    """
    if snapshot.epoch <= head.snapshot_epoch or not covers_all(snapshot.files, key_groups):
        return False
    if any(delta.loss is not None and delta.epoch > snapshot.epoch for delta in head.deltas):
        # It holds what was given up since.
        return False
    if snapshot.epoch == head.epoch:
        return snapshot.hash == head_hash
    return any(delta.epoch == snapshot.epoch + 1 and delta.parent == snapshot.hash for delta in head.deltas)


def covers_all(files: tuple[StateFile, ...], key_groups: int) -> bool:
    """Say whether chunks speak for every key group, each for its own; one left out would be forgotten.

    A chunk is several files of the same groups, if the storage is chosen by element.
    """
    next_group = 0
    for first, last in sorted({(state.first_group, state.last_group) for state in files}):
        if first != next_group:
            return False
        next_group = last + 1
    return next_group == key_groups


def _since(head: Manifest) -> list[EpochDeltas]:
    return [delta for delta in head.deltas if delta.epoch > head.snapshot_epoch]


def _total(files: tuple[StateFile, ...]) -> int:
    return sum(state.file.size_bytes for state in files)
