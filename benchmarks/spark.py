"""The embedded Spark that contestants share: one session, its words in a log file, one file per batch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.data import OUT
from millpond.spark.session import local_session

STDERR = 2
EXECUTOR_MB = 1024


@contextmanager
def session(name: str, cores: int, out: Path = OUT, *, conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Start Spark for one benchmark and stop it afterwards."""
    out.mkdir(parents=True, exist_ok=True)
    with _stderr_to(out / f"{name}.spark.log"):
        spark = local_session(f"benchmark {name}", cores, conf=conf)
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def cluster(name: str, executors: int, out: Path = OUT) -> Iterator[SparkSession]:
    """Start Spark with executors in processes of their own, a core each, and stop it afterwards."""
    out.mkdir(parents=True, exist_ok=True)
    with _stderr_to(out / f"{name}.spark.log"):
        master = f"local-cluster[{executors},1,{EXECUTOR_MB}]"
        # On a machine with fewer cores than executors, a task takes longer than a partition waits for its place.
        spark = local_session(f"benchmark {name}", executors, master=master, conf={"spark.locality.wait": "20s"})
    try:
        yield spark
    finally:
        spark.stop()


def stream(spark: SparkSession, files: Sequence[Path], folder: Path | None = None) -> DataFrame:
    """Read Parquet files of one folder as a stream, one file per batch; or those that come to a `folder` later."""
    schema = spark.read.parquet(str(files[0].parent)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder or files[0].parent))


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Give the JVM a standard error of its own: workers of `transformWithState` write there at every batch."""
    kept = os.dup(STDERR)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.dup2(log, STDERR)
        yield
    finally:
        os.dup2(kept, STDERR)
        os.close(kept)
        os.close(log)
