"""Replies of an epoch, handed to a function of the user as a DataFrame."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from millpond.errors import MillpondError, RowError
from millpond.program.sinks import EpochSink
from millpond.spark.exchange.tables import frame_of
from millpond.spark.streaming.workroot import WorkRoot

LOCAL_BYTES_MAX = 4 << 20
"""Replies of an epoch up to this size are handed over from the driver's memory: reading them costs no Spark job."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """Hands files of replies over."""

    spark: SparkSession
    work: WorkRoot

    def __call__(self, sink: EpochSink, files: list[Path], epoch: int) -> None:
        """Call the function of a sink with the replies of an epoch."""
        small = sum(path.stat().st_size for path in files) <= LOCAL_BYTES_MAX
        if small or not self.work.shares_files:
            frame = frame_of(self.spark, pa.concat_tables([pq.read_table(path) for path in files]))
        else:
            frame = self.spark.read.parquet(*(str(path) for path in files))
        try:
            sink.function(frame, epoch)
        except MillpondError:
            raise
        except Exception as error:
            raise RowError(
                "MP605",
                f"the function given to foreach_epoch raised {type(error).__name__} on epoch {epoch}",
                found=str(error)[:300],
                hint="the epoch is committed; the next start hands it over again before anything else",
            ) from error
