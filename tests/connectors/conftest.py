"""A Spark with its connectors for Kafka and Avro, of the newest version that has them: `make connectors` runs these.

The Spark of all other tests is newer than its connectors are.
"""

from __future__ import annotations

import os

import pyspark
import pytest

from benchmarks.brokers import KafkaServer
from millpond.spark.session import local_session

IVY = "MILLPOND_TEST_IVY"
"""Where the jars of connectors are kept, set by the script; without it there are none."""


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/connectors" in str(item.path):
            item.add_marker(pytest.mark.spark)
            if IVY not in os.environ:
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
    packages = [f"org.apache.spark:spark-{name}_2.13:{pyspark.__version__}" for name in ("sql-kafka-0-10", "avro")]
    conf = {
        "spark.jars.packages": ",".join(packages),
        "spark.jars.ivy": os.environ[IVY],
        "spark.sql.session.timeZone": "UTC",
    }
    session = local_session("connectors", cores=2, conf=conf)
    yield session
    session.stop()
