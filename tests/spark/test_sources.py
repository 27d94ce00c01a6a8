"""Records of Kafka as rows, and rows that several columns order; what a broker itself adds is in tests/connectors."""

from __future__ import annotations

import base64
import datetime
import json
from dataclasses import dataclass

import pytest

from millpond import EventTime, Map, Partitioned, Program, entry, memory
from millpond.errors import FeedError, SourceError
from millpond.program.entries import entry_of
from millpond.sources import kafka
from millpond.spark.feeds.kafkarows import rows_of_records

MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


@dataclass
class Place:
    city: str
    floors: list[int]


class Orders(Program):
    seen = Partitioned(Map[str, int])
    log = Partitioned(Map[str, list[str]])

    @entry
    def order(self, name: str, amount: int, place: Place | None = None, at: datetime.datetime | None = None) -> str:
        self.seen[name] = self.seen.get(name, 0) + amount
        where = None if place is None else f"{place.city}{place.floors}"
        return f"{self.seen[name]} {where} {None if at is None else at.isoformat()}"

    @entry
    def maybe(self, name: str = "nobody", amount: int | None = None) -> str:
        return f"{name} {amount}"

    @entry
    def raw(self, key: str, value: bytes) -> int:
        self.seen[key] = self.seen.get(key, 0) + len(value)
        return self.seen[key]

    @entry
    def wrong(self, value: int) -> int:
        return value

    @entry
    def append(self, name: str, a: int, b: int) -> list[str]:
        self.log[name] = [*self.log.get(name, []), f"{a}.{b}"]
        return self.log[name]


def records(spark, *values):
    schema = (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
        "headers array<struct<key: string, value: binary>>"
    )
    rows = [(b"k", value, "orders", 0, number, MOMENT, None) for number, value in enumerate(values)]
    return spark.createDataFrame(rows, schema)


def as_json(**fields):
    return json.dumps(fields).encode()


def run(spark, folder, method, *values, form="json", **how):
    """Replies in the order of the records, and dead letters."""
    job = Orders.on(spark, checkpoint=folder / "ck", local_root=folder / "local", partitions=2)
    replies, letters = memory(), memory()
    frame = rows_of_records(records(spark, *values), entry_of(method), form)
    job.feed(method.__name__, frame, to=replies, on_bad_row=letters, keep=["offset"], **how)
    job.run()
    told = sorted(replies.rows(), key=lambda row: row["offset"])
    return [row["reply"] for row in told], sorted(letters.rows(), key=lambda row: row["position"])


def test_json_is_parsed_into_the_types_of_the_parameters(spark, tmp_path, in_utc):
    given = as_json(name="a", amount=2, place={"city": "Ulm", "floors": [1, 2]}, at="2026-01-02T03:04:05Z", more=1)
    replies, letters = run(spark, tmp_path, Orders.order, given, as_json(name="a", amount=3))
    assert replies == ["2 Ulm[1, 2] 2026-01-02T03:04:05+00:00", "5 None None"]
    assert letters == []


WRONG = {
    "no JSON": b"{",
    "no object": b"[1]",
    "another type": as_json(name="a", amount="x"),
    "a field that is missing": as_json(name="a"),
    "not UTF-8": b'{"name": "\xff", "amount": 1}',
    "nothing": None,
    "too large": as_json(name="a", amount=2**70),
}


def test_what_cannot_be_parsed_is_a_bad_row_with_its_bytes(spark, tmp_path):
    replies, letters = run(spark, tmp_path, Orders.order, *WRONG.values(), as_json(name="a", amount=1))
    assert replies == ["1 None None"]
    assert [(letter["source"], letter["position"]) for letter in letters] == [
        ("orders 0000000000", number) for number in range(len(WRONG))
    ]
    kept = [base64.b64decode(json.loads(letter["row"])["unparsed"]) for letter in letters]
    assert kept == [value or b"" for value in WRONG.values()]
    assert all("can't be parsed" in letter["reason"] for letter in letters)


