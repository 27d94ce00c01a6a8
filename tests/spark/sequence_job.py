"""Programs with rows in sequence as a streaming job in a process of its own, for tests that kill it.

`python -m tests.spark.sequence_job FOLDER SMALL_EPOCH [MASTER]` reads FOLDER/in, a part per epoch, by the program whose
entry points are there, and ends when nothing is left.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.spark.drivers import Driver
from tests.spark.transactions_feeding import run_job
from tests.spark.transactions_feeding import streams as streams_of

PARTITIONS = 2


class SequenceDriver(Driver):
    """A driver of this job."""

    JOB = "tests.spark.sequence_job"


def main(folder: Path, small_epoch: int, master: str | None) -> None:
    from millpond.spark.session import local_session
    from tests.programs.bank import Bank
    from tests.programs.sequence_shops import Carts

    fed = {path.name for path in (folder / "in").iterdir()}
    program = next(one for one in (Bank, Carts) if one.entries().keys() == fed)
    spark = local_session(program.__name__, master=master)
    (folder / "started").touch()
    streams = streams_of(spark, program, folder / "in")
    run_job(spark, program, streams, folder, partitions=PARTITIONS, small_epoch=small_epoch)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
