"""Replies, dead letters and late rows of one stream, each in a table of another kind, over a restart."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from millpond import EventTime, Map, Partitioned, Program, entry, parquet
from millpond.sinks import delta, iceberg
from tests.spark.feeding import stream_of, write_part

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
SCHEMA = pa.schema([("user", pa.string()), ("amount", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])


class Spent(Program):
    spent = Partitioned(Map[str, int])

    @entry
    def pay(self, user: str, amount: int) -> int:
        self.spent[user] = self.spent.get(user, 0) + amount
        return self.spent[user]


def rows_of(epoch):
    """Four rows in time, one whose amount is missing, and from the second epoch on one of long ago."""
    now = NOON + datetime.timedelta(hours=epoch)
    rows = [{"user": f"u{number % 2}", "amount": epoch * 10 + number, "at": now} for number in range(4)]
    rows.append({"user": "u0", "amount": None, "at": now})
    if epoch:
        rows.append({"user": "u1", "amount": -epoch, "at": NOON - datetime.timedelta(days=1)})
    return rows


def test_each_goes_to_a_sink_of_another_kind(spark, tmp_path):
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    for epoch in range(4):
        write_part(tmp_path / "in", epoch, pa.Table.from_pylist(rows_of(epoch), schema=SCHEMA))
        if epoch % 2 == 0:
            continue
        job = Spent.on(spark, checkpoint=tmp_path / "ck", local_root=tmp_path / "local", partitions=2)
        job.feed(
            "pay",
            stream_of(spark, tmp_path / "in"),
            to=parquet(tmp_path / "replies", partition_by=["user"], join=True),
            on_bad_row=delta(tmp_path / "bad"),
            keep=["user", "amount"],
            time=EventTime("at", late=iceberg("shop.late", catalog="tests", options=catalog)),
        )
        job.run()
    plain, expected = Spent(), []
    for epoch in range(4):
        some = [(row["user"], row["amount"]) for row in rows_of(epoch)[:4]]
        expected.extend((*pair, plain.pay(*pair)) for pair in some)
    replies = ds.dataset(tmp_path / "replies", format="parquet", partitioning="hive").to_table().to_pylist()
    assert sorted((row["user"], row["amount"], row["reply"]) for row in replies) == sorted(expected)
    assert {path.name for path in (tmp_path / "replies").iterdir() if path.name[0] not in "._"} == {
        "user=u0",
        "user=u1",
    }
    letters = DeltaTable(tmp_path / "bad").to_pyarrow_table().to_pylist()
    assert sorted(letter["position"] for letter in letters) == [4] * 4
    late = load_catalog("tests", **catalog).load_table("shop.late").scan().to_arrow().to_pylist()
    assert sorted(row["amount"] for row in late) == [-3, -2, -1]
