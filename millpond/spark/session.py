"""An embedded Spark for examples, tests and notebooks: quiet, on loopback, with a Java that works."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from millpond.errors import ConnectorError, SetupError
from millpond.spark.connectors import PACKAGES, settings_of
from millpond.spark.interpreter import HASH_SEED, WORKER_PYTHON
from millpond.spark.java import find_java

LOOPBACK = "127.0.0.1"

TASK_FAILURES_MAX = 4
"""Local Spark gives up at the first failed task unless told otherwise; clusters try four times."""

_COLLECTOR = "-XX:+UseParallelGC"
"""The collector that costs a small machine least: it has no threads of its own beside the work."""

_LOG4J = Path(__file__).with_name("quiet.log4j2.properties")
_JAVA_HOME = Path(__file__).with_name("java_home")


def local_session(
    name: str = "millpond",
    cores: int = 2,
    *,
    connectors: Sequence[str] = (),
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark inside this process, or return the session that is already running.

    `connectors` are fetched by Spark, those that fit it. `conf` has the last word over every setting made here. Raises
    MP701 when there is no Java 17 or newer.
    """
    if cores < 1:
        raise SetupError(
            "MP702", "a local session needs at least one core", expected="cores >= 1", found=f"cores={cores}"
        )
    own = dict(conf or {})
    # Who names the packages knows which ones fit.
    brought = {} if PACKAGES in own or not connectors else settings_of(pyspark.__version__, connectors)
    check_running(brought)
    settings = local_settings(cores) | brought | own
    builder = SparkSession.Builder().appName(name).master(master or f"local[{cores},{TASK_FAILURES_MAX}]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _environment():
        return builder.getOrCreate()


def check_running(brought: Mapping[str, str]) -> None:
    """Refuse connectors for a session that is there without them: a JVM takes jars at its start."""
    running = SparkSession.getActiveSession() if brought else None
    if running is None:
        return
    there = running.conf.get(PACKAGES, None) or ""
    lacking = [jar for jar in brought[PACKAGES].split(",") if jar not in there.split(",")]
    if lacking:
        raise ConnectorError(
            "MP846",
            "a Spark session runs already, without these connectors",
            expected=", ".join(lacking),
            found=there or "none",
            hint="start a new process, or call spark.stop() first",
        )


def local_settings(cores: int) -> dict[str, str]:
    """Return the settings of a local session, for those who build their own."""
    options = f'"-Dlog4j2.configurationFile={_LOG4J.as_uri()}" {_COLLECTOR}'
    return {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": options,
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        # Over TCP a task with few rows waits 40 ms for a delayed acknowledgement.
        "spark.python.unix.domain.socket.enabled": "true",
        # A local file costs nothing to open: one small file is read by all cores instead of by one.
        "spark.sql.files.openCostInBytes": "65536",
        # Shuffled rows stay in this machine's memory; compressing them costs more than writing them.
        "spark.shuffle.compress": "false",
    }


@contextmanager
def _environment() -> Iterator[None]:
    """Set what the JVM and its Python workers inherit; what the user had is there again once the JVM runs."""
    os.environ.setdefault(WORKER_PYTHON, sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Spark binds its own ports to the address that it believes the host has.
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    java = find_java()
    quiet = os.access(_JAVA_HOME / "bin" / "java", os.X_OK) and java.home != _JAVA_HOME
    if quiet:
        os.environ["MILLPOND_JAVA_HOME"] = str(java.home)
        os.environ["MILLPOND_JAVA_VERSION"] = str(java.version)
    # PySpark hands the driver's hash seed on to the workers, and all of these must have one.
    given = {"JAVA_HOME": str(_JAVA_HOME if quiet else java.home), HASH_SEED: "0"}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
