"""Carts, which run in sequence, as a streaming job in a process of its own, for tests that kill it.

`python -m tests.spark.sequence_job FOLDER SMALL_EPOCH [MASTER]` reads FOLDER/in, a part per epoch, and ends when
nothing is left.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.spark.drivers import Driver
from tests.spark.transactions_feeding import run_job
from tests.spark.transactions_feeding import streams as streams_of

PARTITIONS = 2


class CartsDriver(Driver):
    """A driver of this job."""

    JOB = "tests.spark.sequence_job"


def main(folder: Path, small_epoch: int, master: str | None) -> None:
    from millpond.spark.session import local_session
    from tests.programs.sequence_shops import Carts

    spark = local_session("carts", master=master)
    (folder / "started").touch()
    streams = streams_of(spark, Carts, folder / "in")
    run_job(spark, Carts, streams, folder, partitions=PARTITIONS, small_epoch=small_epoch)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
