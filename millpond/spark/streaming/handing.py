"""Replies of an epoch as a DataFrame, for sinks that want one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from millpond.spark.exchange.tables import frame_of
from millpond.spark.streaming.workroot import WorkRoot

LOCAL_BYTES_MAX = 4 << 20
"""Replies of an epoch up to this size are handed over from the driver's memory: reading them costs no Spark job."""


@dataclass(frozen=True, slots=True)
class ReplyFrames:
    """Makes DataFrames of files of replies."""

    spark: SparkSession
    work: WorkRoot

    def __call__(self, files: Sequence[Path]) -> DataFrame:
        """The rows of all files."""
        small = sum(path.stat().st_size for path in files) <= LOCAL_BYTES_MAX
        if small or not self.work.shares_files:
            return frame_of(self.spark, pa.concat_tables([pq.ParquetFile(path).read() for path in files]))
        return self.spark.read.parquet(*(str(path) for path in files))
