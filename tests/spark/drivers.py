"""Starting a driver as a process, killing it, and waiting until everything that it started is gone."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from millpond.crashpoints import VARIABLE
from tests.programs.keyed import say

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 900


def wait_for(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < until, f"waited in vain for {what}"
        time.sleep(0.1)


class Driver:
    """A driver job on a folder, with all processes below it, remembered while it lives."""

    JOB = "tests.spark.driver_job"

    def __init__(
        self,
        folder: Path,
        crash_at: str | None = None,
        master: str | None = None,
        small_epoch: int = 0,
        log: str = "log",
    ) -> None:
        self.folder = folder
        self._log = folder / log
        (folder / "started").unlink(missing_ok=True)
        environ = {name: value for name, value in os.environ.items() if name != VARIABLE}
        if crash_at is not None:
            environ[VARIABLE] = crash_at
        command = [sys.executable, "-m", self.JOB, str(folder), str(small_epoch)]
        command += [master] if master else []
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=out, stderr=out)
        self._below: dict[int, psutil.Process] = {}

    def below(self) -> list[psutil.Process]:
        """The processes that this driver started, and theirs."""
        try:
            found = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            found = []
        self._below |= {process.pid: process for process in found}
        return found

    def wait_until_started(self) -> None:
        wait_for(lambda: (self.folder / "started").exists() or self.ended(), "the session")

    def kill_after(self, seconds: float) -> None:
        """Kill the driver at that time from now, unless it ends before."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=seconds)
        if not self.ended():
            os.kill(self._process.pid, signal.SIGKILL)

    def kill_at_random(self, epochs: Callable[[], int], rng: random.Random) -> None:
        """Kill the driver within a second after it committed one more epoch."""
        self.wait_until_started()
        before = epochs()
        wait_for(lambda: epochs() > before or self.ended(), "an epoch")
        self.kill_after(rng.uniform(0.0, 0.8))
        assert self.end() == -signal.SIGKILL

    def end(self) -> int:
        """Wait for the end of the driver and of all that it started; return how it ended."""
        wait_for(self.ended, "the end of the driver")
        _, alive = psutil.wait_procs(self._below.values(), timeout=600)
        for process in alive:
            process.kill()
        assert alive == [], f"{alive} outlived their driver"
        code = self._process.returncode
        if code not in {0, -signal.SIGKILL}:
            say(self.log()[-4000:])
        return code

    def log(self) -> str:
        """What the driver and Spark said."""
        return self._log.read_text(errors="replace")

    def ended(self) -> bool:
        """Whether the driver itself is gone."""
        self.below()
        return self._process.poll() is not None
