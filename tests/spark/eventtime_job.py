"""A bounded run over a stream with event time, in a process of its own, for tests that kill it.

`python -m tests.spark.eventtime_job FOLDER SMALL_EPOCH` reads FOLDER/in, a file per epoch, and closes event time when
nothing is left.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path

from millpond import Counter, EventTime, Map, Partitioned, Program, Tuning, entry, on_timer, parquet
from millpond.spark.session import local_session
from tests.spark.drivers import Driver
from tests.spark.feeding import stream_of


class Visits(Program):
    """A visit is over when nothing came for three seconds of event time; pages are known for five."""

    clicks = Partitioned(Counter[str])
    pages = Partitioned(Map[str, list[int]], ttl=timedelta(seconds=5))

    @entry
    def click(self, user: str, page: int) -> int:
        self.clicks[user] += 1
        self.pages.setdefault(user, []).append(page)
        self.over.set(user, self.now + timedelta(seconds=3))
        return len(self.pages[user])

    @on_timer
    def over(self, user: str, at: datetime) -> tuple[int, int]:
        return self.clicks.pop(user, 0), len(self.pages.get(user, []))


DISORDER = timedelta(seconds=2)


class VisitsDriver(Driver):
    """A driver of this job."""

    JOB = "tests.spark.eventtime_job"


def visits(spark, folder, small_epoch, frame):
    """The job on a folder, fed with a frame."""
    job = Visits.on(
        spark,
        checkpoint=folder / "ck",
        partitions=2,
        local_root=folder / "local",
        tuning=Tuning(small_epoch=small_epoch),
    )
    job.feed(
        "click",
        frame,
        order_by="place",
        keep=["place"],
        to=parquet(folder / "out"),
        time=EventTime("ts", disorder=DISORDER, late=parquet(folder / "late")),
    )
    return job.on_timer("over", to=parquet(folder / "over"))


def main(folder: Path, small_epoch: int) -> None:
    spark = local_session("event time job")
    (folder / "started").touch()
    visits(spark, folder, small_epoch, stream_of(spark, folder / "in")).run(close=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
