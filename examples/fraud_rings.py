"""Rings of accounts that pay each other, on a growing graph of payments: components, kept up to date with each window.

Run it: `python -m examples.fraud_rings payments/ checkpoint/ rings/`, with Parquet files of `payer`, `payee` and `at`.
"""

from __future__ import annotations

import sys

import millpond
from millpond import EventTime, parquet
from millpond.loops import connected_components


def main(payments: str, checkpoint: str, rings: str) -> None:
    """Send the ring of each account to a sink, after every ten minutes of payments."""
    from millpond.spark.session import local_session

    spark = local_session()
    schema = spark.read.parquet(payments).schema
    stream = spark.readStream.schema(schema).parquet(payments)
    graph = millpond.graph(stream, source="payer", target="payee", time=EventTime("at", disorder="1 minute"))
    snapshots = graph.snapshots("10 minutes", directed=False, growing=True)
    snapshots.job(connected_components(), to=parquet(rings), checkpoint=checkpoint).run(close=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
