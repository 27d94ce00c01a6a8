"""Arrow tables of the driver as DataFrames."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from millpond.spark.feeds.columntypes import spark_schema


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a table as a DataFrame; through Connect, Spark does not look at the types of one without rows."""
    if table.num_rows:
        return spark.createDataFrame(table)
    return spark.createDataFrame(table, spark_schema(table.schema))
