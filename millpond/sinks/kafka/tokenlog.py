"""The tokens of files that are out: records of a compacted topic, each written in one transaction with its replies.

A record is keyed by who wrote it, and has all tokens of the last epoch that this writer wrote. So compaction keeps what
a restart asks for, and no more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from millpond.errors import SinkError
from millpond.sinks.kafka.failures import refusal, speaking
from millpond.sinks.missing import client

_SETTINGS = {
    "cleanup.policy": "compact",
    "segment.ms": "3600000",
    "segment.bytes": "16777216",
    "min.cleanable.dirty.ratio": "0.1",
}
"""Old tokens go within hours: what is left is read at every start."""

_POLL_S = 1.0


def make_topic(options: Mapping[str, Any], topic: str, timeout_s: float) -> None:
    """Make the topic of tokens, unless it is there."""
    kafka, admin = client("confluent_kafka", "kafka"), client("confluent_kafka.admin", "kafka")
    made = admin.NewTopic(topic, num_partitions=1, replication_factor=-1, config=_SETTINGS)
    with speaking("make", topic):
        maker = admin.AdminClient(dict(options))
        result = maker.create_topics([made], operation_timeout=timeout_s, request_timeout=timeout_s)[topic]
        try:
            result.result()
        except kafka.KafkaException as error:
            if error.args[0].code() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def record_of(tokens: Iterable[str]) -> bytes:
    """Return the value of a record."""
    return json.dumps(sorted(tokens)).encode()


def tokens_out(options: Mapping[str, Any], topic: str, since: int, timeout_s: float) -> tuple[dict[str, set[str]], int]:
    """Return the tokens that are out, by the key of their record, and up to where they were read.

    It waits until every record that is there now is decided: behind the open transaction of another job, one that was
    committed would not be seen.
    """
    kafka = client("confluent_kafka", "kafka")
    settings = {
        **options,
        "group.id": "millpond",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 10,
    }
    place = kafka.TopicPartition(topic, 0, since)
    with speaking("read", topic):
        looks = kafka.Consumer({**settings, "isolation.level": "read_uncommitted"})
        try:
            _, end = looks.get_watermark_offsets(place, timeout=timeout_s)
        finally:
            looks.close()
        reads = kafka.Consumer({**settings, "isolation.level": "read_committed"})
        try:
            reads.assign([place])
            return _read(reads, place, end, timeout_s), max(end, since)
        finally:
            reads.close()


def _read(reads: Any, place: Any, end: int, timeout_s: float) -> dict[str, set[str]]:
    codes = client("confluent_kafka", "kafka").KafkaError
    out: dict[str, set[str]] = {}
    at, waited = place.offset, 0.0
    while at < end:
        record = reads.poll(_POLL_S)
        waited = waited + _POLL_S if record is None else waited
        if record is not None and record.error() is not None:
            if record.error().code() != codes._PARTITION_EOF:  # noqa: SLF001
                raise refusal(record.error(), "read", place.topic)
            # Where it ends for now: markers of transactions have offsets, too.
            at = record.offset()
        elif record is not None:
            at = record.offset() + 1
            out[record.key().decode()] = set(json.loads(record.value()))
        if waited > timeout_s:
            raise SinkError(
                "MP800",
                f"Kafka can't read topic {place.topic}",
                expected=f"its records up to offset {end}",
                found=f"nothing beyond {at} for {timeout_s} s: a transaction of another writer may be open",
                hint="the epoch is committed; the next start publishes it before anything else",
            )
    return out
