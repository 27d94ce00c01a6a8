"""One embedded Spark for all tests in this folder, each of which bears the mark `spark`.

With MILLPOND_TEST_CONNECT=1 it is a client of a Spark Connect server, which is a process of its own. Tests that can't
run there bear the mark `classic`, with the reason; docs/LIMITATIONS.md lists the reasons.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from millpond.spark.session import local_session
from tests.spark.connectserver import ConnectServer

HERE = Path(__file__).parent

ARCHIVE = HERE.parents[1] / ".venv" / "spark.jsa"
"""Classes as a JVM keeps them in memory (scripts/class_archive.sh): four seconds of work at each start without it."""


def java_options() -> str:
    """What every JVM gets, drivers and executors, also those in processes that tests start."""
    # No test runs for so long that code which the JVM compiles twice would pay: a third of the time went there.
    own = "-XX:TieredStopAtLevel=1"
    if ARCHIVE.exists():
        # One that does not suit is passed over, without a word on standard output.
        own += f" '-XX:SharedArchiveFile={ARCHIVE}' -Xlog:disable -Xlog:all=error:stderr"
    return f'{own} "-Dspark.executor.extraJavaOptions={own}"'


os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options())

OWN_SPARK = "tests that start a Spark of their own, or none"
"""Left out where all others run through Connect."""

HEAP = "3g"
"""Spark's own 1 GB holds two values of 64 MB on their way only if it held little before: each is there four times."""

CONNECT = os.environ.get("MILLPOND_TEST_CONNECT") == "1"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    own = [item for item in items if HERE in item.path.parents]
    for item in own:
        item.add_marker(pytest.mark.spark)
        classic = item.get_closest_marker("classic")
        if CONNECT and classic is not None:
            item.add_marker(pytest.mark.skip(reason=f"not through Connect: {classic.args[0]}"))
    # Files with tests that take minutes come first, then those with many: two workers end at about the same time.
    many = Counter(item.path for item in own)
    long = {item.path for item in own if item.get_closest_marker("timeout")}
    items[:] = [item for item in items if HERE not in item.path.parents]
    items += sorted(own, key=lambda item: (item.path not in long, -many[item.path]))
    # They are the same in both modes: OWN_SPARK.
    apart = [item for item in own if CONNECT and "spark" not in getattr(item, "fixturenames", ())]
    if apart:
        config.hook.pytest_deselected(items=apart)
        items[:] = [item for item in items if item not in apart]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    started = ConnectServer(tmp_path_factory.mktemp("connect") / "log")
    try:
        started.wait_until_it_listens()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    if CONNECT:
        url = request.getfixturevalue("server").url
        session = SparkSession.Builder().remote(url).create()
    else:
        session = local_session("millpond tests", cores=2, conf={"spark.driver.memory": HEAP})
    yield session
    session.stop()


@pytest.fixture
def in_utc(spark):
    """Let the session show times in UTC, for as long as a test runs."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)
