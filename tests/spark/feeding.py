"""Rows of a program as Parquet parts, one folder per entry point, and what a job left in its sinks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from millpond import Program, parquet
from millpond.engine.arrowtypes import arrow_type
from millpond.spark.job import Job
from tests.programs.keyed import Row
from tests.sizes import compile_once

LONG_AGO = 1_600_000_000


def write_parts(folder: Path, program: type[Program], rows: list[Row], parts: int) -> None:
    """Write the rows in time slices: part n of every entry point holds its rows of slice n, maybe none."""
    size = -(-len(rows) // parts)
    for name, entry in compile_once(program).entries.items():
        schema = pa.schema([("at", pa.int64()), *((n, arrow_type(hint)) for n, hint in entry.point.parameters)])
        for part in range(parts):
            chosen = [
                (number, arguments)
                for number, (called, arguments) in enumerate(rows)
                if called == name and number // size == part
            ]
            write_part(folder / name, part, _table(schema, entry.point.parameters, chosen))


def _table(schema: pa.Schema, parameters: Any, chosen: list[tuple[int, tuple[Any, ...]]]) -> pa.Table:
    columns: dict[str, list[Any]] = {"at": [number for number, _ in chosen]}
    for place, (name, _) in enumerate(parameters):
        columns[name] = [arguments[place] for _, arguments in chosen]
    return pa.table(columns, schema=schema)


def write_part(folder: Path, part: int, table: pa.Table) -> Path:
    """Write one file; parts are as old as their number says, since Spark reads the oldest first."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"part-{part:04}.parquet"
    staged = folder / f"_{path.name}"
    pq.write_table(table, staged)
    os.utime(staged, (LONG_AGO + part, LONG_AGO + part))
    staged.rename(path)
    return path


def stream_of(spark: SparkSession, folder: Path, files: int = 1) -> DataFrame:
    """A stream over the parts, some files per epoch."""
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(folder))


def feed_all(job: Job, program: type[Program], frames: dict[str, DataFrame], out: Path) -> Job:
    """Feed every entry point, ordered by the number of the row; replies go to a folder each."""
    for name, entry in compile_once(program).entries.items():
        to = parquet(out / name) if entry.point.replies else None
        job.feed(name, frames[name], order_by="at", to=to, keep=["at"] if to else None)
    return job


def streams(spark: SparkSession, program: type[Program], folder: Path, files: int = 1) -> dict[str, DataFrame]:
    return {name: stream_of(spark, folder / name, files) for name in compile_once(program).entries}


def tables(spark: SparkSession, program: type[Program], folder: Path) -> dict[str, DataFrame]:
    return {name: spark.read.parquet(str(folder / name)) for name in compile_once(program).entries}


def visible(folder: Path) -> list[dict[str, Any]]:
    """The rows that a reader of a sink's folder sees."""
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def replies_in(out: Path) -> dict[int, Any]:
    """All replies of all entry points by row; a reply that is there twice is an error."""
    rows = [row for folder in sorted(out.iterdir()) for row in visible(folder)] if out.exists() else []
    numbers = [row["at"] for row in rows]
    assert len(numbers) == len(set(numbers)), "a reply is there twice"
    return {row["at"]: row["reply"] for row in rows}


def epochs_of_replies(out: Path) -> dict[int, int]:
    """The epoch that each row was part of, by the names of the files."""
    files = [path for folder in out.iterdir() for path in folder.glob("*.parquet")]
    return {number: int(path.name[:10]) for path in files for number in pq.read_table(path)["at"].to_pylist()}
