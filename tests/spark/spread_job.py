"""A loop over one window whose keys lie in all partitions, in a process of its own, for tests that kill it.

`python -m tests.spark.spread_job FOLDER PARTITIONS` reads FOLDER/in and ends when all iterations are over.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import millpond
from millpond import EventTime, parquet
from millpond.loops import fixpoint
from millpond.spark.session import local_session
from tests.programs.looped import Spread
from tests.spark.drivers import Driver
from tests.spark.feeding import stream_of

ROUNDS = 3


class SpreadDriver(Driver):
    """A driver of this job."""

    JOB = "tests.spark.spread_job"


def main(folder: Path, partitions: int) -> None:
    spark = local_session("spread job")
    (folder / "started").touch()
    windows = millpond.windows(
        stream_of(spark, folder / "in"), key="node", time=EventTime("at", disorder=timedelta()), partitions=partitions
    )
    windows.tumbling("10 s").iterate_job(
        Spread, until=fixpoint(), to=parquet(folder / "out"), checkpoint=folder / "ck", rounds_per_epoch=ROUNDS,
        spread=True, local_root=folder / "local",
    ).run(close=True)  # fmt: skip
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
