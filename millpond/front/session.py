"""An embedded Spark as users ask for it: Spark is loaded when it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millpond.spark.job import Session


def local_session(
    name: str = "millpond",
    cores: int = 2,
    *,
    kafka: bool = False,
    delta: bool = False,
    iceberg: bool = False,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> Session:
    """Start a quiet Spark inside this process, for trying things out, or return the session that is already running.

    `kafka`, `delta` and `iceberg` bring the connectors that fit the installed PySpark, which Spark fetches by their
    Maven coordinates at the first start (docs/VERSIONS.md); one that does not exist for it is refused (MP845). Tables
    of Iceberg are in the catalog `iceberg`. `conf` has the last word over every setting made here.
    """
    from millpond.spark.session import local_session as start

    wanted = [one for one, asked in (("kafka", kafka), ("delta", delta), ("iceberg", iceberg)) if asked]
    return start(name, cores, connectors=wanted, master=master, conf=conf)
