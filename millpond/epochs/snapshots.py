"""When it pays to write the whole state anew."""

from __future__ import annotations

from millpond.epochs.manifest import EpochDeltas, Manifest, StateFile

DELTA_BYTES_MIN = 16 * 1024 * 1024
"""Replaying less than this takes well under a second, so a snapshot would not be felt."""

DELTA_EPOCHS_MAX = 64
"""Each epoch adds a file to open at recovery and a line to every manifest, however small its delta is."""


def snapshot_due(head: Manifest | None) -> bool:
    """Whether the epoch after `head` shall write a snapshot.

    Deltas may grow as large as the snapshot itself, so that writing snapshots at most doubles what is written, and
    reading deltas at most doubles what recovery reads.
    """
    if head is None:
        return False
    since = [delta for delta in head.deltas if delta.epoch > head.snapshot_epoch]
    delta_bytes = sum(_size(delta) for delta in since)
    return len(since) >= DELTA_EPOCHS_MAX or delta_bytes > max(DELTA_BYTES_MIN, _total(head.snapshot))


def _size(delta: EpochDeltas) -> int:
    return _total(delta.files)


def _total(files: tuple[StateFile, ...]) -> int:
    return sum(state.file.size_bytes for state in files)
