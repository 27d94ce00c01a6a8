"""A bounded run of a relaxed program whose epochs leave messages, in a process of its own, for tests that kill it.

`python -m tests.spark.continued_job FOLDER SMALL_EPOCH` reads FOLDER/in and ends when nothing is left.
"""

from __future__ import annotations

import sys
from pathlib import Path

from millpond import Map, Partitioned, Program, Tuning, entry
from millpond.spark.session import local_session
from tests.spark.drivers import Driver
from tests.spark.feeding import feed_all, tables

STEPS = 2


class Walks(Program):
    """A loop that follows pointers in state: how many steps it takes depends on data."""

    marks = Partitioned(Map[int, int])

    @entry(relaxed=True)
    def walk(self, place: int, hops: int) -> int:
        """Add to every place on the way, and go on by what was there."""
        total = 0
        while hops > 0:
            mark = self.marks.get(place, 1)
            self.marks[place] = mark + 1
            total += mark
            place = (place + mark) % 23
            hops -= 1
        return total


class ContinuedDriver(Driver):
    """A driver of this job."""

    JOB = "tests.spark.continued_job"


def main(folder: Path, small_epoch: int) -> None:
    spark = local_session("continued job")
    (folder / "started").touch()
    job = Walks.on(
        spark,
        checkpoint=folder / "ck",
        partitions=2,
        local_root=folder / "local",
        tuning=Tuning(small_epoch=small_epoch, steps=STEPS),
    )
    feed_all(job, Walks, tables(spark, Walks, folder / "in"), folder / "out").run("walks")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
