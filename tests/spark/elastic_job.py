"""An elastic job on separate executors, in a process of its own, for tests that slow one of them down.

`python -m tests.spark.elastic_job FOLDER 0 MASTER` reads FOLDER/in, a part per epoch, and ends when nothing is left.
FOLDER/options has options of the job under `job`, those of `Elastic` under `elastic`, and settings of Spark under
`conf`. Every committed epoch is a line of FOLDER/epochs. A file FOLDER/drag with a number lets so many tasks sleep.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

from millpond import Counter, Partitioned, Program, Tuning, entry
from millpond.engine.elastic import Elastic
from millpond.spark.reporting.progress import Progress
from millpond.spark.reporting.reports import EpochReport
from millpond.spark.session import local_session
from tests.spark.feeding import feed_all, streams

FOLDER: str | None = None
DRAG_SECONDS = 6.0

SETTINGS = {"spark.locality.wait": "20s"}


class Drag:
    """A callable object: the first processes that call it sleep, as many as a file says."""

    def __call__(self) -> None:
        if FOLDER is None or not (asked := Path(FOLDER) / "drag").exists():
            return
        for turn in range(int(asked.read_text())):
            try:
                os.close(os.open(asked.with_name(f"drag.{turn}"), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            time.sleep(DRAG_SECONDS)
            return


drag = Drag()


class Heavy(Program):
    """Counts by key, with some work for each row."""

    totals = Partitioned(Counter[int])

    @entry
    def add(self, key: int, turns: int) -> int:
        drag()
        work = 0
        for number in range(turns):
            work += number * key % 7
        self.totals[key] += 1 + 0 * work
        return self.totals[key]


class Telling(Progress):
    """Writes every epoch down when it is committed."""

    def __init__(self, folder: Path) -> None:
        super().__init__("elastic job", shown=False)
        self._folder = folder

    def epoch(self, report: EpochReport) -> None:
        with (self._folder / "epochs").open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(report)) + "\n")


def main(folder: Path, master: str) -> None:
    global FOLDER  # noqa: PLW0603 - it travels to the workers with the module
    options = json.loads((folder / "options").read_text())
    spark = local_session("elastic job", master=master, conf=SETTINGS | options.get("conf", {}))
    spark.sparkContext.setLogLevel("INFO" if options.get("conf") else "WARN")
    FOLDER = str(folder)
    (folder / "started").touch()
    elastic = Elastic(**options["elastic"]) if "elastic" in options else "off"
    job = Heavy.on(
        spark, checkpoint=folder / "ck", tuning=Tuning(elastic=elastic, retries=20), **options.get("job", {})
    )
    job._engine.progress = Telling(folder)
    feed_all(job, Heavy, streams(spark, Heavy, folder / "in"), folder / "out").run()
    spark.stop()


if __name__ == "__main__":
    # By its name as a module, under which the program travels.
    from tests.spark import elastic_job

    elastic_job.main(Path(sys.argv[1]), sys.argv[3])
