"""Delta and Iceberg tables as sources, read whole and as they grow: columns order their rows."""

from __future__ import annotations

import datetime
import random

import pyarrow.dataset as ds
import pytest

from millpond import Map, Partitioned, Program, entry, parquet
from millpond.errors import FeedError
from tests.unit.examples.sources_page import run_block

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
SCHEMA = "placed_at timestamp, number int, user string, amount long"
TABLE = "iceberg.shop.orders"


class Shop(Program):
    spent = Partitioned(Map[str, int])

    @entry
    def order(self, user: str, amount: int) -> int:
        self.spent[user] = self.spent.get(user, 0) * 2 % 1000 + amount
        return self.spent[user]


def orders(count):
    """Rows as they were placed: five at each moment."""
    dice = random.Random(7)
    return [(NOON + datetime.timedelta(seconds=n // 5), n % 5, f"u{dice.randrange(4)}", n) for n in range(count)]


def plain(rows):
    shop = Shop()
    return sorted((user, amount, shop.order(user, amount)) for _, _, user, amount in rows)


def told(folder):
    rows = ds.dataset(folder, format="parquet").to_table().to_pylist()
    return sorted((row["user"], row["amount"], row["reply"]) for row in rows)


def appended(spark, rows):
    """The rows of one commit, in several files and in no order."""
    mixed = list(rows)
    random.Random(1).shuffle(mixed)
    return spark.createDataFrame(mixed, SCHEMA).repartition(3)


@pytest.mark.connector("delta")
def test_a_delta_table_that_grows(spark, tmp_path):
    rows = orders(60)
    places = {"lake/orders": tmp_path / "lake", "shop.ck": tmp_path / "ck", "totals": tmp_path / "totals"}
    for start in (0, 20, 40):
        # A table is written by commits; two of them are there at the second start.
        appended(spark, rows[start : start + 20]).coalesce(1).write.format("delta").mode("append").save(
            str(tmp_path / "lake")
        )
        if start != 20:
            run_block("delta", places, spark=spark, Shop=Shop, parquet=parquet)
    assert told(tmp_path / "totals") == plain(rows)


@pytest.mark.connector("iceberg")
def test_an_iceberg_table_that_grows(spark, tmp_path):
    rows = orders(60)
    places = {"shop.ck": tmp_path / "ck", "totals": tmp_path / "totals"}
    for start in (0, 30):
        some = appended(spark, rows[start : start + 30])
        if start:
            some.writeTo(TABLE).append()
        else:
            some.writeTo(TABLE).using("iceberg").create()
        run_block("iceberg", places, spark=spark, Shop=Shop, parquet=parquet)
    spark.sql(f"DROP TABLE {TABLE}")
    assert told(tmp_path / "totals") == plain(rows)


def table_of(spark, form, folder, rows):
    if form == "delta":
        appended(spark, rows).write.format("delta").save(str(folder / "lake"))
        return spark.read.format("delta").load(str(folder / "lake"))
    appended(spark, rows).writeTo("iceberg.shop.whole").using("iceberg").createOrReplace()
    return spark.table("iceberg.shop.whole")


FORMS = [pytest.param(form, marks=pytest.mark.connector(form)) for form in ("delta", "iceberg")]


@pytest.mark.parametrize("form", FORMS)
def test_a_table_is_read_whole(spark, tmp_path, form):
    rows = orders(30)
    job = Shop.on(spark, checkpoint=tmp_path / "ck", local_root=tmp_path / "local", partitions=2)
    job.feed(
        "order",
        table_of(spark, form, tmp_path, rows),
        order_by=["placed_at", "number"],
        to=parquet(tmp_path / "totals"),
    )
    job.run()
    assert told(tmp_path / "totals") == plain(rows)


@pytest.mark.parametrize("form", FORMS)
def test_a_table_has_no_order_of_its_own(spark, tmp_path, form):
    job = Shop.on(spark, checkpoint=tmp_path / "ck", local_root=tmp_path / "local", partitions=2)
    with pytest.raises(FeedError) as caught:
        job.feed("order", table_of(spark, form, tmp_path, orders(5)))
    assert caught.value.code == "MP505"
