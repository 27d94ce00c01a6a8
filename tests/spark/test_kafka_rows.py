"""Rows of Kafka that were parsed the usual way have lost their place; the error says so, and how to keep it."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F  # noqa: N812

from millpond import Map, Partitioned, Program, entry, memory
from millpond.errors import FeedError

PLACE = ("topic", "partition", "offset")


class Last(Program):
    seen = Partitioned(Map[str, int])

    @entry
    def put(self, name: str, amount: int) -> int:
        self.seen[name] = amount
        return amount


@pytest.fixture
def rows(spark):
    """What Spark's Kafka source gives: its columns and their types."""
    schema = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
    text = '{"name": "a", "amount": %d}'
    given = [(None, (text % n).encode(), "orders", 0, n, None) for n in range(3)]
    return spark.createDataFrame(given, schema)


def parsed(rows, *kept):
    value = F.from_json(F.col("value").cast("string"), "name string, amount long").alias("v")
    return rows.select(*kept, value).select(*kept, "v.*").where("amount >= 0")


@pytest.mark.parametrize("kept", [(), ("topic",), ("topic", "partition")], ids=len)
def test_the_error_names_what_was_dropped_and_how_to_keep_it(spark, rows, tmp_path, kept):
    job = Last.on(spark, checkpoint=tmp_path / "c")
    with pytest.raises(FeedError) as caught:
        job.feed("put", parsed(rows, *kept))
    error = caught.value
    assert error.code == "MP505"
    assert all((f"`{name}`" in error.found) is (name not in kept) for name in PLACE)
    assert '.select("topic", "partition", "offset", "v.*")' in error.hint


def test_what_the_hint_says_works(spark, rows, tmp_path):
    job = Last.on(spark, checkpoint=tmp_path / "c")
    replies = memory()
    job.feed("put", parsed(rows, *PLACE), to=replies)
    job.run()
    assert [row["reply"] for row in replies.rows()] == [0, 1, 2]


def test_other_sources_without_a_place_are_told_as_such(spark, tmp_path):
    job = Last.on(spark, checkpoint=tmp_path / "c")
    with pytest.raises(FeedError) as caught:
        job.feed("put", spark.createDataFrame([("a", 1)], "name string, amount long"))
    assert "no place" in caught.value.found
