"""Changed programs and initial state on Spark: the stream goes on with the state brought over, and loads are exact."""

from __future__ import annotations

import dataclasses
import datetime
import decimal

import pytest
from pyspark.sql import functions as F  # noqa: N812

import millpond
from millpond import (
    Counter,
    Map,
    Matrix,
    Partial,
    Partitioned,
    Program,
    Set,
    Tuning,
    Value,
    each,
    entry,
    memory,
    merged,
)
from millpond.errors import MillpondError
from tests.programs.keyed import committed_state


@dataclasses.dataclass
class Item:
    name: str
    price: int


@dataclasses.dataclass
class Priced:
    name: str
    cost: float
    tags: list[str] = dataclasses.field(default_factory=list)


class First(Program):
    items = Partitioned(Map[int, Item])
    old = Partitioned(Counter[int])

    @entry
    def put(self, user: int, price: int) -> int:
        before = self.items.get(user)
        self.items[user] = Item(f"user {user}", price)
        return 0 if before is None else before.price


class Second(Program, dropped=("old",)):
    extra = Partitioned(Counter[str])
    goods = Partitioned(Map[int, Priced], was="items", renamed={"price": "cost"})

    @entry
    def put(self, user: int, price: int) -> float:
        before = self.goods.get(user)
        self.goods[user] = Priced(f"user {user}", float(price), ["new"])
        return 0.0 if before is None else before.cost


class Broken(Program):
    items = Partitioned(Map[int, str])

    @entry
    def put(self, user: int, price: int) -> None:
        self.items[user] = str(price)


def frame(spark, numbers):
    return spark.createDataFrame([(n % 20, n) for n in numbers], "user int, price int")


def run(program, spark, folder, numbers, name):
    replies = memory()
    job = program.on(spark, checkpoint=folder / "ck", partitions=2, tuning=Tuning(key_groups=16))
    job.feed("put", frame(spark, numbers), to=replies, order_by="price", keep=["price"]).run(name)
    return {row["price"]: row["reply"] for row in replies.rows()}


def test_a_changed_program_goes_on_with_the_state_brought_over(spark, tmp_path):
    run(First, spark, tmp_path, range(30), "first")
    with pytest.raises(MillpondError) as caught:
        Broken.on(spark, checkpoint=tmp_path / "ck")
    assert caught.value.code == "MP441"
    replies = run(Second, spark, tmp_path, range(30, 50), "second")
    assert replies == {n: float(n - 20) for n in range(30, 50)}
    goods = millpond.read_state(spark, tmp_path / "ck", "goods").count()
    assert goods == 20
    assert millpond.read_state(spark, tmp_path / "ck", "items", epoch=1).count() == 20
    assert not any(key[0] == 1 for key in committed_state(tmp_path / "ck"))


class Loaded(Program):
    by_int = Partitioned(Map[int, Item])
    by_pair = Partitioned(Map[tuple[str, int], float])
    by_day = Partitioned(Map[datetime.date, datetime.datetime])
    members = Partitioned(Set[str])
    grid = Partitioned(Matrix[int, str, decimal.Decimal])
    one = Partitioned(Value[int])
    model = Partial(Map[str, float])

    @entry
    def ask(self, user: int) -> int:
        found = self.by_int.get(user)
        return -1 if found is None else found.price

    @entry
    def weight(self, word: str) -> float:
        return merged(each(self.model).get(word, 0.0), sum)


