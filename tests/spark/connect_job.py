"""A client of a Spark Connect server in a process of its own, for tests that kill it.

`python -m tests.spark.connect_job FOLDER SMALL_EPOCH URL` reads FOLDER/in, a part per epoch, and ends when nothing is
left.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.feeding import feed_all, streams
from tests.spark.gated import Gated


def main(folder: Path, url: str) -> None:
    spark = SparkSession.Builder().remote(url).create()
    (folder / "started").touch()
    job = Gated.on(spark, checkpoint=folder / "ck", partitions=2)
    feed_all(job, Gated, streams(spark, Gated, folder / "in"), folder / "out").run()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[3])
