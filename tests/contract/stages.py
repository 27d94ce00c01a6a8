"""Staged files for tests that call a sink themselves."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from millpond.sinks import Staged, StagedFile


def staged(folder, token, *tables):
    """One file for each table, under names that say their checkpoint and epoch."""
    files = []
    for number, table in enumerate(tables):
        path = folder / f"{token.epoch:010}-{token.checkpoint[:8]}-{number:05}.parquet"
        rows = table if isinstance(table, pa.Table) else pa.table(table)
        pq.write_table(rows, path)
        files.append(StagedFile(token.of_file(path.name), path, rows.num_rows))
    return Staged(tuple(files))
