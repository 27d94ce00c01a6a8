"""A streaming job with a sink of its own kind, in a process that tests kill: `examples.sqlite_sink`.

`python -m tests.spark.sqlite_job FOLDER SMALL_EPOCH` reads FOLDER/in, a part per epoch, and ends when nothing is left.
"""

from __future__ import annotations

import sys
from pathlib import Path

from examples.sqlite_sink import SqliteSink
from millpond import Tuning
from millpond.spark.session import local_session
from tests.programs.keyed import Totals
from tests.spark.feeding import stream_of

TABLE = "totals"


def main(folder: Path, small_epoch: int) -> None:
    spark = local_session("job with a sink of its own", cores=2)
    tuning = Tuning(small_epoch=small_epoch)
    job = Totals.on(spark, checkpoint=folder / "ck", partitions=2, local_root=folder / "local", tuning=tuning)
    job.feed("add", stream_of(spark, folder / "in"), to=SqliteSink(folder / "replies.db", TABLE), keep=["key"]).run()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
