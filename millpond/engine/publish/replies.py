"""Files of replies and dead letters: written under names that a retry repeats, visible only after the commit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millpond.checkpoint.records.manifest import OutputFile
from millpond.crashpoints import crashpoint
from millpond.engine.plan import SinkPlan
from millpond.storage.backends.files import FileStorage
from millpond.storage.content import FileRef
from millpond.storage.contract import PutOutcome, Storage

STAGING = "_staged"
"""Where files wait for the commit inside a sink's root; Spark and others skip names that begin with `_`."""

IN_CHECKPOINT = "checkpoint:"
"""The root of a sink whose files wait in the storage of the checkpoint itself."""

KEPT = f"outputs/{STAGING}"
"""Where they wait there."""

REPLY = "reply"

ABORTED = "aborted"
"""The column of the reason why the program refused a row."""


def staging_mark(epoch: int, checkpoint: str) -> str:
    """Say how the names of an epoch's files begin: jobs that share a sink keep out of each other's way."""
    return f"{epoch:010}-{checkpoint[:8]}"


def is_over(name: str, epoch: int, checkpoint: str) -> bool:
    """Say whether a staged file is of an epoch that is published, or of a try at it that came to nothing."""
    return name[:10].isdecimal() and name[10:19] == f"-{checkpoint[:8]}" and int(name[:10]) <= epoch


def stage(sink: SinkPlan, table: pa.Table, place: str, checkpoint: Storage | None = None) -> OutputFile:
    """Write a table as a Parquet file that nobody sees yet; the same table gives the same file.

    It waits in the sink's root, or in the storage of the checkpoint if that is where its sink says.
    """
    buffer = pa.BufferOutputStream()
    kinds = dict(_leaves(table.schema))
    pq.write_table(
        table,
        buffer,
        compression="lz4",
        # Dictionaries help text and cost numbers; replies are mostly numbers that differ, by little.
        use_dictionary=[name for name, kind in kinds.items() if pa.types.is_string(kind)],
        column_encoding={name: "DELTA_BINARY_PACKED" for name, kind in kinds.items() if pa.types.is_integer(kind)},
        write_statistics=False,
    )
    data = buffer.getvalue().to_pybytes()
    digest = hashlib.sha256(data).hexdigest()
    # Several sinks may have one root, and equal rows of two of them are two files.
    name = f"{place}-{hashlib.sha256(f'{sink.name} {digest}'.encode()).hexdigest()[:16]}.parquet"
    if sink.root == IN_CHECKPOINT:
        assert checkpoint is not None, sink.name
        outcome = checkpoint.put(f"{KEPT}/{name}", data)
    else:
        outcome = FileStorage(sink.root).put(f"{STAGING}/{name}", data)
    if outcome is PutOutcome.WON:
        crashpoint("output.staged")
    file = FileRef(name, len(data), digest)
    return OutputFile(sink.name, file, table.num_rows, sink.root, sink.visible, noted=True)


def unfolded(table: pa.Table, rows: pa.Schema) -> pa.Table:
    """Get replies that are lists of tuples, each as a row: the columns that are kept, then the parts of the tuple.

    If there are as many columns as parts, the parts are all of it.
    """
    replies = table[REPLY].combine_chunks()
    parts = pc.list_flatten(replies).flatten()
    columns: list[pa.ChunkedArray | pa.Array] = []
    if len(parts) < len(rows):
        kept = table.drop_columns([REPLY]).take(pc.list_parent_indices(replies))
        for column in kept.columns:
            columns += column.combine_chunks().flatten() if pa.types.is_struct(column.type) else [column]
    columns += parts
    return pa.table([column.cast(field.type) for column, field in zip(columns, rows, strict=True)], schema=rows)


def taken_apart(table: pa.Table) -> pa.Table:
    """Make each of the replies that a row yielded a row; a row that was refused stays one, without a reply."""
    replies = table[REPLY].combine_chunks()
    place = table.schema.get_field_index(REPLY)
    given = pa.concat_arrays([pc.list_flatten(replies), pa.nulls(1, replies.type.value_type)])
    parents = pc.list_parent_indices(replies).to_numpy()
    refused = np.flatnonzero(replies.is_null().to_numpy(zero_copy_only=False))
    rows = np.concatenate((parents, refused))
    answers = np.concatenate((np.arange(len(parents)), np.full(len(refused), len(given) - 1)))
    order = np.argsort(rows, kind="stable")
    whole = table.take(pa.array(rows[order]))
    return whole.set_column(place, REPLY, given.take(pa.array(answers[order])))


def _leaves(fields: Iterable[pa.Field], above: str = "") -> Iterator[tuple[str, pa.DataType]]:
    """Return the columns of a Parquet file, by their paths; lists and maps are left to the defaults."""
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from _leaves(field.type, f"{above}{field.name}.")
        else:
            yield above + field.name, field.type


def reply_table(
    keep: Sequence[tuple[str, pa.DataType]],
    kept: Sequence[pa.Array],
    replies: pa.Array | None,
    reasons: Sequence[str | None] | None = None,
) -> pa.Table:
    """Get the columns that replies keep, the replies, and why rows were refused if the entry point can refuse them."""
    columns = {name: array.cast(kind) for (name, kind), array in zip(keep, kept, strict=True)}
    if replies is not None:
        columns[REPLY] = replies
    if reasons is not None:
        columns[ABORTED] = pa.array(reasons, pa.string())
    return pa.Table.from_pydict(columns)