def loads(spark):
    numbers = spark.range(0, 1000)
    moment = F.timestamp_seconds(F.col("id") * 1000)
    return {
        "by_int": numbers.select(
            F.col("id").cast("int").alias("key"),
            F.struct(F.concat(F.lit("n"), "id").alias("name"), (F.col("id") * 2).alias("price")).alias("value"),
        ),
        "by_pair": numbers.select(
            F.struct((F.col("id") % 7).cast("string").alias("_1"), F.col("id").alias("_2")).alias("key"),
            (F.col("id") / 2).alias("value"),
        ),
        "by_day": numbers.select(F.expr("date_add(date'2020-01-01', int(id))").alias("key"), moment.alias("value")),
        "members": numbers.select(F.concat(F.lit("m"), "id").alias("key")),
        "grid": numbers.select(
            F.col("id").alias("key"), F.create_map(F.lit("a"), F.col("id").cast("decimal(38,18)")).alias("value")
        ),
        "one": spark.range(5, 6).select(F.col("id").alias("value")),
        "model": spark.createDataFrame([("a", 0.5), ("b", 1.5)], "key string, value double"),
    }


def job_of(spark, folder, replies=None):
    job = Loaded.on(spark, checkpoint=folder / "ck", partitions=2, tuning=Tuning(key_groups=16, instances=4))
    rows = spark.range(995, 1005).select(F.col("id").alias("user"))
    return job.feed("ask", rows, to=replies, order_by="user")


def test_all_kinds_of_elements_are_loaded_before_the_first_row(spark, tmp_path):
    replies = memory()
    job = job_of(spark, tmp_path, replies)
    for name, rows in loads(spark).items():
        job.load(name, rows, into="all" if name == "model" else None)
    job.run("ask")
    asked = {row["user"]: row["reply"] for row in replies.rows()}
    assert asked == {n: n * 2 if n < 1000 else -1 for n in range(995, 1005)}
    read = {name: millpond.read_state(spark, tmp_path / "ck", name).collect() for name in loads(spark)}
    assert {(row.key._1, row.key._2): row.value for row in read["by_pair"]} == {
        (str(n % 7), n): n / 2 for n in range(1000)
    }
    zone = {row.key: row.value for row in loads(spark)["by_day"].collect()}
    assert {row.key: row.value for row in read["by_day"]} == zone
    assert {row.key for row in read["members"]} == {f"m{n}" for n in range(1000)}
    assert {row.key: row.value for row in read["grid"]} == {n: {"a": decimal.Decimal(n)} for n in range(1000)}
    assert [row.value for row in read["one"]] == [5]
    assert len(read["model"]) == 4 * 2
    before = committed_state(tmp_path / "ck")
    again = job_of(spark, tmp_path).load("by_int", loads(spark)["by_int"])
    assert again.run("ask").epochs == ()
    assert committed_state(tmp_path / "ck") == before


@pytest.mark.parametrize(
    ("element", "rows", "code"),
    [
        ("by_int", "select 1 key", "MP271"),
        ("by_int", "select 'a' key, struct('x' name, 1L price) value", "MP271"),
        ("nothing", "select 1 key", "MP270"),
    ],
)
def test_columns_are_checked_at_once(spark, tmp_path, element, rows, code):
    with pytest.raises(MillpondError) as caught:
        job_of(spark, tmp_path).load(element, spark.sql(rows))
    assert caught.value.code == code


def test_names_are_given_once_and_streams_do_not_end(spark, tmp_path):
    job = job_of(spark, tmp_path).load("members", loads(spark)["members"])
    with pytest.raises(MillpondError) as caught:
        job.load("members", loads(spark)["members"])
    assert caught.value.code == "MP276"
    stream = spark.readStream.format("rate").load().selectExpr("string(value) key")
    with pytest.raises(MillpondError) as caught:
        job.load("members", stream, name="more")
    assert caught.value.code == "MP271"


@pytest.mark.parametrize(
    ("rows", "code"), [("values ('a'), ('b'), ('a')", "MP273"), ("values ('a'), (cast(null as string))", "MP272")]
)
def test_bad_rows_are_told_by_their_code_and_nothing_is_loaded(spark, tmp_path, rows, code):
    bad = spark.sql(f"select col1 key from ({rows})")
    with pytest.raises(MillpondError) as caught:
        job_of(spark, tmp_path).load("members", bad).run("ask")
    assert caught.value.code == code
    assert committed_state(tmp_path / "ck") == {}
