"""Connectors that fit a version of Spark, and sessions that bring them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import millpond
from millpond.errors import ConnectorError
from millpond.spark import session
from millpond.spark.connectors import CONNECTORS, coordinates, settings_of


def test_connectors_that_are_wanted_together_are_joined():
    said = settings_of("4.1.4", ["delta", "iceberg"])
    assert said["spark.jars.packages"] == ",".join(coordinates("4.1.4", ["delta", "iceberg"]))
    assert said["spark.sql.extensions"].count(",") == 1
    assert settings_of("4.1.4", ["kafka"]) == {"spark.jars.packages": CONNECTORS["4.1"]["kafka"]}


@pytest.mark.parametrize("spark", ["4.3.0", "5.0.0", "4.2.1"])
def test_a_connector_that_does_not_exist_is_refused_with_the_spark_that_has_it(spark):
    with pytest.raises(ConnectorError, match=r"MP845[\s\S]*pyspark==4.1"):
        coordinates(spark, ["iceberg"])


@pytest.fixture
def running(monkeypatch):
    """A session that runs already, with these packages."""

    def run(packages):
        conf = SimpleNamespace(get={"spark.jars.packages": packages}.get)
        found = SimpleNamespace(getActiveSession=lambda: SimpleNamespace(conf=conf))
        monkeypatch.setattr(session, "SparkSession", found)

    return run


def test_a_session_that_runs_without_a_connector_is_told(running, monkeypatch):
    monkeypatch.setattr(session.pyspark, "__version__", "4.1.4")
    running(None)
    with pytest.raises(ConnectorError, match="MP846"):
        millpond.local_session(delta=True)
    brought = settings_of("4.1.4", ["delta"])
    running(f"a:b:1,{CONNECTORS['4.1']['delta']}")
    session.check_running(brought)
    session.check_running({})


def test_a_session_asks_for_what_fits_the_installed_spark(monkeypatch):
    monkeypatch.setattr(session.pyspark, "__version__", "4.3.0")
    with pytest.raises(ConnectorError, match="MP845"):
        millpond.local_session(kafka=True)
