"""Topics of Kafka as users call them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from millpond.spark.frames.reading import Frame, Session


def kafka(
    spark: Session,
    servers: str,
    topic: str,
    *,
    entry: Callable[..., Any],
    format: Literal["json", "raw"] = "json",  # noqa: A002 - as Spark calls it
    streaming: bool = True,
    options: Mapping[str, str] | None = None,
) -> Frame:
    """Return the records of a topic as rows for an entry point: `kafka(spark, servers, "orders", entry=Shop.order)`.

    With `format="json"` a record's value is a JSON object, whose fields are the parameters of the entry point, of their
    types; with `"raw"` the parameters are named after what a record has: `value`, `key`, as bytes or as text. Beside
    them stand the record's `key`, `headers`, `topic`, `partition`, `offset` and `timestamp`, for `keep=` and for
    `time=EventTime("timestamp")`. A record that can't be parsed is a bad row: its dead letter has its bytes.

    Reads from the earliest record on, all that comes or, with `streaming=False`, all that is there. `options` are those
    of Spark's source, such as `startingOffsets` or `kafka.security.protocol`. Needs Spark's connector for Kafka:
    `spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:<version of Spark>`.
    """
    from millpond.spark.feeds import kafkarows

    return kafkarows.kafka_frame(spark, servers, topic, entry, format, options or {}, streaming=streaming)
