"""What is left within an epoch and behind it: changes for the next step or part, messages for the next epoch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from millpond.checkpoint.recovery import read_changes
from millpond.compiler.compiled import CompiledProgram
from millpond.engine.arrowstream import read_stream
from millpond.engine.messages import MESSAGE_SCHEMA, decode_control
from millpond.engine.plan import Earlier, ProgramPlan
from millpond.errors import EpochError, StorageError
from millpond.graph.model import Dispatch
from millpond.ids import PartitionId
from millpond.storage.content import FileRef, get_content, put_content
from millpond.storage.contract import Storage
from millpond.storage.frame import FrameKind, seal, unseal

FOLDER = "pending"
_PROGRAM = b"millpond.program"


def interim_changes(storage: Storage, controls: Sequence[bytes]) -> dict[bytes, bytes | None]:
    """Return what the earlier steps of an epoch changed on a partition, from the control rows that pass through it."""
    changed: dict[bytes, bytes | None] = {}
    for control in sorted(map(decode_control, controls), key=lambda control: control.step):
        changed.update(control.changed.inline.pairs())
        for state_file in control.changed.files:
            changed.update(read_changes(storage, state_file).pairs())
    return changed


def read_earlier(storage: Storage, earlier: Earlier, groups: Sequence[int]) -> dict[bytes, bytes | None]:
    """Return what the earlier parts of an epoch changed of some key groups, and perhaps of others."""
    changed = dict(earlier.changed.inline.pairs())
    for state_file in earlier.changed.files if groups else ():
        if state_file.overlaps(groups[0], groups[-1]):
            changed.update(read_changes(storage, state_file).pairs())
    return changed


def program_mark(program: CompiledProgram) -> bytes:
    """Return a hash of a program's tasks: messages can only be worked on by the tasks that they were sent to."""
    told = [
        f"{task.name} {task.dispatch.value} {','.join(task.key)} {','.join(task.inputs)}"
        for entry in program.entries.values()
        for task in entry.tasks
    ]
    return hashlib.sha256("\n".join(told).encode()).hexdigest().encode()


def write_pending(storage: Storage, plan: ProgramPlan, messages: pa.RecordBatch, mark: str) -> FileRef:
    """Store the messages that an epoch leaves on a partition; of one for all instances a single copy."""
    tasks = messages.column("task").to_numpy()
    to_all = [n for n, task in enumerate(plan.tasks) if task.dispatch is Dispatch.ONE_TO_ALL]
    # Without partial state no partition has instances, and no message is for all of them.
    first = next((p for p in range(plan.layout.partitions) if len(plan.layout.instances_of(PartitionId(p)))), 0)
    kept = ~np.isin(tasks, to_all) | (messages.column("part").to_numpy() == first)
    schema = MESSAGE_SCHEMA.with_metadata({_PROGRAM: program_mark(plan.program)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(messages.filter(pa.array(kept)).replace_schema_metadata(schema.metadata))
    return put_content(storage, FOLDER, seal(FrameKind.PENDING, sink.getvalue().to_pybytes()), mark)


def read_pending(storage: Storage, plan: ProgramPlan, files: Sequence[FileRef]) -> pa.Table:
    """Return the messages that an epoch left, each for the partition that owns it now."""
    tables = []
    for ref in files:
        table = decode_pending(unseal(FrameKind.PENDING, get_content(storage, ref), ref.name), ref.name)
        if (table.schema.metadata or {}).get(_PROGRAM) != program_mark(plan.program):
            raise EpochError(
                "MP417",
                "the program changed before all messages of its last epoch were processed",
                expected="the entry points that sent them",
                found=ref.name,
                hint="run the program as it was until nothing is left, then change it",
            )
        _check_targets(plan, table, ref.name)
        tables.append(table.replace_schema_metadata(None))
    return _placed(plan, pa.concat_tables(tables))


def decode_pending(payload: bytes, name: str) -> pa.Table:
    """Read the messages of a file, or raise a `StorageError` that names it."""
    table = read_stream(payload, partial(_nonsense, name))
    if not table.schema.equals(MESSAGE_SCHEMA):
        raise _nonsense(name, str(table.schema))
    if any(column.null_count for column, told in zip(table.columns, MESSAGE_SCHEMA, strict=True) if not told.nullable):
        raise _nonsense(name, "nulls")
    return table


def _check_targets(plan: ProgramPlan, table: pa.Table, name: str) -> None:
    for column, end in (("grp", plan.layout.key_groups), ("task", len(plan.tasks))):
        found = table.column(column).to_numpy()
        if len(found) and not 0 <= found.min() <= found.max() < end:
            raise _nonsense(name, f"{column} from {found.min()} to {found.max()}")


def _nonsense(name: str, found: str) -> StorageError:
    return StorageError(
        "MP357",
        f"the messages in {name} can't be decoded",
        expected="rows of messages as Arrow writes them",
        found=found[:200],
        hint="restore this file from a copy of the checkpoint",
    )


def _placed(plan: ProgramPlan, table: pa.Table) -> pa.Table:
    groups = table.column("grp").to_numpy()
    free = np.array([task.free for task in plan.tasks])[table.column("task").to_numpy()]
    owners, carriers = np.array(plan.layout.owners()), np.array(plan.layout.carriers())
    parts = np.where(free, carriers[groups], owners[groups])
    table = table.set_column(0, MESSAGE_SCHEMA.field("part"), pa.array(parts, pa.int32()))
    to_all = [n for n, task in enumerate(plan.tasks) if task.dispatch is Dispatch.ONE_TO_ALL]
    asked = np.isin(table.column("task").to_numpy(), to_all)
    copies = [
        table.filter(pa.array(asked)).set_column(
            0, MESSAGE_SCHEMA.field("part"), pa.array([part] * int(asked.sum()), pa.int32())
        )
        for part in range(plan.layout.partitions)
        if len(plan.layout.instances_of(PartitionId(part)))
    ]
    return pa.concat_tables([table.filter(pa.array(~asked)), *copies]).combine_chunks()
