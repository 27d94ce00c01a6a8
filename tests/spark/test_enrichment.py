"""Recipes of docs/SOURCES.md for rows that need to know more: tables that are joined, tables in state, and models."""

from __future__ import annotations

import random
import sys
from importlib import import_module

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from millpond import memory, parquet
from tests.spark.feeding import stream_of, write_part
from tests.unit.examples.sources_page import code_with, run_block

COUNTRIES = {f"u{n}": ("de", "fr", "it")[n % 3] for n in range(6)}

MODEL = '''
import os
from pathlib import Path

from millpond import Map, Partitioned, Program, entry


class Model:
    """What takes long to load: it notes each time that it is."""

    def __init__(self, log):
        self.factor = 3
        with Path(log).open("a") as file:
            file.write(f"{os.getpid()}\\n")


MODEL = Model(Path(__file__).with_suffix(".log"))


class Scores(Program):
    seen = Partitioned(Map[str, int])

    @entry
    def score(self, user: str, amount: int) -> int:
        self.seen[user] = self.seen.get(user, 0) + amount * MODEL.factor
        return self.seen[user]
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the user's own, which workers find as the driver does."""

    def write(name, code):
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, name, raising=False)
        return import_module(name)

    return write


def test_a_broadcast_table_and_a_table_in_state(spark, tmp_path, module):
    prices = module("priced_orders", code_with("class Prices"))
    dice = random.Random(5)
    rates, orders, expected = [], [], []
    plain = prices.Prices()
    for at in range(80):
        currency = dice.choice(["usd", "yen"])
        if dice.random() < 0.3:
            rates.append({"at": at, "currency": currency, "euros": at / 8})
            plain.rate(currency, at / 8)
        else:
            user = dice.choice(list(COUNTRIES))
            orders.append({"at": at, "currency": currency, "user": user, "net": float(at)})
            expected.append(plain.price(currency, COUNTRIES[user], float(at)))
    countries = [{"user": user, "country": country} for user, country in COUNTRIES.items()]
    for name, rows in (("rates", rates), ("orders", orders), ("countries", countries)):
        (tmp_path / name).mkdir()
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name / "rows.parquet")
    where = {name: tmp_path / name for name in ("rates", "orders", "countries", "prices.ck", "priced")}
    run_block("enrichment", where, spark=spark, Prices=prices.Prices, parquet=parquet)
    found = ds.dataset(tmp_path / "priced", format="parquet").to_table().column("reply").to_pylist()
    assert sorted(found) == sorted(expected)


def test_a_model_is_loaded_once_in_each_worker_and_not_for_each_epoch(spark, tmp_path, module):
    scored = module("scored_orders", MODEL)
    rows = [(f"u{n % 5}", n) for n in range(60)]
    for part in range(6):
        some = [{"user": user, "amount": amount} for user, amount in rows[part * 10 : part * 10 + 10]]
        write_part(tmp_path / "in", part, pa.Table.from_pylist(some))
    replies = memory()
    job = scored.Scores.on(spark, checkpoint=tmp_path / "ck", local_root=tmp_path / "local", partitions=2)
    job.feed("score", stream_of(spark, tmp_path / "in"), to=replies)
    job.run()
    plain = scored.Scores()
    assert sorted(row["reply"] for row in replies.rows()) == sorted(plain.score(*row) for row in rows)
    loads = (tmp_path / "scored_orders.log").read_text().split()
    assert len(set(loads)) == len(loads), "no process loads it twice"
    assert job.last_report.epoch == 6
