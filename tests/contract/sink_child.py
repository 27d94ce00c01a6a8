"""A driver with one sink, in a process that tests kill: epochs of rows that nobody else writes, and no Spark.

`python -m tests.contract.sink_child FOLDER SINK ADDRESS EPOCHS` goes on where the one before was killed, and ends when
all epochs are published. MILLPOND_CRASH_AT says where it dies; SINK_FILE_BYTES is how large a file may become.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

from millpond import parquet
from millpond.sinks import delta, iceberg, jdbc, kafka
from millpond.sinks.kafka import writers
from millpond.testing.sinks import _Job

FILES, ROWS = 2, 3


def catalog_of(folder):
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/lake"}


def make_sink(kind, address):
    match kind:
        case "kafka" | "kafka-apart" | "kafka-large":
            return kafka(*address.split("/"))
        case "jdbc":
            return jdbc(address.partition(" ")[0], address.partition(" ")[2])
        case "delta":
            return delta(Path(address))
        case "delta-upsert":
            return delta(Path(address), mode="upsert", key=["n"])
        case "iceberg":
            return iceberg("shop.replies", catalog="tests", options=catalog_of(address))
        case "parquet":
            return parquet(Path(address), partition_by=["text"], join=True)
    raise AssertionError(kind)


def rows_of(epoch, file):
    """The rows of a file: any two rows of a run differ."""
    first = (epoch * FILES + file) * ROWS
    return [
        {"n": first + at, "text": "ab"[at % 2], "amount": 0.5, "nested": {"numbers": [at], "name": "x"}}
        for at in range(ROWS)
    ]


def wanted(epochs):
    return sorted(row["n"] for epoch in range(1, epochs + 1) for file in range(FILES) for row in rows_of(epoch, file))


def main(folder, kind, address, epochs):
    if kind == "kafka-apart":
        writers.SMALL_ROWS = writers.DRIVER_ROWS = 0
    if kind == "kafka-large":
        # The driver writes new epochs; what a driver that died left is written as tasks would.
        writers.SMALL_ROWS = 0
    if "SINK_FILE_BYTES" in os.environ:
        limit = int(os.environ["SINK_FILE_BYTES"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    job = _Job(make_sink(kind, address), folder / "checkpoint", folder / "outputs")
    while job.token.epoch < epochs:
        job.run([rows_of(job.token.epoch + 1, file) for file in range(FILES)])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
