from __future__ import annotations

import pytest

from millpond.checkpoint.records.manifest import FORMAT, EpochDeltas, Manifest, StateFile
from millpond.checkpoint.records.offers import Batch
from millpond.checkpoint.records.times import Times
from millpond.checkpoint.snapshots.snapshots import (
    DELTA_BYTES_MIN,
    DELTA_EPOCHS_MAX,
    EPOCH_BYTES,
    Snapshot,
    fits,
    snapshot_due,
)
from millpond.storage.content import FileRef

UUID = "12345678-1234-4234-8234-123456789abc"


def file(name, size_bytes):
    return StateFile(FileRef(name, size_bytes, "a" * 64), 0, 0, 1)


def manifest(sizes, snapshot_bytes=0, kept_before=0):
    """A head with one delta of each size after its snapshot, and some kept from before it."""
    snapshot_epoch = 100 if snapshot_bytes else kept_before
    first = snapshot_epoch - kept_before + 1
    all_sizes = [DELTA_BYTES_MIN] * kept_before + list(sizes)
    deltas = tuple(
        EpochDeltas(first + i, f"{first + i:064x}", (file(f"deltas/{i}", size),)) for i, size in enumerate(all_sizes)
    )
    epoch = deltas[-1].epoch
    return Manifest(
        format=FORMAT,
        checkpoint=UUID,
        epoch=epoch,
        parent=deltas[-1].parent,
        offer=Batch("q", epoch),
        partitions=1,
        snapshot_epoch=snapshot_epoch,
        snapshot=(file("snapshots/a", snapshot_bytes),) if snapshot_bytes else (),
        deltas=deltas,
        outputs=(),
        runs=(),
        counters={},
        times=Times(),
        stream=Batch("q", epoch),
    )


def test_a_fresh_checkpoint_needs_no_snapshot():
    assert not snapshot_due(None)


@pytest.mark.parametrize(
    ("sizes", "snapshot_bytes", "due"),
    [
        ([1], 0, False),
        ([9 * DELTA_BYTES_MIN], 0, False),
        ([DELTA_BYTES_MIN] * 3, 0, False),
        ([DELTA_BYTES_MIN] * 3 + [1], 0, True),
        ([1, DELTA_BYTES_MIN - 1], 0, False),
        ([2, DELTA_BYTES_MIN // 4, *[DELTA_BYTES_MIN // 4] * 3, DELTA_BYTES_MIN // 4 - 2], 0, False),
        ([2, DELTA_BYTES_MIN // 4, *[DELTA_BYTES_MIN // 4] * 3, DELTA_BYTES_MIN // 4 - 1], 0, True),
        ([DELTA_BYTES_MIN] * 6, 3 * DELTA_BYTES_MIN, False),
        ([DELTA_BYTES_MIN] * 6 + [1], 3 * DELTA_BYTES_MIN, True),
        ([1] * 99, 100 * EPOCH_BYTES, False),
        ([1] * 100, 100 * EPOCH_BYTES, True),
        ([1] * (DELTA_EPOCHS_MAX - 1), 0, False),
        ([1] * DELTA_EPOCHS_MAX, 0, True),
    ],
)
def test_a_snapshot_is_due_when_deltas_outweigh_it_or_are_many(sizes, snapshot_bytes, due):
    assert snapshot_due(manifest(sizes, snapshot_bytes)) is due


def test_deltas_from_before_the_snapshot_do_not_count():
    assert not snapshot_due(manifest([1], snapshot_bytes=1, kept_before=8))


BEFORE_THIRD, HEAD = f"{3:064x}", "f" * 64


def chunks(*ranges):
    return tuple(StateFile(FileRef(f"snapshots/{first}", 1, "0" * 64), first, last, 1) for first, last in ranges)


@pytest.mark.parametrize(
    ("snapshot", "fit"),
    [
        (Snapshot(2, BEFORE_THIRD, chunks((0, 1), (2, 3))), True),
        (Snapshot(2, "2" * 64, chunks((0, 1), (2, 3))), False),
        (Snapshot(3, HEAD, chunks((0, 3))), True),
        (Snapshot(3, BEFORE_THIRD, chunks((0, 3))), False),
        (Snapshot(4, HEAD, chunks((0, 3))), False),
        (Snapshot(2, BEFORE_THIRD, chunks((0, 1), (3, 3))), False),
        (Snapshot(2, BEFORE_THIRD, chunks((0, 2), (2, 3))), False),
        (Snapshot(2, BEFORE_THIRD, chunks((0, 2))), False),
        (Snapshot(2, BEFORE_THIRD, ()), False),
    ],
)
def test_a_snapshot_is_named_only_by_its_own_timeline_and_if_it_speaks_for_all(snapshot, fit):
    head = manifest([1, 1, 1])
    assert head.parent == BEFORE_THIRD
    assert fits(snapshot, head, HEAD, 4) is fit


def test_a_snapshot_is_never_replaced_by_an_older_one():
    head = manifest([1, 1], snapshot_bytes=5)
    old = Snapshot(head.snapshot_epoch, head.deltas[0].parent, chunks((0, 3)))
    assert not fits(old, head, HEAD, 4)