def test_a_record_is_bad_also_if_nothing_in_it_is_required(spark, tmp_path):
    values = [b"{", b"{}", as_json(amount=3), as_json(name="b"), b'{"amount": "x"}']
    replies, letters = run(spark, tmp_path, Orders.maybe, *values)
    assert replies == ["nobody None", "nobody 3", "b None"]
    # Rows whose order nobody sees have no place, but for what is kept.
    assert sorted(json.loads(letter["row"])["offset"] for letter in letters) == [0, 4]


def test_raw_records_are_given_by_name(spark, tmp_path):
    replies, letters = run(spark, tmp_path, Orders.raw, b"\xff\x00", b"abc", None, form="raw")
    assert replies == [2, 5]
    assert [letter["position"] for letter in letters] == [2]


def test_the_time_of_a_record_is_one_word(spark, tmp_path):
    replies, letters = run(
        spark, tmp_path, Orders.order, as_json(name="a", amount=2), b"{", time=EventTime("timestamp")
    )
    assert len(replies) == 1
    assert [letter["event_time"] for letter in letters] == [MOMENT]


@pytest.mark.parametrize(
    ("method", "form", "code"), [(Orders.order, "avro", "MP810"), (Orders.wrong, "raw", "MP811")], ids=["avro", "raw"]
)
def test_what_can_not_be_read_is_said_before_anything_runs(spark, method, form, code):
    with pytest.raises(SourceError) as caught:
        rows_of_records(records(spark, b"{}"), entry_of(method), form)
    assert caught.value.code == code


def test_a_method_that_is_no_entry_point_is_refused(spark):
    with pytest.raises(SourceError) as caught:
        kafka(spark, "h:1", "t", entry=len)
    assert caught.value.code == "MP813"


def test_a_spark_without_the_connector_says_which_one_it_needs(spark):
    with pytest.raises(SourceError) as caught:
        kafka(spark, "127.0.0.1:1", "t", entry=Orders.order)
    assert caught.value.code == "MP812"
    assert f"spark-sql-kafka-0-10_2.13:{spark.version}" in str(caught.value)


def test_unparsed_letters_stay_bad_when_they_are_fed_again(spark, tmp_path):
    job = Orders.on(spark, checkpoint=tmp_path / "ck", local_root=tmp_path / "local", partitions=2)
    replies, letters = memory(), memory()
    frame = rows_of_records(records(spark, b"{", as_json(name="a")), entry_of(Orders.maybe), "json")
    job.feed("maybe", frame, to=replies, on_bad_row=letters)
    job.run()
    assert len(letters.rows()) == 1
    job.replay(letters)
    assert [row["reply"] for row in replies.rows()] == ["a None"]
    assert len(letters.rows()) == 2


ROWS = [("k", 1, -1), ("k", 0, 7), ("k", 1, -(2**63)), ("k", 1, 2**63 - 1), ("k", 0, -7), ("k", 1, 0)]


@pytest.mark.parametrize("located", [False, True])
def test_rows_are_ordered_by_several_columns(spark, tmp_path, located):
    frame = spark.createDataFrame(ROWS, "name string, a long, b long").repartition(3)
    if located:
        frame.coalesce(1).write.parquet(str(tmp_path / "in"))
        frame = spark.read.parquet(str(tmp_path / "in"))
    replies = memory()
    job = Orders.on(spark, checkpoint=tmp_path / "ck", local_root=tmp_path / "local", partitions=2)
    job.feed("append", frame, to=replies, order_by=["a", "b"])
    job.run()
    longest = max((row["reply"] for row in replies.rows()), key=len)
    assert longest == [f"{a}.{b}" for _, a, b in sorted(ROWS)]


@pytest.mark.parametrize("order_by", [[], ["a", "a"], ["a", "name"]], ids=str)
def test_an_order_that_is_none_is_refused(spark, tmp_path, order_by):
    job = Orders.on(spark, checkpoint=tmp_path / "ck", local_root=tmp_path / "local", partitions=2)
    with pytest.raises(FeedError) as caught:
        job.feed("append", spark.createDataFrame(ROWS, "name string, a long, b long"), order_by=order_by)
    assert caught.value.code == "MP506"
