"""From Kafka to Kafka through Spark's connector and a real broker: exactly once, in order, with bad rows' bytes."""

from __future__ import annotations

import base64
import json

import pytest
from confluent_kafka import Producer
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import from_avro, to_avro

from millpond import EventTime, Map, Partitioned, Program, entry, memory
from millpond.errors import FeedError
from millpond.sinks import kafka as kafka_sink
from millpond.sinks.kafka import writers
from millpond.sources import kafka
from tests.contract.topics import records_in, rows_in, topic_name


class Shop(Program):
    spent = Partitioned(Map[str, int])

    @entry
    def order(self, user: str, amount: int) -> int:
        self.spent[user] = self.spent.get(user, 0) + amount
        return self.spent[user]


def send(servers, topic, *values, headers=None):
    """Records in the order of their values, in one partition."""
    producer = Producer({"bootstrap.servers": servers})
    for value in values:
        producer.produce(topic, value, key=b"k", partition=0, headers=headers)
    producer.flush()


def oracle(orders):
    spent, replies = {}, []
    for user, amount in orders:
        spent[user] = spent.get(user, 0) + amount
        replies.append((user, amount, spent[user]))
    return sorted(replies)


def job_of(spark, folder):
    return Shop.on(spark, checkpoint=folder / "ck", local_root=folder / "local", partitions=2)


@pytest.mark.parametrize("apart", [False, True], ids=["by the driver", "by tasks"])
def test_from_topic_to_topic_over_restarts(spark, broker, tmp_path, monkeypatch, apart):
    if apart:
        monkeypatch.setattr(writers, "SMALL_ROWS", 0)
        monkeypatch.setattr(writers, "DRIVER_ROWS", 0)
    source, target, letters = topic_name(), topic_name(), memory()
    orders = [(f"u{n % 5}", n) for n in range(40)]
    for start in (0, 20):
        values = [json.dumps({"user": user, "amount": amount}).encode() for user, amount in orders[start : start + 20]]
        send(broker.servers, source, *values, b"{", headers=[("h", b"1")])
        frame = kafka(spark, broker.servers, source, entry=Shop.order, options={"maxOffsetsPerTrigger": "7"})
        sink = kafka_sink(broker.servers, target, key="user")
        job_of(spark, tmp_path).feed(
            "order", frame, to=sink, on_bad_row=letters, keep=["user", "amount", "offset", "headers"]
        ).run()
    rows = rows_in(broker.servers, target)
    assert sorted((row["user"], row["amount"], row["reply"]) for row in rows) == oracle(orders)
    assert all(row["headers"][0]["key"] == "h" for row in rows)
    assert {record.key() for record in records_in(broker.servers, target)} == {f"u{n}".encode() for n in range(5)}
    told = letters.rows()
    assert [base64.b64decode(json.loads(letter["row"])["unparsed"]) for letter in told] == [b"{", b"{"]
    assert sorted(letter["position"] for letter in told) == [20, 41]


def test_a_batch_with_the_time_of_records(spark, broker, tmp_path):
    source, replies = topic_name(), memory()
    send(broker.servers, source, b'{"user": "a", "amount": 1}', b'{"user": "a", "amount": 2}')
    frame = kafka(spark, broker.servers, source, entry=Shop.order, streaming=False)
    job_of(spark, tmp_path).feed("order", frame, to=replies, time=EventTime("timestamp")).run()
    assert sorted(row["reply"] for row in replies.rows()) == [1, 3]


def test_a_stream_that_dropped_its_place_is_told_so(spark, broker, tmp_path):
    source = topic_name()
    send(broker.servers, source, b"{}")
    frame = kafka(spark, broker.servers, source, entry=Shop.order).drop("topic", "offset")
    with pytest.raises(FeedError) as caught:
        job_of(spark, tmp_path).feed("order", frame)
    assert caught.value.code == "MP505"
    assert "`topic`, `offset`" in caught.value.found


@pytest.mark.connector("avro")
def test_the_recipe_for_avro(spark, broker, tmp_path):
    source, replies = topic_name(), memory()
    schema = json.dumps(
        {
            "type": "record",
            "name": "Order",
            "fields": [{"name": "user", "type": "string"}, {"name": "amount", "type": "long"}],
        }
    )
    rows = spark.createDataFrame([("a", 2), ("a", 3)], "user string, amount long").coalesce(1)
    rows.select(to_avro(F.struct("user", "amount"), schema).alias("value")).write.format("kafka").options(
        **{"kafka.bootstrap.servers": broker.servers, "topic": source}
    ).save()
    raw = spark.read.format("kafka").options(**{"kafka.bootstrap.servers": broker.servers, "subscribe": source}).load()
    order = from_avro("value", schema, {"mode": "PERMISSIVE"}).alias("order")
    frame = raw.select("topic", "partition", "offset", "timestamp", order).select(
        "topic", "partition", "offset", "timestamp", "order.*"
    )
    job_of(spark, tmp_path).feed("order", frame, to=replies).run()
    assert max(row["reply"] for row in replies.rows()) == 5
