"""A job handed to a standalone cluster by spark-submit, as docs/deploy.md tells it, equals plain Python."""

from __future__ import annotations

import importlib
import json
import re
import zipfile
from pathlib import Path

import pytest

from tests.programs.keyed import Recommender, committed_state, fresh_seed, oracle, random_rows, say
from tests.spark.feeding import replies_in, write_parts
from tests.spark.listening import LOOPBACK, addresses
from tests.spark.standalone import standalone

HERE = Path(__file__).parent
DEPLOY = HERE.parents[1] / "docs" / "deploy.md"
WORKERS, PARTS = 2, 3


def documented_settings():
    """The settings of the page's first spark-submit, less those that are about another machine."""
    block = re.search(r"```\n(pip install millpond.*?)```", DEPLOY.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    found = dict(re.findall(r"--conf (\S+?)=(\S+)", block[1]))
    assert "--master spark://" in block[1]
    assert found.keys() == {"spark.pyspark.python", "spark.locality.wait.process", "spark.sql.shuffle.partitions"}
    del found["spark.pyspark.python"]
    return found


@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_a_submitted_job_equals_plain_python_and_uses_all_workers(tmp_path):
    rows = random_rows(Recommender, fresh_seed(), 90)
    wanted = oracle(Recommender, rows)
    write_parts(tmp_path / "in", Recommender, rows, PARTS)
    conf = documented_settings() | {"spark.sql.shuffle.partitions": "4"}
    with standalone(tmp_path / "cluster", WORKERS) as cluster:
        done = cluster.submit(HERE / "submitted_job.py", str(tmp_path), conf=conf)
        say(done.stderr[-4000:])
        assert done.returncode == 0
        assert cluster.log("master").count("Registering app submitted") == 1
        assert addresses(cluster.processes()) <= LOOPBACK
    assert replies_in(tmp_path / "out") == wanted.replies
    assert committed_state(tmp_path / "ck") == wanted.state
    epochs = json.loads((tmp_path / "epochs").read_text())
    assert len(epochs) == PARTS
    assert epochs[-1]["executors"] == WORKERS
    assert epochs[-1]["local_hits"] == 4, "partitions did not stay where their state is"


PRICES = """
def in_cents(amount: str) -> int:
    whole, _, part = amount.partition(".")
    return 100 * int(whole) + int(part or "0")
"""

TILL = """
import sys

from pyspark.sql import SparkSession
from shop.prices import in_cents

from millpond import Map, Partitioned, Program, entry, parquet


class Till(Program):
    totals = Partitioned(Map[str, int])

    @entry
    def sell(self, shop: str, amount: str) -> int:
        self.totals[shop] = self.totals.get(shop, 0) + in_cents(amount)
        return self.totals[shop]


if __name__ == "__main__":
    spark = SparkSession.builder.appName("till").getOrCreate()
    sales = spark.read.parquet(sys.argv[1] + "/in/sell")
    job = Till.on(spark, checkpoint=sys.argv[1] + "/ck", progress=False)
    job.feed("sell", sales, order_by="at", to=parquet(sys.argv[1] + "/out/sell"), keep=["at"]).run()
    spark.stop()
"""


@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_a_script_with_modules_of_its_own_in_a_zip_file_needs_them_nowhere_else(tmp_path, monkeypatch):
    """The program is in the script, which no worker can import; what it calls goes along with --py-files."""
    (tmp_path / "code").mkdir()
    script, modules = tmp_path / "code" / "till.py", tmp_path / "modules.zip"
    script.write_text(TILL)
    with zipfile.ZipFile(modules, "w") as packed:
        packed.writestr("shop/__init__.py", "")
        packed.writestr("shop/prices.py", PRICES)
    for place in (modules, script.parent):
        monkeypatch.syspath_prepend(place)
    program = importlib.import_module("till").Till
    rows = [("sell", (f"shop {number % 5}", f"{number}.{10 + number % 80}")) for number in range(60)]
    wanted = oracle(program, rows)
    write_parts(tmp_path / "in", program, rows, 2)
    with standalone(tmp_path / "cluster", WORKERS) as cluster:
        conf = documented_settings() | {"spark.sql.shuffle.partitions": "4"}
        done = cluster.submit(script, str(tmp_path), conf=conf, py_files=modules)
        say(done.stderr[-4000:])
        assert done.returncode == 0
    assert replies_in(tmp_path / "out") == wanted.replies
    assert committed_state(tmp_path / "ck") == wanted.state
