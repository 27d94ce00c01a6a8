"""A streaming job in a process of its own, for tests that kill it.

`python -m tests.spark.driver_job FOLDER SMALL_EPOCH [MASTER]` reads FOLDER/in, a part per epoch, and ends when nothing
is left. The gates of its program look for their markers in FOLDER/gates.
"""

from __future__ import annotations

import sys
from pathlib import Path

from millpond import Tuning
from millpond.spark.session import local_session
from tests.spark import gated
from tests.spark.feeding import feed_all, streams

PARTITIONS = 2


def main(folder: Path, small_epoch: int, master: str | None) -> None:
    gated.FOLDER = str(folder / "gates")
    spark = local_session("driver job", master=master)
    spark.sparkContext.setLogLevel("WARN")  # the tests look for the deaths that they caused
    (folder / "started").touch()
    job = gated.Gated.on(
        spark,
        checkpoint=folder / "ck",
        partitions=PARTITIONS,
        local_root=folder / "local",
        tuning=Tuning(small_epoch=small_epoch),
    )
    feed_all(job, gated.Gated, streams(spark, gated.Gated, folder / "in"), folder / "out").run()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
