"""Starts a session with all connectors that exist for the installed Spark, and uses each a little: `make versions`."""

from __future__ import annotations

import tempfile

import pyspark

import millpond
from millpond.spark.connectors import CONNECTORS, minor_of


def main() -> None:
    """Load each connector, and read back what was written where that needs no server."""
    there = CONNECTORS[minor_of(pyspark.__version__)]
    if not there:
        print(f"connectors: none is published for Spark {pyspark.__version__}")
        return
    with tempfile.TemporaryDirectory() as folder:
        conf = {"spark.sql.catalog.iceberg.warehouse": folder} if "iceberg" in there else {}
        spark = millpond.local_session("connectors", conf=conf, **dict.fromkeys(there, True))
        if "kafka" in there:
            kafka = spark.readStream.format("kafka").option("subscribe", "topic")
            columns = kafka.option("kafka.bootstrap.servers", "127.0.0.1:9").load().columns
            assert "offset" in columns, columns
        if "delta" in there:
            spark.range(3).write.format("delta").save(f"{folder}/delta")
            assert spark.read.format("delta").load(f"{folder}/delta").count() == 3
        if "iceberg" in there:
            spark.sql("CREATE TABLE iceberg.tried.t (a INT) USING iceberg")
            spark.sql("INSERT INTO iceberg.tried.t VALUES (1), (2)")
            assert spark.table("iceberg.tried.t").count() == 2
        spark.stop()
    print(f"connectors: {', '.join(there)} with Spark {pyspark.__version__}")


if __name__ == "__main__":
    main()
