"""A standalone cluster of the installed Spark on loopback: a master and workers, processes ended by their numbers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.servers import free_port
from millpond.spark.java import find_java
from millpond.spark.session import LOOPBACK
from tests.spark.connectserver import ROOT, SPARK_HOME
from tests.spark.listening import below

START_SECONDS_MAX = 600
SUBMIT_SECONDS_MAX = 400


class Standalone:
    """A cluster; `folder` holds its logs and the local directories of its workers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        self._port = free_port()
        self.master = f"spark://{LOOPBACK}:{self._port}"

    def start(self, workers: int) -> None:
        """Start the master, then the workers, and wait until they know each other."""
        self._start("master", "org.apache.spark.deploy.master.Master", "--port", str(self._port))
        self._wait(lambda: "I have been elected leader" in self.log("master"), "the master")
        for number in range(workers):
            own = ("--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / f"work-{number}"))
            self._start(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *own, self.master)
        self._wait(lambda: self.log("master").count("Registering worker") == workers, "the workers")

    def submit(
        self, job: Path, *arguments: str, conf: dict[str, str], py_files: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a job by spark-submit, as docs/deploy.md tells it."""
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.master]
        command += ["--py-files", str(py_files)] if py_files else []
        for key, value in conf.items():
            command += ["--conf", f"{key}={value}"]
        command += [str(job), *arguments]
        return subprocess.run(
            command, env=self._environ(), capture_output=True, text=True, timeout=SUBMIT_SECONDS_MAX, check=False
        )

    def processes(self) -> list[psutil.Process]:
        """The master and the workers, and what they started."""
        return [process for one in self._started for process in below(one.pid)]

    def log(self, name: str) -> str:
        """What one of the processes said."""
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def stop(self) -> None:
        """End all processes, those that workers started first."""
        started = [child for one in self._started for child in below(one.pid)[1:]]
        for process in reversed(self._started):
            process.terminate()
        for process in self._started:
            try:
                process.wait(timeout=300)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=300)
        _, alive = psutil.wait_procs(started, timeout=300)
        for child in alive:
            child.kill()

    def _start(self, name: str, main: str, *arguments: str) -> None:
        command = [str(SPARK_HOME / "bin" / "spark-class"), main, "--host", LOOPBACK, "--webui-port", "0", *arguments]
        with (self._folder / f"{name}.log").open("wb") as log:
            self._started.append(subprocess.Popen(command, env=self._environ(), stdout=log, stderr=log))

    def _environ(self) -> dict[str, str]:
        return os.environ | {
            "JAVA_HOME": str(find_java().home),
            "PYSPARK_PYTHON": sys.executable,
            # Instead of an installation on every machine.
            "PYTHONPATH": str(ROOT),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": LOOPBACK,
        }

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + START_SECONDS_MAX
        while not condition():
            ended = [one.args for one in self._started if one.poll() is not None]
            assert not ended, ended
            assert time.monotonic() < until, f"waited in vain for {what}"
            time.sleep(0.1)


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[Standalone]:
    """A cluster for as long as it is used."""
    folder.mkdir()
    cluster = Standalone(folder)
    try:
        cluster.start(workers)
        yield cluster
    finally:
        cluster.stop()
