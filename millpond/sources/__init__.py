"""Sources: DataFrames that fit an entry point, with a place for every row. Spark is loaded when one is asked for.

In reading order: `kafka`.
"""

from __future__ import annotations

from millpond.sources.kafka import kafka

__all__ = ["kafka"]
