"""Sinks: where replies, dead letters and late rows go, and the protocol by which they get there exactly once.

What is shipped uses this protocol and nothing else, so a sink of your own can do all that these do; docs/SINKS.md is
the tutorial, and `millpond.testing.sinks` tests yours.

In reading order: `tokens`, `protocol`, `disk`, `parquet`, `dataset`, `memory`, `console`, `functions`, `missing`,
`kafka/`, `tables/`.
"""

from __future__ import annotations

from millpond.sinks.kafka.sink import kafka
from millpond.sinks.protocol import Sink, SinkDescription, Staged, StagedFile
from millpond.sinks.tables.delta import delta
from millpond.sinks.tables.iceberg import iceberg
from millpond.sinks.tables.jdbc import jdbc
from millpond.sinks.tokens import Token

__all__ = ["Sink", "SinkDescription", "Staged", "StagedFile", "Token", "delta", "iceberg", "jdbc", "kafka"]
