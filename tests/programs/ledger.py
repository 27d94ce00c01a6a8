"""A tiny job over a checkpoint, and what it must come to: counters per key, and one output file per epoch.

It stands for the runtime in the crash tests: it reads its state as a task does, sends one partition's changes inline
and writes the other's as a file, takes snapshots when they are due, and publishes by renaming staged files.
"""

from __future__ import annotations

from collections import Counter

from millpond.checkpoint.commit.checkpoint import Changed, Checkpoint, EpochWork
from millpond.checkpoint.records.deltas import write_changes
from millpond.checkpoint.records.manifest import ElementSchema, OutputFile
from millpond.checkpoint.records.offers import Batch
from millpond.checkpoint.recovery import read_changes, restore_files
from millpond.state.changes import Changes
from millpond.state.local.storekey import group_of, store_key
from millpond.storage.backends.memory import MemoryStorage
from millpond.storage.content import FileRef
from millpond.storage.frame import FrameKind

ELEMENTS = (ElementSchema("seen", "counter", "partitioned", "", "str", "int"),)
KEY_GROUPS = 8
PARTITIONS = 2
FEEDS = ("words",)
QUERY = "3f0e"

BATCHES = (
    {b"a": 1, b"b": 2, b"c": 3},
    {b"a": -1, b"d": 4},
    {b"b": 1, b"e": 5, b"a": 7},
    {b"c": -3, b"f": 6},
)
"""A counter that comes to zero is deleted, so that there are tombstones."""


def key_of(word: bytes) -> bytes:
    return store_key(0, word[0] % KEY_GROUPS, word)


def state_after(batches: int) -> dict[bytes, bytes]:
    """The oracle: the state after the first `batches` batches."""
    counts: Counter[bytes] = Counter()
    for batch in BATCHES[:batches]:
        counts.update(batch)
    return {key_of(word): b"%d" % count for word, count in counts.items() if count}


class MemorySink:
    """Where outputs go: epoch to rows. Publishing twice is seen if it brings something else."""

    def __init__(self):
        self.published = {}

    def publish(self, manifest):
        assert self.published.get(manifest.epoch, manifest.outputs) == manifest.outputs
        self.published[manifest.epoch] = manifest.outputs


def open_ledger(storage) -> Checkpoint:
    return Checkpoint.open(storage, ELEMENTS, key_groups=KEY_GROUPS)


def partition_of(group: int) -> int:
    return group * PARTITIONS // KEY_GROUPS


def read_partition(storage, parent, partition):
    groups = [group for group in range(KEY_GROUPS) if partition_of(group) == partition]
    state = {}
    for file in restore_files(parent, groups[0], groups[-1]):
        for key, value in read_changes(storage, file).pairs():
            if partition_of(group_of(key)) != partition:
                continue
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
    return state


def compute(storage, batch: int, parent) -> EpochWork:
    """Apply one batch on top of the parent, partition by partition."""
    parts = []
    for partition in range(PARTITIONS):
        state = read_partition(storage, parent, partition)
        changes = {}
        for word, amount in BATCHES[batch].items():
            key = key_of(word)
            if partition_of(group_of(key)) == partition:
                count = int(state.get(key, b"0")) + amount
                changes[key] = b"%d" % count if count else None
        keys = sorted(changes)
        values = [changes[key] for key in keys]
        if partition == 0:
            parts.append(Changed(Changes(keys, values)))
        else:
            file = write_changes(storage, FrameKind.DELTA, Changes(keys, values), mark="test")
            parts.append(Changed(files=(file,) if keys else ()))
    output = OutputFile("totals", FileRef(f"{parent.epoch + 1}-{batch}", batch, f"{batch:064x}"), len(BATCHES[batch]))
    return EpochWork(tuple(parts), (output,), {"rows": len(BATCHES[batch])})


def run_batch(checkpoint, storage, batch: int, publish, **options):
    return checkpoint.run_epoch(
        Batch(QUERY, batch, FEEDS),
        lambda parent: compute(storage, batch, parent),
        publish,
        partitions=PARTITIONS,
        **options,
    )


def small_checkpoint() -> MemoryStorage:
    """A checkpoint in memory with all batches applied."""
    storage = MemoryStorage()
    checkpoint = open_ledger(storage)
    for batch in range(len(BATCHES)):
        run_batch(checkpoint, storage, batch, MemorySink().publish)
    return storage
