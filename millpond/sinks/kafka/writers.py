"""One writer of a topic: rows of files and the tokens of these files in one transaction.

Whoever begins with a transactional id ends what others left under it, and fences them. A file has always the same id,
so whoever finds its token missing after that is the only one who can write it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from millpond.crashpoints import crashpoint
from millpond.errors import SinkError
from millpond.sinks.kafka.refusals import as_text, overtaken, refusal, speaking
from millpond.sinks.kafka.tokenlog import record_of, tokens_out
from millpond.sinks.kafka.topicrecords import RecordColumns, Records
from millpond.sinks.missing import client
from millpond.sinks.protocol import StagedFile
from millpond.sinks.tokens import Token

SMALL_ROWS = 10_000
"""Files of fewer rows are written together by the driver: a transaction of their own costs more than their rows."""

DRIVER_ROWS = 100_000
"""Epochs of up to so many rows are written by the driver: a job of Spark with new producers takes as long (0.3 s)."""

SLOTS = 16
"""Transactional ids for larger files; a file is written under one of them that follows from its name."""


@dataclass(frozen=True, slots=True)
class Topic:
    """Where replies go, and how: all that a task needs to know."""

    servers: str
    name: str
    tokens: str
    records: Records
    timeout_s: float
    options: Mapping[str, Any] = field(repr=False)

    @property
    def client_options(self) -> dict[str, Any]:
        """What every client of Kafka gets."""
        return {"bootstrap.servers": self.servers, "log_level": 2, **self.options}

    def token_key(self, writer: str, slot: int) -> str:
        """Return the key of a slot's tokens; several topics may keep theirs in one."""
        return f"{self.name}:{writer}:{slot}"

    def tokens_of(self, writer: str, out: Mapping[str, Collection[str]]) -> set[str]:
        """Return the tokens of a writer, of all its slots: the last epoch that each has written."""
        keys = {self.token_key(writer, slot) for slot in range(SLOTS + 1)} & out.keys()
        return {text for key in keys for text in out[key]}

    def producer(self, **more: Any) -> Any:
        """Return a producer that is made for throughput."""
        usual = {
            "enable.idempotence": True,
            "linger.ms": 5,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 1_000_000,
            "batch.size": 1_000_000,
        }
        with speaking("write to", self.name):
            return client("confluent_kafka", "kafka").Producer({**usual, **self.client_options, **more})


def slot_of_large(file: Token) -> int:
    """Return the slot of a file that is written apart from others."""
    return 1 + zlib.crc32(file.file.encode()) % SLOTS


def slots_of(files: Sequence[StagedFile], *, again: bool) -> dict[int, list[StagedFile]]:
    """Return the files of each slot; slot 0 is that of the driver.

    Of an epoch that comes `again` after a start, a large file has its own slot, however few rows are left: a task of
    the driver before may still begin to write it there, and whoever has the same slot fences it or finds its token.
    """
    by_slot: dict[int, list[StagedFile]] = {}
    here = not again and sum(file.rows for file in files) <= DRIVER_ROWS
    for file in files:
        slot = 0 if here or file.rows < SMALL_ROWS else slot_of_large(file.token)
        by_slot.setdefault(slot, []).append(file)
    return by_slot


