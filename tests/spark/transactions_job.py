"""The bank as a streaming job in a process of its own, for tests that kill it or run it on another master.

`python -m tests.spark.transactions_job FOLDER SMALL_EPOCH [MASTER]` reads FOLDER/in, a part per epoch, and ends when
nothing is left.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from millpond.crashpoints import VARIABLE
from tests.spark.drivers import ROOT, Driver
from tests.spark.transactions_feeding import run_job
from tests.spark.transactions_feeding import streams as streams_of

PARTITIONS = 2


class BankDriver(Driver):
    """A driver of this job on a folder, with all processes below it."""

    def __init__(
        self, folder: Path, crash_at: str | None = None, master: str | None = None, small_epoch: int = 0
    ) -> None:
        self.folder = folder
        (folder / "started").unlink(missing_ok=True)
        environ = {name: value for name, value in os.environ.items() if name != VARIABLE}
        if crash_at is not None:
            environ[VARIABLE] = crash_at
        command = [sys.executable, "-m", "tests.spark.transactions_job", str(folder), str(small_epoch)]
        command += [master] if master else []
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=log, stderr=log)
        self._below = {}


def main(folder: Path, small_epoch: int, master: str | None) -> None:
    from millpond.runtime.spark.session import local_session
    from millpond.testing.transactions.worlds.bank import Bank

    spark = local_session("bank", master=master)
    (folder / "started").touch()
    run_job(spark, Bank, streams_of(spark, Bank, folder / "in"), folder, partitions=PARTITIONS, small_epoch=small_epoch)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
