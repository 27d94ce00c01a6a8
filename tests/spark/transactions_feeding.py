"""Rows of transactional programs as Parquet parts, fed to Spark, and what is left of them in sinks and checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from millpond import Tuning, parquet
from millpond.checkpoint.recovery import read_state
from millpond.engine.arrowtypes import arrow_type, to_arrow
from millpond.keygroups import DEFAULT_KEY_GROUPS, Layout
from millpond.program import ProgramBase
from millpond.spark.job import Job
from millpond.storage.backends.files import FileStorage
from tests.fuzz.rows import Row
from tests.fuzz.transactions.truth import Truth, truth_of
from tests.sizes import compile_once
from tests.spark.feeding import stream_of, visible, write_part

LAYOUT = Layout(DEFAULT_KEY_GROUPS, 1, 1, aligned=False)
ROW = "row_number"
"""The column that orders rows and finds their replies."""


def write(folder: Path, program: type[ProgramBase], rows: list[Row], parts: int) -> None:
    """Write the rows in time slices: part n of every entry point holds its rows of slice n, maybe none."""
    size = -(-len(rows) // parts)
    for name, point in program.entries().items():
        for part in range(parts):
            chosen = [(at, given) for at, (called, given) in enumerate(rows) if called == name and at // size == part]
            columns = {ROW: pa.array([at for at, _ in chosen], pa.int64())}
            for place, (column, hint) in enumerate(point.parameters):
                columns[column] = to_arrow([given[place] for _, given in chosen], hint).cast(arrow_type(hint))
            write_part(folder / name, part, pa.table(columns))


def streams(spark: SparkSession, program: type[ProgramBase], folder: Path, files: int = 1) -> dict[str, DataFrame]:
    return {name: stream_of(spark, folder / name, files) for name in program.entries()}


def tables(spark: SparkSession, program: type[ProgramBase], folder: Path) -> dict[str, DataFrame]:
    return {name: spark.read.parquet(str(folder / name)) for name in program.entries()}


def run_job(
    spark: SparkSession,
    program: type[ProgramBase],
    frames: dict[str, DataFrame],
    folder: Path,
    partitions: int | None = None,
    **tuning: Any,
) -> Any:
    """Feed every entry point, ordered by the number of the row, and run to the end; rows that raise are skipped."""
    job = Job(
        program,
        spark,
        checkpoint=folder / "ck",
        partitions=partitions,
        local_root=folder / "local",
        progress=False,
        tuning=Tuning(**tuning),
    )
    for name, entry in compile_once(program).entries.items():
        to = parquet(folder / "out" / name) if entry.point.replies or entry.aborts else None
        job.feed(name, frames[name], order_by=ROW, to=to, keep=[ROW] if to else None, on_bad_row="skip")
    return job.run()


def check(folder: Path, program: type[ProgramBase], rows: list[Row]) -> Truth:
    """Compare sinks and checkpoint with plain Python, run in the order of the rows."""
    truth = truth_of(program, rows, LAYOUT)
    assert truth.unfit == 0
    compare(folder, truth, {number: number for number in range(len(rows))})
    return truth


def compare(folder: Path, truth: Truth, numbers: dict[int, int]) -> None:
    """Compare with a truth whose rows have other numbers in the sinks."""
    found = [row for sink in sorted((folder / "out").glob("*")) for row in visible(sink)]
    assert len({row[ROW] for row in found}) == len(found), "a reply is there twice"
    refused = {row[ROW]: row["aborted"] for row in found if row.get("aborted") is not None}
    assert refused == {numbers[at]: reason for at, reason in truth.aborted.items()}
    replies = {row[ROW]: repr(row["reply"]) for row in found if "reply" in row and row[ROW] not in refused}
    assert replies == {numbers[at]: reply for at, reply in truth.replies.items()}
    assert read_state(FileStorage(folder / "ck")) == truth.state
