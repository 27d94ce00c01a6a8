"""JSON and CSV files as sources: the columns that order their rows, lines that nobody can read, recipes of the page."""

from __future__ import annotations

import csv
import datetime
import json
import random

import pyarrow.dataset as ds
import pytest

from millpond import Map, Partitioned, Program, entry, memory, parquet
from millpond.errors import FeedError
from tests.unit.examples.sources_page import run_block

DAY = datetime.date(2026, 1, 1)


class Shop(Program):
    spent = Partitioned(Map[str, int])

    @entry
    def order(self, user: str, amount: int) -> int:
        self.spent[user] = self.spent.get(user, 0) * 2 + amount
        return self.spent[user]


def orders(count, seed):
    """Rows as they were placed: days and numbers ascend, and no number tells the day."""
    dice = random.Random(seed)
    return [(DAY + datetime.timedelta(n // 10), n % 10, f"u{dice.randrange(4)}", n) for n in range(count)]


def plain(rows):
    shop = Shop()
    return sorted((user, amount, shop.order(user, amount)) for _, _, user, amount in rows)


def told(folder):
    rows = ds.dataset(folder, format="parquet").to_table().to_pylist()
    return sorted((row["user"], row["amount"], row["reply"]) for row in rows)


def places(folder, **more):
    return {"orders": folder / "orders", "shop.ck": folder / "ck", "totals": folder / "totals"}


def names(spark):
    return {"spark": spark, "Shop": Shop, "parquet": parquet}


def write_json(folder, rows):
    """Lines of all days in files, in no order."""
    folder.mkdir()
    random.Random(2).shuffle(rows)
    for part in range(4):
        lines = [
            json.dumps({"day": day.isoformat(), "number": number, "user": user, "amount": amount})
            for day, number, user, amount in rows[part::4]
        ]
        (folder / f"{part}.json").write_text("\n".join(lines))


def test_lines_of_json_are_ordered_by_two_columns(spark, tmp_path):
    rows = orders(60, seed=1)
    write_json(tmp_path / "orders", list(rows))
    run_block("json", places(tmp_path), **names(spark))
    assert told(tmp_path / "totals") == plain(rows)


def test_files_of_csv_come_one_by_one_and_lines_in_their_order(spark, tmp_path):
    rows = orders(40, seed=3)
    (tmp_path / "orders").mkdir()
    for start in (0, 20):
        lines = [(user, amount, line) for line, (_, _, user, amount) in enumerate(rows[start : start + 20])]
        random.Random(start).shuffle(lines)
        with (tmp_path / "orders" / f"{start:03}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("user", "amount", "line"), *lines])
        # The second start finds the second file.
        run_block("csv", places(tmp_path), **names(spark))
    assert told(tmp_path / "totals") == plain(rows)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_files_without_an_order_are_refused_with_what_to_write(spark, tmp_path, form):
    write_json(tmp_path / "orders", orders(4, seed=1))
    job = Shop.on(spark, checkpoint=tmp_path / "ck", local_root=tmp_path / "local")
    frame = spark.read.schema("user string, amount long").format(form).load(str(tmp_path / "orders"))
    with pytest.raises(FeedError) as caught:
        job.feed("order", frame)
    assert caught.value.code == "MP505"
    assert "order_by=" in str(caught.value)


def test_a_line_that_can_not_be_read_is_a_bad_row_with_its_text(spark, tmp_path):
    (tmp_path / "orders").mkdir()
    lines = ['{"user": "a", "amount": 1, "line": 1}', '{"user": "a", "amou', '{"user": "a", "amount": 2, "line": 3}']
    (tmp_path / "orders" / "a.json").write_text("\n".join(lines))
    schema = "user string, amount long, line long, _corrupt_record string"
    frame = spark.read.schema(schema).json(str(tmp_path / "orders"))
    replies, letters = memory(), memory()
    job = Shop.on(spark, checkpoint=tmp_path / "ck", local_root=tmp_path / "local", partitions=2)
    job.feed("order", frame, order_by="line", to=replies, on_bad_row=letters, keep=["_corrupt_record"])
    job.run()
    assert sorted(row["reply"] for row in replies.rows()) == [1, 4]
    assert [json.loads(letter["row"])["_corrupt_record"] for letter in letters.rows()] == [lines[1]]
