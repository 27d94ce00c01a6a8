"""The Kafka sink against a real broker: the contract, what records look like, fencing, and servers that are away."""

from __future__ import annotations

import json

import confluent_kafka
import pytest

from millpond.engine.publish.deadletters import BadRow, letter_table
from millpond.errors import SinkError
from millpond.sinks import Token, kafka
from millpond.sinks.kafka import writers
from millpond.testing.sinks import check_sink
from tests.contract.stages import staged
from tests.contract.topics import records_in, rows_in, topic_name

TOKEN = Token("0b9f4e0e-5c56-4d0b-8a0e-0c8f7f6f2a11", (), "add.replies", 1)


def at_epoch(epoch):
    return Token(TOKEN.checkpoint, (), TOKEN.sink, epoch)


@pytest.fixture
def servers(kafka_server):
    return kafka_server.servers


@pytest.mark.slow
@pytest.mark.parametrize(
    "limits",
    [{}, {"SMALL_ROWS": 0, "DRIVER_ROWS": 0}, {"SMALL_ROWS": 0}],
    ids=["by the driver", "by tasks", "by tasks after a start"],
)
def test_contract(servers, tmp_path, monkeypatch, limits):
    for name, rows in limits.items():
        monkeypatch.setattr(writers, name, rows)
    topic = topic_name()
    check_sink(lambda: kafka(servers, topic), lambda _: rows_in(servers, topic), tmp_path)


@pytest.mark.slow
def test_contract_at_least_once(servers, tmp_path):
    topic = topic_name()
    check_sink(lambda: kafka(servers, topic, exactly_once=False), lambda _: rows_in(servers, topic), tmp_path)


def test_keys_raw_values_and_headers(servers, tmp_path):
    topic = topic_name()
    sink = kafka(servers, topic, key="user", value="payload", headers={"trace": "trace"})
    table = {"user": ["ä", None], "payload": [b"\x00\xff", None], "trace": ["t1", None]}
    sink.recover(TOKEN, [])
    sink.publish(TOKEN, staged(tmp_path, TOKEN, table))
    found = [(record.key(), record.value(), record.headers()) for record in records_in(servers, topic)]
    assert sorted(found, key=repr) == sorted(
        [("ä".encode(), b"\x00\xff", [("trace", b"t1")]), (None, None, [("trace", None)])], key=repr
    )


def test_some_columns_as_json(servers, tmp_path):
    topic = topic_name()
    sink = kafka(servers, topic, value=["b", "a"])
    sink.publish(TOKEN, staged(tmp_path, TOKEN, {"a": [1], "b": ["x"], "c": [None]}))
    assert [record.value() for record in records_in(servers, topic)] == [b'{"b":"x","a":1}']


def test_dead_letters_are_taken(servers, tmp_path):
    topic = topic_name()
    bad = [BadRow(0, "no such item", '{"n": 1}', 0, "topic 0", at) for at in (1, 2)]
    letters = letter_table(bad, "add", "add", 1, ordered=False)
    kafka(servers, topic, key="source").publish(TOKEN, staged(tmp_path, TOKEN, letters))
    assert [row["position"] for row in rows_in(servers, topic)] == [1, 2]
    assert [(row["reason"], row["row"]) for row in rows_in(servers, topic)] == [("no such item", '{"n": 1}')] * 2


def test_a_column_that_is_not_there_is_named(servers, tmp_path):
    sink = kafka(servers, topic_name(), key="usr")
    with pytest.raises(SinkError, match="usr") as caught:
        sink.publish(TOKEN, staged(tmp_path, TOKEN, {"user": [1]}))
    assert caught.value.code == "MP803"


def test_an_overtaken_driver_is_fenced_and_told_so(servers, tmp_path):
    topic = topic_name()
    first, second = kafka(servers, topic), kafka(servers, topic)
    first.recover(TOKEN, [])
    second.recover(TOKEN, [])
    with pytest.raises(SinkError, match="another driver") as caught:
        first.publish(TOKEN, staged(tmp_path, TOKEN, {"n": [1]}))
    assert caught.value.code == "MP801"
    second.publish(TOKEN, staged(tmp_path, TOKEN, {"n": [1]}))
    assert rows_in(servers, topic) == [{"n": 1}]


def test_a_transaction_that_was_left_open_is_ended_by_the_next_start(servers, tmp_path):
    topic = topic_name()
    sink = kafka(servers, topic)
    sink.recover(TOKEN, [])
    left = sink._writers[TOKEN.writer]._producer
    left.begin_transaction()
    left.produce(topic, b'{"n": 0}')
    left.flush()
    after = kafka(servers, topic)
    files = staged(tmp_path, TOKEN, {"n": [1]})
    assert after.recover(TOKEN, [file.token for file in files.files]) == []
    after.publish(TOKEN, files)
    assert rows_in(servers, topic) == [{"n": 1}]
    assert len(records_in(servers, topic, "read_uncommitted")) == 2


