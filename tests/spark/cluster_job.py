"""A streaming job on separate executors, in a process of its own, for tests that watch or kill them.

`python -m tests.spark.cluster_job FOLDER SMALL_EPOCH MASTER` reads FOLDER/in, a part per epoch, and ends when nothing
is left. FOLDER/options may hold other options; `program` names another program, and `resizes` lets the number of
partitions change after every few epochs. Windows are closed in the end. Every committed epoch is a line of
FOLDER/epochs. FOLDER/stores says which stores the executors held behind the last one, and FOLDER/stores.after which are
left when the job has ended.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from millpond import EventTime, Tuning, parquet
from millpond.spark.job import Job
from millpond.spark.placement.executor import ON_EXECUTOR
from millpond.spark.reporting.progress import Progress
from millpond.spark.reporting.reports import EpochReport
from millpond.spark.session import local_session
from tests.programs.keyed import Mixed
from tests.programs.windowed import Corrected
from tests.spark.continued_job import Walks
from tests.spark.feeding import feed_all, stream_of, streams
from tests.spark.gated import Gated

PARTITIONS = 3
NAMED = {program.__name__: program for program in (Gated, Mixed, Walks, Corrected)}
DISORDER, LATENESS = timedelta(seconds=2), timedelta(seconds=4)

SETTINGS = {
    # Else the master gives the application up after some executors that died in a row.
    "spark.deploy.maxExecutorRetries": "-1",
    # On a machine with more processes than cores, a task may take longer than a partition waits for its executor.
    "spark.locality.wait": "20s",
}


class Telling(Progress):
    """Writes every epoch down when it is committed, so that a driver that is killed has told of it."""

    def __init__(self, folder: Path, job: Job, *, resizes: bool) -> None:
        super().__init__("cluster job", shown=False)
        self._folder = folder
        self._job = job
        self._resizes = resizes

    def epoch(self, report: EpochReport) -> None:
        super().epoch(report)
        with (self._folder / "epochs").open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(report), default=str) + "\n")
        (self._folder / "stores").write_text(json.dumps(stores_of(self._job)))
        if self._resizes and report.epoch % 4 == 0:
            self._job.resize(1 + report.epoch // 4 % 5)


def stores_of(job: Job) -> list[str]:
    """The stores of a job in the folders of executors on this host."""
    name = job._store_root.removeprefix(ON_EXECUTOR)
    # Java has a temporary folder of its own, whatever TMPDIR says.
    places = {Path(tempfile.gettempdir()), Path("/tmp")}
    below = f"spark-*/executor-*/blockmgr-*/millpond/{name}/*/*"
    return sorted(str(found) for place in places for found in place.glob(below))


def fed(job: Job, program: type, spark: SparkSession, folder: Path) -> Job:
    """Feed the parts of a folder to a job."""
    if program is not Corrected:
        return feed_all(job, program, streams(spark, program, folder / "in"), folder / "out")
    rows = stream_of(spark, folder / "in" / "read")
    job.feed("read", rows, order_by="place", time=EventTime("ts", disorder=DISORDER, lateness=LATENESS))
    return job.on_window("spans", to=parquet(folder / "out" / "spans"))


def main(folder: Path, master: str) -> None:
    spark = local_session("cluster job", master=master, conf=SETTINGS)
    spark.sparkContext.setLogLevel("WARN")  # the tests look for the deaths that they caused
    (folder / "started").touch()
    options = {"partitions": PARTITIONS, "tuning": {"retries": 20}}
    if (folder / "options").exists():
        options |= json.loads((folder / "options").read_text())
    program, resizes = NAMED[options.pop("program", Gated.__name__)], options.pop("resizes", False)
    options["tuning"] = Tuning(**options["tuning"])
    job = program.on(spark, checkpoint=folder / "ck", **options)
    job._engine.progress = Telling(folder, job, resizes=resizes)
    fed(job, program, spark, folder).run(close=program is Corrected)
    (folder / "stores.after").write_text(json.dumps(stores_of(job)))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[3])
