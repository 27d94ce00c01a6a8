"""The input of an epoch, logged in place of what it changed: rows as they came to the tasks of the first step.

A file is named by the parent, the time of the epoch and the partition: two attempts of a task get the same rows in
another order, so the hash of what they write may differ, and what crosses a shuffle must not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import pyarrow as pa

from millpond.checkpoint.records.manifest import EpochInput, Ownership
from millpond.checkpoint.records.work import EpochWork
from millpond.crashpoints import crashpoint
from millpond.engine.arrowstream import read_stream
from millpond.engine.plan import EpochPlan, ProgramPlan
from millpond.errors import StorageError
from millpond.ids import PartitionId
from millpond.storage.content import NAME_DIGITS
from millpond.storage.contract import Storage
from millpond.storage.frame import FrameKind, seal, unseal
from millpond.storage.open import open_storage

FOLDER = "inputs"

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd")


def log_input(
    storage: Storage, epoch: EpochPlan, partition: PartitionId, batches: Iterable[pa.RecordBatch]
) -> list[pa.RecordBatch]:
    """Write the rows of a task of the first step, and give them back; of no rows there is no file."""
    held = [batch for batch in batches if batch.num_rows]
    if held:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, held[0].schema, options=_COMPRESSED) as writer:
            for batch in held:
                writer.write_batch(batch)
        storage.put(_name(epoch, partition), seal(FrameKind.INPUT, sink.getvalue().to_pybytes()))
        crashpoint("input.logged")
    return held


def read_input(storage: Storage, told: EpochInput) -> pa.Table | None:
    """Return the rows of an epoch, each with its partition; None if there were none."""
    tables: list[pa.Table] = []
    for partition, name in told.rows:
        table = read_stream(unseal(FrameKind.INPUT, storage.get(name), name), partial(_nonsense, name))
        if "part" in table.schema.names:
            table = table.drop_columns(["part"])
        if tables and tables[0].schema.remove(len(table.schema.names)) != table.schema:
            raise _nonsense(name, f"other columns than the first partition has: {table.schema.names}")
        tables.append(table.append_column("part", pa.array([partition] * table.num_rows, pa.int32())))
    return pa.concat_tables(tables).combine_chunks() if tables else None


def _nonsense(name: str, found: str) -> StorageError:
    return StorageError(
        "MP357",
        f"the rows in {name} can't be decoded",
        expected="the rows of an epoch as Arrow writes them",
        found=found[:200],
        hint="restore this file from a copy of the checkpoint",
    )


def with_input(plan: ProgramPlan, epoch: EpochPlan, work: EpochWork) -> EpochWork:
    """Add to an epoch's work what it was computed from: for a program whose durability is to compute it again."""
    storage = open_storage(plan.storage_url)
    names = [(partition, _name(epoch, PartitionId(partition))) for partition in range(plan.layout.partitions)]
    told = EpochInput(
        rows=() if epoch.continues else tuple(pair for pair in names if storage.contains(pair[1])),
        pending=epoch.parent.pending if epoch.continues else (),
        sources=feeds_of(plan),
        source_prefix=epoch.source_prefix,
        now_us=epoch.now_us,
        partitions=plan.layout.partitions,
        instances=plan.layout.instances,
        steps_max=plan.steps_max,
        ownership=Ownership.of(plan.layout),
    )
    return replace(work, input=told)


def feeds_of(plan: ProgramPlan) -> tuple[str, ...]:
    """Return what the rows of an epoch depend on: numbers of feeds stand in them."""
    return tuple(f"{feed.name} -> {feed.entry}, {feed.order.value}" for feed in plan.feeds)


def _name(epoch: EpochPlan, partition: PartitionId) -> str:
    mark = hashlib.sha256(f"{epoch.parent.hash} {epoch.now_us}".encode()).hexdigest()[:NAME_DIGITS]
    return f"{FOLDER}/{mark}-{partition:05}"
