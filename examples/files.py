"""Folders and Parquet files of the examples: written in order, read as streams of one file per epoch."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

OUT = Path("out")
"""Where examples leave what they make, below the folder they are started in."""

_FIRST_FILE_AT = 1_700_000_000


def fresh_folder(folder: Path) -> Path:
    """Make an empty folder, whatever an earlier run left there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder.absolute()


def write_parts(folder: Path, schema: pa.Schema, parts: Sequence[Sequence[Mapping[str, Any]]]) -> Path:
    """Write each part as one Parquet file."""
    folder.mkdir(parents=True)
    for number, rows in enumerate(parts):
        path = folder / f"part-{number:04}.parquet"
        pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), path)
        in_order(path, number)
    return folder


def in_order(path: Path, number: int) -> None:
    """Date a file by its number: Spark reads the files of a stream in the order of their age."""
    os.utime(path, (_FIRST_FILE_AT + number, _FIRST_FILE_AT + number))


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    """Read the Parquet files of a folder as a stream, one file per epoch."""
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def parts_of(rows: Sequence[Mapping[str, Any]], column: str, ends: Sequence[int]) -> list[list[Mapping[str, Any]]]:
    """Cut rows into one part for each end: a row belongs to the first part that ends after it."""
    parts: list[list[Mapping[str, Any]]] = [[] for _ in ends]
    for row in rows:
        parts[next(place for place, end in enumerate(ends) if row[column] < end)].append(row)
    return parts


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Read the rows of a Parquet sink."""
    rows: list[dict[str, Any]] = pq.read_table(folder).to_pylist()
    return rows
