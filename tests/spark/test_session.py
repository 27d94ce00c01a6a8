from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from millpond.errors import SetupError
from millpond.spark.session import local_session
from tests.spark.listening import LOOPBACK, addresses, below

ROOT = Path(__file__).parents[2]

SCRIPT = """
from millpond.spark.session import local_session
spark = local_session(cores=1)
print(spark.range(7).count())
spark.stop()
"""


def test_a_script_prints_only_what_it_prints():
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("7\n", "", 0)


def test_python_workers_are_this_python(spark):
    def whoami(batches):
        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    workers = {row.python for row in spark.range(4).mapInArrow(whoami, "python string").collect()}
    assert workers == {sys.executable}


@pytest.mark.classic("it is about the Spark in this process")
def test_everything_listens_on_loopback(spark):
    assert spark.range(4).count() == 4
    listens = addresses(below(os.getpid()))
    assert listens
    assert listens <= LOOPBACK
    assert spark.conf.get("spark.ui.enabled") == "false"


def test_a_failed_task_is_tried_again_as_on_a_cluster(spark):
    assert spark.conf.get("spark.master") == "local[2,4]"


@pytest.mark.classic("it is about the Spark in this process")
def test_java_home_is_the_users_again_once_spark_runs(spark, monkeypatch):
    before = os.environ.get("JAVA_HOME")
    assert local_session() is spark
    assert os.environ.get("JAVA_HOME") == before


@pytest.mark.classic("it is about the Spark in this process")
def test_conf_has_the_last_word(spark):
    try:
        local_session(conf={"spark.sql.session.timeZone": "Europe/Vienna"})
        assert spark.conf.get("spark.sql.session.timeZone") == "Europe/Vienna"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_no_core_is_refused():
    with pytest.raises(SetupError) as caught:
        local_session(cores=0)
    assert caught.value.code == "MP702"