class Writer:
    """A transactional producer under the id of a writer and a slot; it fences all earlier ones."""

    def __init__(self, topic: Topic, writer: str, slot: int) -> None:
        self._topic = topic
        self.key = topic.token_key(writer, slot)
        limit = {"transaction.timeout.ms": max(10_000, int(topic.timeout_s * 1000))}
        self._producer = topic.producer(**{"transactional.id": f"{writer}:{slot}", **limit})
        with speaking("begin a transaction for", topic.name):
            # Connected first: librdkafka asks for its coordinator again only after half a second.
            self._producer.list_topics(topic.name, topic.timeout_s)
            self._producer.init_transactions(topic.timeout_s)

    def write(self, files: Sequence[StagedFile], known: set[str]) -> None:
        """Write the rows of files and their tokens, all or nothing; `known` are tokens of this epoch, which stay."""
        with speaking("write to", self._topic.name):
            self._producer.begin_transaction()
            try:
                for file in files:
                    send(self._producer, self._topic, file)
                    crashpoint("kafka.sent")
                tokens = {str(file.token) for file in files} | known
                self._producer.produce(self._topic.tokens, value=record_of(tokens), key=self.key, partition=0)
                self._producer.flush(self._topic.timeout_s)
                crashpoint("kafka.flushed")
                self._producer.commit_transaction(self._topic.timeout_s)
            except client("confluent_kafka", "kafka").KafkaException as error:
                cause = self._cause(error.args[0])
                self._abort(cause)
                raise refusal(cause, "write to", self._topic.name) from error
        crashpoint("kafka.committed")

    def _cause(self, error: Any) -> Any:
        """Return what lies behind an error that only says that the producer is of no use any more."""
        kafka = client("confluent_kafka", "kafka")
        if error.code() != kafka.KafkaError._FATAL:  # noqa: SLF001
            return error
        try:
            # Nothing is committed by that: calls of transactions tell why, while a record is refused without a reason.
            self._producer.commit_transaction(self._topic.timeout_s)
        except kafka.KafkaException as told:
            return told.args[0]
        return error

    def _abort(self, error: Any) -> None:
        kafka = client("confluent_kafka", "kafka")
        if not error.fatal():
            try:
                self._producer.abort_transaction(self._topic.timeout_s)
            except kafka.KafkaException as second:
                raise refusal(error, "write to", self._topic.name) from second


def write_apart(
    topic: Topic, writer: str, slot: int, files: Sequence[StagedFile], known: frozenset[str], since: int
) -> str:
    """Write files from a task, unless their tokens are out: among those `known`, or in the log `since` an offset.

    Returns up to where the log was read, or an error, as text.
    """
    epoch = files[0].token.epoch
    try:
        own = Writer(topic, writer, slot)
        out, end = tokens_out(topic.client_options, topic.tokens, since, topic.timeout_s)
        if any(Token.parse(text).epoch > epoch for text in out.get(own.key, ())):
            # Another driver has gone on since, and only the tokens of its last epoch are there.
            raise overtaken(topic.name, f"tokens of a later epoch than {epoch}")
        found = known | topic.tokens_of(writer, out)
        if missing := [file for file in files if str(file.token) not in found]:
            own.write(missing, {text for text in out.get(own.key, known) if Token.parse(text).epoch == epoch})
    except SinkError as error:
        return as_text(error)
    return str(end)


def write_plainly(topic: Topic, files: Sequence[StagedFile]) -> str:
    """Write files without a transaction: their rows may come again after a crash. Returns an error as text."""
    failed: list[Any] = []
    try:
        producer = topic.producer(**{"message.timeout.ms": max(1, int(topic.timeout_s * 1000))})
        with speaking("write to", topic.name):
            for file in files:
                send(producer, topic, file, lambda error, _: failed.append(error) if error is not None else None)
            producer.flush()
        if failed:
            raise refusal(failed[0], "write to", topic.name)
    except SinkError as error:
        return as_text(error)
    return "0"


def send(producer: Any, topic: Topic, file: StagedFile, delivered: Any = None) -> None:
    """Hand the rows of a file to a producer."""
    for records in topic.records.of(file.read()):
        _send(producer.produce, producer.poll, topic.name, records, delivered)
        producer.poll(0)


def _send(
    produce: Callable[..., None], poll: Callable[[float], int], topic: str, records: RecordColumns, delivered: Any
) -> None:
    keys = repeat(None) if records.keys is None else records.keys
    headers = repeat([]) if records.headers is None else records.headers
    for value, key, header in zip(records.values, keys, headers):  # noqa: B905 - what repeats has no end
        while True:
            try:
                produce(topic, value, key, on_delivery=delivered, headers=header)
                break
            except BufferError:
                poll(0.1)
