"""What Kafka says, as coded errors; they also travel from tasks to the driver as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from millpond.errors import SinkError
from millpond.sinks.missing import client
from millpond.storage.addresses import scrubbed


@contextmanager
def speaking(doing: str, topic: str) -> Iterator[None]:
    """Turn what Kafka says into a coded error: MP801 if another driver has taken over, else MP800."""
    kafka = client("confluent_kafka", "kafka")
    try:
        yield
    except kafka.KafkaException as error:
        raise refusal(error.args[0], doing, topic) from error


def refusal(error: Any, doing: str, topic: str) -> SinkError:
    """Return the coded error for one of Kafka."""
    codes = client("confluent_kafka", "kafka").KafkaError
    if error.code() in {codes._FENCED, codes.PRODUCER_FENCED, codes.INVALID_PRODUCER_EPOCH}:  # noqa: SLF001
        return overtaken(topic, f"Kafka has fenced this one: {scrubbed(error.str())}")
    return SinkError(
        "MP800",
        f"Kafka can't {doing} topic {topic}",
        found=f"{error.name()}: {scrubbed(error.str())}"[:300],
        hint="the epoch is committed; the next start publishes it before anything else",
    )


def overtaken(topic: str, found: str) -> SinkError:
    """Return the error of a driver that another one has overtaken."""
    return SinkError(
        "MP801",
        f"another driver publishes to topic {topic} for this checkpoint",
        expected="one running job for each checkpoint",
        found=found,
        hint="stop one of the two; nothing was published twice, and the epoch is committed",
    )


def as_text(error: SinkError) -> str:
    """Return an error as text, to be told by a task."""
    return json.dumps([error.code, error.summary, error.expected, error.found, error.hint])


def number_told(text: str) -> int:
    """Return the number that a task told, or raise the error."""
    told = json.loads(text)
    if isinstance(told, int):
        return told
    code, summary, expected, found, hint = told
    raise SinkError(code, summary, expected=expected, found=found, hint=hint)
