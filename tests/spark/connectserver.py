"""A Spark Connect server as a process of its own, on loopback and a free port, ended by its process number."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyspark

from benchmarks.servers import free_port
from millpond.spark.java import find_java
from millpond.spark.session import LOOPBACK, TASK_FAILURES_MAX, local_settings

ROOT = Path(__file__).parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
START_SECONDS_MAX = 600

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """A server with its workers, which find the project and the tests where this process has them."""

    def __init__(self, log: Path, master: str | None = None, cores: int = 2) -> None:
        self._log = log
        self._port = free_port()
        settings = local_settings(cores) | {
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.executorEnv.PYTHONPATH": str(ROOT),
            # PySpark gives it to the workers of a classic session by itself.
            "spark.executorEnv.PYTHONHASHSEED": "0",
        }
        java = settings.pop("spark.driver.extraJavaOptions")
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--class", _CLASS, "--name", "millpond tests"]
        command += ["--master", master or f"local[{cores},{TASK_FAILURES_MAX}]", "--driver-java-options", java]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        environ = os.environ | {
            "JAVA_HOME": str(find_java().home),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": LOOPBACK,
        }
        with log.open("wb") as out:
            # The class comes with Spark itself; what stands for the application is not read.
            self._process = subprocess.Popen([*command, "spark-internal"], env=environ, stdout=out, stderr=out)

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"sc://{LOOPBACK}:{self._port}"

    @property
    def pid(self) -> int:
        """The process of the server."""
        return self._process.pid

    def wait_until_it_listens(self) -> None:
        """Return when clients are let in; fail with the end of the log if that does not happen."""
        until = time.monotonic() + START_SECONDS_MAX
        while not self._listens():
            ended = self._process.poll() is not None
            assert not ended, self.log()[-3000:]
            assert time.monotonic() < until, self.log()[-3000:]
            time.sleep(0.1)

    def log(self) -> str:
        """What the server said."""
        return self._log.read_text(errors="replace")

    def stop(self) -> None:
        """End the server, and wait for its end."""
        self._process.terminate()
        try:
            self._process.wait(timeout=300)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=300)

    def _listens(self) -> bool:
        with socket.socket() as trial:
            return trial.connect_ex((LOOPBACK, self._port)) == 0
