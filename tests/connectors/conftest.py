"""A Spark with its connectors for Kafka, Avro, Delta and Iceberg: `make connectors` runs these.

The Spark of all other tests is newer than its connectors are.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyspark
import pytest

from benchmarks.brokers import KafkaServer
from millpond.spark.connectors import SETTINGS
from millpond.spark.session import local_session

CONNECTORS = "MILLPOND_TEST_CONNECTORS"
"""Set by the script that has put the connectors beside Spark's own jars."""


JARS = {"avro": "spark-avro", "delta": "delta-spark", "iceberg": "iceberg-spark-runtime"}
JOINED = "spark.sql.extensions"


def there(name):
    """Whether Maven had a connector for this Spark."""
    return any((Path(pyspark.__file__).parent / "jars").glob(f"{JARS[name]}*"))


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/connectors" not in str(item.path):
            continue
        item.add_marker(pytest.mark.spark)
        wanted = next(item.iter_markers("connector"), None)
        if CONNECTORS not in os.environ:
            item.add_marker(pytest.mark.skip(reason=f"Spark {pyspark.__version__} has no connector: make connectors"))
        elif wanted is not None and not there(wanted.args[0]):
            reason = f"there is no {JARS[wanted.args[0]]} for Spark {pyspark.__version__} at this Maven"
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    server = KafkaServer(tmp_path_factory.mktemp("kafka") / "log")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    conf = {"spark.sql.session.timeZone": "UTC"}
    for name in ("delta", "iceberg"):
        if there(name):
            own = SETTINGS[name]
            joined = ",".join(each[JOINED] for each in (conf, own) if JOINED in each)
            conf |= own | {JOINED: joined}
    conf["spark.sql.catalog.iceberg.warehouse"] = str(tmp_path_factory.mktemp("warehouse"))
    session = local_session("connectors", cores=2, conf=conf)
    yield session
    session.stop()
