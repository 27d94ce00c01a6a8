"""The Kafka sink: readers with `isolation.level=read_committed` see every reply once.

>>> kafka("broker:9092", "replies", key="user")
kafka('broker:9092', 'replies')
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from millpond.errors import SinkError
from millpond.sinks.kafka.refusals import number_told
from millpond.sinks.kafka.tokenlog import make_topic, tokens_out
from millpond.sinks.kafka.topicrecords import Records
from millpond.sinks.kafka.writers import Topic, Writer, slot_of_large, slots_of, write_apart, write_plainly
from millpond.sinks.missing import client
from millpond.sinks.protocol import Sink, SinkDescription, Staged, StagedFile
from millpond.sinks.tokens import Token


class KafkaSink(Sink):
    """Records of a topic, exactly once by transactions, or at least once."""

    def __init__(self, topic: Topic, *, exactly_once: bool) -> None:
        self._topic = topic
        self._exactly_once = exactly_once
        self._writers: dict[str, Writer] = {}
        self._out: dict[str, set[str]] = {}
        self._read_to: int | None = None
        self._begun: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"kafka({self._topic.servers!r}, {self._topic.name!r})"

    def describe(self) -> SinkDescription:
        """Describe a topic of a cluster."""
        place = f"topic {self._topic.name} of Kafka at {self._topic.servers}"
        return SinkDescription(place, exactly_once=self._exactly_once)

    def publish(self, token: Token, staged: Staged) -> None:
        """Write a small epoch in one transaction here, and large files from tasks of Spark, where there is one."""
        by_slot = slots_of(staged.files, again=token.epoch <= self._begun.get(token.writer, -1))
        small = by_slot.pop(0, [])
        since = 0
        if not self._exactly_once:
            jobs = [partial(write_plainly, self._topic, files) for files in (small, *by_slot.values()) if files]
        else:
            since = self._known()
            known = frozenset(self._topic.tokens_of(token.writer, self._out))
            jobs = [
                partial(write_apart, self._topic, token.writer, slot, files, known, since)
                for slot, files in by_slot.items()
            ]
            if small:
                self._write_here(token, small)
        read_to = [number_told(told) for told in staged.spread(jobs)]
        if self._exactly_once and read_to:
            # The next epoch need not read again what is older than this one.
            self._read_to = max(since, *read_to)

    def recover(self, token: Token, files: Sequence[Token]) -> Collection[Token]:
        """End what a driver that died left open, and tell which files are out."""
        self._begun[token.writer] = token.epoch
        if not self._exactly_once:
            return ()
        self._known()
        self._writers[token.writer] = Writer(self._topic, token.writer, 0)
        for slot in sorted({slot_of_large(file) for file in files}):
            Writer(self._topic, token.writer, slot)
        self._read()
        out = self._topic.tokens_of(token.writer, self._out)
        return [file for file in files if str(file) in out]

    def _write_here(self, token: Token, files: Sequence[StagedFile]) -> None:
        own = self._writers.get(token.writer)
        if own is None:
            own = self._writers[token.writer] = Writer(self._topic, token.writer, 0)
            self._read()
        known = self._topic.tokens_of(token.writer, self._out)
        if missing := [file for file in files if str(file.token) not in known]:
            tokens = {text for text in self._out.get(own.key, ()) if Token.parse(text).epoch == token.epoch}
            try:
                own.write(missing, tokens)
            except SinkError:
                del self._writers[token.writer]
                raise
            self._out[own.key] = tokens | {str(file.token) for file in missing}

    def _known(self) -> int:
        """Return up to where tokens are known; their topic is there after that."""
        if self._read_to is None:
            make_topic(self._topic.client_options, self._topic.tokens, self._topic.timeout_s)
            self._read_to = 0
        return self._read_to

    def _read(self) -> None:
        out, self._read_to = tokens_out(
            self._topic.client_options, self._topic.tokens, self._known(), self._topic.timeout_s
        )
        self._out |= out


def kafka(
    servers: str,
    topic: str,
    *,
    key: str | None = None,
    value: str | Sequence[str] | None = None,
    headers: Mapping[str, str] | None = None,
    exactly_once: bool = True,
    tokens: str | None = None,
    timeout_seconds: float = 60.0,
    options: Mapping[str, Any] | None = None,
) -> KafkaSink:
    """Write replies to a topic of Kafka, exactly once for readers with `isolation.level=read_committed`.

    A record's value is a row as a JSON object: all columns, or those that `value` lists. If `value` names one column,
    its bytes or its text are the value, raw. `key` names a column, and `headers` a column for each header. With
    `exactly_once=False` there are no transactions, and the last epoch may come again after a crash.

    Tokens of what is out are kept in a compacted topic of one partition, `tokens`, by default `<topic>-millpond`, which
    is made if it is not there. `options` are those of librdkafka, such as `security.protocol`. Needs
    `pip install 'millpond[kafka]'`, for the workers, too.
    """
    client("confluent_kafka", "kafka")
    columns = value if value is None or isinstance(value, str) else tuple(value)
    records = Records(key, columns, tuple((headers or {}).items()))
    place = Topic(servers, topic, tokens or f"{topic}-millpond", records, timeout_seconds, dict(options or {}))
    return KafkaSink(place, exactly_once=exactly_once)
