"""What the parts of one benchmark share: the session, the folders, and somebody to tell."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.report import Teller


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a benchmark runs: `folder` is removed at its end, `out` keeps the input for the next time."""

    spark: SparkSession
    teller: Teller
    folder: Path
    out: Path
    partitions: int
