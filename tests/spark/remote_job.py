"""A streaming job in a process of its own, whose environment has what its checkpoint's storage asks for.

`python -m tests.spark.remote_job FOLDER URL` reads FOLDER/in with a checkpoint at URL, and ends when nothing is left.
"""

from __future__ import annotations

import sys
from pathlib import Path

from millpond import Tuning
from millpond.spark.session import local_session
from tests.programs.keyed import Store
from tests.spark.feeding import feed_all, streams


def main(folder: Path, url: str) -> None:
    spark = local_session("remote job", cores=2)
    spark.sparkContext.setLogLevel("INFO")  # the tests look whether anything tells a secret
    job = Store.on(spark, checkpoint=url, partitions=2, local_root=folder / "local", tuning=Tuning(small_epoch=0))
    feed_all(job, Store, streams(spark, Store, folder / "in"), folder / "out").run()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
