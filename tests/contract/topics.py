"""A reader of Kafka for tests, which shares nothing with the sink: what is in a topic, as readers see it."""

from __future__ import annotations

import itertools
import json

from confluent_kafka import Consumer, TopicPartition

_names = itertools.count()


def topic_name():
    return f"topic-{next(_names)}"


def records_in(servers, topic, isolation="read_committed"):
    """All records of a topic up to its end, in the order of its partitions and offsets."""
    reads = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )
    try:
        partitions = reads.list_topics(topic, timeout=600).topics[topic].partitions
        reads.assign([TopicPartition(topic, number, 0) for number in partitions])
        found, ended = [], set()
        while len(ended) < len(partitions):
            record = reads.poll(600)
            assert record is not None, "the broker does not answer"
            if record.error() is None:
                found.append(record)
            else:
                ended.add(record.partition())
        return sorted(found, key=lambda record: (record.partition(), record.offset()))
    finally:
        reads.close()


def rows_in(servers, topic):
    return [json.loads(record.value()) for record in records_in(servers, topic)]
