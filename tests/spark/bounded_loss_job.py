"""A streaming job with bounded loss in a process of its own, for tests that kill it.

`python -m tests.spark.bounded_loss_job FOLDER SMALL_EPOCH` reads FOLDER/in, a part per epoch, and ends
when nothing is left.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from millpond import BoundedLoss, Counter, Partitioned, Program, Tuning, entry
from millpond.spark.session import local_session
from tests.spark.feeding import feed_all, streams

PARTITIONS = 2


class Visits(Program):
    """Every visit counts once in an element that is exact, and once in one with bounded loss; the reply tells both."""

    exact = Partitioned(Counter[str])
    hits = Partitioned(Counter[str], durability=BoundedLoss(events=6, within=timedelta(seconds=3600)))

    @entry
    def visit(self, page: str) -> int:
        self.exact[page] += 1
        self.hits[page] += 1
        return self.exact[page]


def main(folder: Path, small_epoch: int) -> None:
    spark = local_session("bounded loss job")
    (folder / "started").touch()
    job = Visits.on(
        spark,
        checkpoint=folder / "ck",
        partitions=PARTITIONS,
        local_root=folder / "local",
        tuning=Tuning(small_epoch=small_epoch),
    )
    feed_all(job, Visits, streams(spark, Visits, folder / "in"), folder / "out").run()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
