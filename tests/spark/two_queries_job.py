"""Two queries of one session on separate executors at once, in a process of its own.

`python -m tests.spark.two_queries_job FOLDER 0 MASTER` reads FOLDER/short/in and FOLDER/long/in, a part per epoch.
FOLDER/held says which stores of both the executors held while both ran, when the short one had ended, and in the end.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from millpond.spark.job import Job
from millpond.spark.session import local_session
from tests.spark.cluster_job import SETTINGS, stores_of
from tests.spark.feeding import feed_all, streams
from tests.spark.gated import Gated

SHORT, LONG = "short", "long"


def held(jobs: dict[str, Job]) -> dict[str, list[str]]:
    return {name: stores_of(job) for name, job in jobs.items()}


def main(folder: Path, master: str) -> None:
    spark = local_session("two queries", master=master, conf=SETTINGS)
    (folder / "started").touch()
    jobs, queries = {}, {}
    for name in (SHORT, LONG):
        own = folder / name
        job = Gated.on(spark, checkpoint=own / "ck", partitions=2, progress=False)
        jobs[name] = feed_all(job, Gated, streams(spark, Gated, own / "in"), own / "out")
        queries[name] = jobs[name].start("available now")
    while queries[SHORT].isActive and not all(held(jobs).values()):
        time.sleep(0.05)
    told = [held(jobs)]
    for name in (SHORT, LONG):
        queries[name].awaitTermination()
        jobs[name]._anchors.wait_closed()
        told.append(held(jobs))
    (folder / "held").write_text(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[3])