def test_tokens_are_written_with_the_rows_and_only_of_the_last_epoch(servers, tmp_path):
    topic = topic_name()
    sink = kafka(servers, topic, tokens=f"{topic}-of-my-own")
    for epoch in (1, 2):
        token = Token(TOKEN.checkpoint, (), TOKEN.sink, epoch)
        sink.publish(token, staged(tmp_path, token, {"n": [1]}, {"n": [2]}))
    records = [(record.key(), json.loads(record.value())) for record in records_in(servers, f"{topic}-of-my-own")]
    assert [[Token.parse(text).epoch for text in tokens] for _, tokens in records] == [[1, 1], [2, 2]]
    assert {key for key, _ in records} == {f"{topic}:{TOKEN.writer}:0".encode()}


def test_a_task_that_wakes_up_epochs_later_writes_nothing(servers, tmp_path, monkeypatch):
    monkeypatch.setattr(writers, "SMALL_ROWS", 0)
    monkeypatch.setattr(writers, "DRIVER_ROWS", 0)
    monkeypatch.setattr(writers, "SLOTS", 1)
    topic = topic_name()
    first, second = kafka(servers, topic), kafka(servers, topic)
    first.recover(Token(TOKEN.checkpoint, (), TOKEN.sink, 0), [])
    files, since = staged(tmp_path, TOKEN, {"n": [1]}), first._read_to
    second.recover(TOKEN, [file.token for file in files.files])
    for token, published in (
        (TOKEN, files),
        *((later := at_epoch(n), staged(tmp_path, later, {"n": [n]})) for n in (2, 3)),
    ):
        second.publish(token, published)
    told = writers.write_apart(first._topic, TOKEN.writer, 1, files.files, frozenset(), since)
    assert json.loads(told)[0] == "MP801"
    assert sorted(row["n"] for row in rows_in(servers, topic)) == [1, 2, 3]


@pytest.mark.parametrize("dies", ["small", "large"])
def test_a_large_file_keeps_its_writer_after_a_start(servers, tmp_path, monkeypatch, dies):
    """A task of the driver before may begin at any time: it meets whoever publishes the file again."""
    monkeypatch.setattr(writers, "SMALL_ROWS", 2)
    monkeypatch.setattr(writers, "DRIVER_ROWS", 10 if dies == "small" else 0)
    topic = topic_name()
    before, after = kafka(servers, topic), kafka(servers, topic)
    before.recover(at_epoch(0), [])
    files = staged(tmp_path, TOKEN, {"n": [1, 2, 3]}, {"n": [4]})
    since = before._read_to
    assert after.recover(TOKEN, [file.token for file in files.files]) == []
    after.publish(TOKEN, files)
    with pytest.raises(SinkError, match="MP801"):
        before._write_here(TOKEN, files.files)
    slot = writers.slot_of_large(files.files[0].token)
    assert (
        json.loads(writers.write_apart(before._topic, TOKEN.writer, slot, files.files[:1], frozenset(), since)) > since
    )
    assert sorted(row["n"] for row in rows_in(servers, topic)) == [1, 2, 3, 4]


def test_a_writer_that_was_fenced_between_two_records_says_so(servers, tmp_path):
    """Records are refused without a reason then; whoever asks for the transaction is told it."""
    sink = kafka(servers, topic_name())
    sink.recover(at_epoch(0), [])
    old = writers.Writer(sink._topic, "fenced", 0)
    told = []

    class Fenced:
        def __getattr__(self, name):
            return getattr(old_producer, name)

        def begin_transaction(self):
            old_producer.begin_transaction()
            writers.Writer(sink._topic, "fenced", 0)
            while not told:
                try:
                    old_producer.produce(sink._topic.name, b"{}")
                    old_producer.poll(0.05)
                except confluent_kafka.KafkaException as error:
                    told.append(error.args[0].code())

    old_producer, old._producer = old._producer, Fenced()
    with pytest.raises(SinkError, match="MP801") as caught:
        old.write(staged(tmp_path, TOKEN, {"n": [1]}).files, set())
    assert caught.value.__cause__.args[0].code() == confluent_kafka.KafkaError._FATAL
    assert list(rows_in(servers, sink._topic.name)) == []


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_broker_that_is_away_is_told_with_a_code(tmp_path, exactly_once):
    quick = {"socket.timeout.ms": 1000, "message.timeout.ms": 1000}
    sink = kafka("127.0.0.1:1", "t", exactly_once=exactly_once, timeout_seconds=1, options=quick)
    with pytest.raises(SinkError) as caught:
        sink.publish(TOKEN, staged(tmp_path, TOKEN, {"n": [1]}))
    assert caught.value.code == "MP800"
    assert "the epoch is committed" in str(caught.value)


def test_a_password_is_never_shown():
    sink = kafka("broker:9092", "t", options={"sasl.password": "hunter2"})
    assert "hunter2" not in repr(sink) + repr(sink.describe()) + repr(sink._topic)
