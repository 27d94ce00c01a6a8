"""A Spark with its connectors for Kafka and Avro, of the newest version that has them: `make connectors` runs these.

The Spark of all other tests is newer than its connectors are.
"""

from __future__ import annotations

import os

import pyspark
import pytest

from benchmarks.brokers import KafkaServer
from millpond.spark.session import local_session

CONNECTORS = "MILLPOND_TEST_CONNECTORS"
"""Set by the script that has put the connectors beside Spark's own jars."""


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/connectors" in str(item.path):
            item.add_marker(pytest.mark.spark)
            if CONNECTORS not in os.environ:
                item.add_marker(
                    pytest.mark.skip(reason=f"Spark {pyspark.__version__} has no connector: make connectors")
                )


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    server = KafkaServer(tmp_path_factory.mktemp("kafka") / "log")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def spark():
    session = local_session("connectors", cores=2, conf={"spark.sql.session.timeZone": "UTC"})
    yield session
    session.stop()
