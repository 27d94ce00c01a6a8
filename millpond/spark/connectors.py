"""Which connectors exist for which Spark, by their Maven coordinates: sessions, doctor and docs read this one table.

A connector is built for one minor version of Spark. Where none is published yet, there is none here: one of another
version may load and then fail in the middle of a job.

>>> coordinates("4.1.4", ["delta"])
('io.delta:delta-spark_4.1_2.13:4.4.0',)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

from millpond.errors import ConnectorError

Connector: TypeAlias = Literal["kafka", "delta", "iceberg"]

CONNECTORS: Final[Mapping[str, Mapping[str, str]]] = {
    "4.1": {
        "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",
        "delta": "io.delta:delta-spark_4.1_2.13:4.4.0",
        "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    },
    "4.2": {
        "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "delta": "io.delta:delta-spark_4.2_2.13:4.4.0",
    },
    "4.3": {},
}
"""The newest of each, by the minor versions of Spark that the tests run on."""

SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "kafka": {},
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.iceberg": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.iceberg.type": "hadoop",
        "spark.sql.catalog.iceberg.warehouse": "spark-warehouse/iceberg",
    },
}
"""What a session must say for a connector to work; tables of Iceberg are in the catalog `iceberg`."""

PACKAGES: Final = "spark.jars.packages"
_JOINED: Final = (PACKAGES, "spark.sql.extensions")


def minor_of(version: str) -> str:
    """Return the minor version of Spark: "4.1" of "4.1.4"."""
    found = re.match(r"\d+\.\d+", version)
    return found[0] if found else version


def newest_with(connector: str) -> str | None:
    """Return the newest minor version of Spark that a connector exists for."""
    known = [minor for minor, there in CONNECTORS.items() if connector in there]
    return known[-1] if known else None


def coordinates(version: str, wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the Maven coordinates of connectors for a version of Spark; one that does not exist is refused."""
    minor = minor_of(version)
    there = CONNECTORS.get(minor, {})
    names = list(wanted)
    for name in names:
        if name not in there:
            newest = newest_with(name)
            raise ConnectorError(
                "MP845",
                f"there is no connector to {name} for Spark {minor}",
                expected=f"Spark {', '.join(one for one, known in CONNECTORS.items() if name in known)}",
                found=f"PySpark {version}",
                hint=f'pip install "pyspark=={newest}.*"; or, if there is one by now, name it in '
                f'conf={{"{PACKAGES}": "group:artifact:version"}}',
            )
    return tuple(there[name] for name in names)


def settings_of(version: str, wanted: Iterable[str]) -> dict[str, str]:
    """Return what a session says to have connectors."""
    names = list(wanted)
    said = [{PACKAGES: jar} for jar in coordinates(version, names)] + [dict(SETTINGS[name]) for name in names]
    joined: dict[str, str] = {}
    for one in said:
        for key, value in one.items():
            joined[key] = f"{joined[key]},{value}" if key in _JOINED and key in joined else value
    return joined
