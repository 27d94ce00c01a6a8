"""Starts a session with each connector that exists for the installed Spark, and uses it a little: `make versions`.

Spark fetches them by their Maven coordinates. What can't be fetched on this machine is named and left out, but for CI,
where it fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pyspark

import millpond
from millpond.spark.connectors import CONNECTORS, minor_of


def main() -> None:
    """Try each connector in a process of its own: a JVM takes jars at its start alone."""
    there = CONNECTORS[minor_of(pyspark.__version__)]
    failed = []
    for name, jar in there.items():
        words = [sys.executable, __file__, name]
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - this file again
        told = "works" if done.returncode == 0 else "does not work here"
        print(f"connectors: {jar} {told} with Spark {pyspark.__version__}")
        if done.returncode:
            failed.append(name)
            print(done.stderr[-2000:], file=sys.stderr)
    if not there:
        print(f"connectors: none is published for Spark {pyspark.__version__}")
    if failed and os.environ.get("CI") == "true":
        sys.exit(1)


def use(name: str) -> None:
    """Load a connector, and read back what was written where that needs no server."""
    with tempfile.TemporaryDirectory() as folder:
        conf = {"spark.sql.catalog.iceberg.warehouse": folder}
        spark = millpond.local_session("connectors", conf=conf, **{name: True})
        if name == "kafka":
            kafka = spark.readStream.format("kafka").option("subscribe", "topic")
            columns = kafka.option("kafka.bootstrap.servers", "127.0.0.1:9").load().columns
            assert "offset" in columns, columns
        elif name == "delta":
            spark.range(3).write.format("delta").save(f"{folder}/delta")
            assert spark.read.format("delta").load(f"{folder}/delta").count() == 3
        else:
            spark.sql("CREATE TABLE iceberg.tried.t (a INT) USING iceberg")
            spark.sql("INSERT INTO iceberg.tried.t VALUES (1), (2)")
            assert spark.table("iceberg.tried.t").count() == 2
        spark.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        use(sys.argv[1])
    else:
        main()
