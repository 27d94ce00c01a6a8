"""Columns and replies as people have them on Spark: enums, UUIDs, moments as keys, defaults, several replies."""

from __future__ import annotations

import datetime
import enum
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

import pytest

from millpond import Map, Partitioned, Program, entry, memory

pytestmark = pytest.mark.spark


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


class Spot(NamedTuple):
    row: int
    seat: str


class Shop(Program):
    sizes = Partitioned(Map[Size, int])
    logins = Partitioned(Map[uuid.UUID, int])
    moments = Partitioned(Map[datetime.datetime, int])
    spots = Partitioned(Map[Spot, int])
    prices = Partitioned(Map[Decimal, int])

    @entry
    def see(
        self, number: int, size: Size, who: uuid.UUID, at: datetime.datetime, spot: Spot, price: Decimal, more: int = 1
    ) -> list[int]:
        self.sizes[size] = self.sizes.get(size, 0) + more
        self.logins[who] = self.logins.get(who, 0) + more
        self.moments[at] = self.moments.get(at, 0) + more
        self.spots[spot] = self.spots.get(spot, 0) + more
        self.prices[price] = self.prices.get(price, 0) + more
        return [self.sizes[size], self.logins[who], self.moments[at], self.spots[spot], self.prices[price]]

    @entry
    def by_size(self, size: Size) -> int:
        return self.sizes.get(size, 0)

    @entry
    def split(self, number: int, line: str = "a b") -> Iterator[str]:
        for word in line.split():
            yield f"{word}{number}"


MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


def spelled(login, number):
    return str(login).upper() if number % 3 else str(login)


def test_keys_of_every_type_are_found_again_on_spark(spark, tmp_path):
    who = [uuid.UUID(int=number) for number in range(4)]
    rows = [
        (
            n,
            "sl"[n % 2],
            str(who[n % 4]).upper() if n % 3 else str(who[n % 4]),
            MOMENT.replace(minute=n % 5),
            (n % 3, "a"),
        )
        for n in range(40)
    ]
    schema = "number long, size string, who string, at timestamp, spot struct<row:long,seat:string>"
    frame = spark.createDataFrame(rows, schema).selectExpr("*", "cast((number % 4) / 2 as decimal(10, 2)) price")
    plain = Shop()
    wanted = {
        n: plain.see(n, Size(size), uuid.UUID(login), at, Spot(*spot), Decimal(n % 4) / 2)
        for n, size, login, at, spot in rows
    }
    replies = memory()
    job = Shop.on(spark, checkpoint=tmp_path / "checkpoint", partitions=3)
    job.feed("see", frame, to=replies, keep=["number"], order_by="number")
    job.run()
    assert {row["number"]: row["reply"] for row in replies.rows()} == wanted
    asked = memory()
    job = Shop.on(spark, checkpoint=tmp_path / "checkpoint", partitions=2)
    job.feed(
        "by_size",
        spark.createDataFrame([(1, "s"), (2, "l")], "place long, size string"),
        to=asked,
        keep=["size"],
        order_by="place",
    )
    job.run("asked", adopt=True)
    assert {row["size"]: row["reply"] for row in asked.rows()} == {size.value: plain.by_size(size) for size in Size}


def test_each_reply_that_is_yielded_is_a_row(spark, tmp_path):
    replies = memory()
    job = Shop.on(spark, checkpoint=tmp_path / "checkpoint")
    frame = spark.createDataFrame([(1, None), (2, "x"), (3, "")], "number long, line string")
    job.feed("split", frame, to=replies, keep=["number"], order_by="number")
    job.run()
    assert sorted((row["number"], row["reply"]) for row in replies.rows()) == [(1, "a1"), (1, "b1"), (2, "x2")]
    missing = memory()
    job = Shop.on(spark, checkpoint=tmp_path / "other")
    job.feed("split", frame.select("number"), to=missing, order_by="number")
    job.run()
    assert sorted(row["reply"] for row in missing.rows()) == ["a1", "a2", "a3", "b1", "b2", "b3"]


def test_a_value_that_is_no_member_is_a_bad_row(spark, tmp_path):
    bad, replies = memory(), memory()
    frame = spark.createDataFrame([(1, "s"), (2, "xl")], "place long, size string")
    job = Shop.on(spark, checkpoint=tmp_path / "checkpoint")
    job.feed("by_size", frame, to=replies, order_by="place", on_bad_row=bad)
    job.run()
    assert len(replies.rows()) == 1
    (letter,) = bad.rows()
    assert "none of the values" in letter["reason"]
