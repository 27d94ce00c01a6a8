from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples import fraud_rules, kv_store, recommender, word_count
from examples.files import stream, write_parts
from examples.films import make_evening
from tests.spark.farewell import is_progress
from tests.unit.examples.readme import blocks, program

ROOT = Path(__file__).parents[2]
RUN_SECONDS_MAX = 600


@pytest.fixture
def as_module(spark, monkeypatch, tmp_path):
    """The session that an example finds and leaves running, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(spark, "stop", lambda: None)
    return monkeypatch


def test_the_recommender_answers_as_the_class_does(spark, tmp_path):
    evening = make_evening(31, members=40, ratings=400, requests=60, finale=3)
    outcome = recommender.spark_run(spark, evening, tmp_path, 3)
    _, expected = recommender.plain_run(evening)
    assert outcome.answers == expected
    assert [epoch.rows for epoch in outcome.epochs] == [153, 153, 154]


def test_the_recommender_runs_by_itself_says_no_more_than_it_should_and_runs_again(tmp_path):
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    (tmp_path / "out" / "recommender" / "ratings").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-m", "examples.recommender", "--ratings", "6000"],
        cwd=tmp_path,
        env=environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert is_progress(done.stderr, "Recommender"), done.stderr
    assert done.returncode == 0
    assert "All 120 answers equal those of the class run as plain Python." in done.stdout
    assert "Checkpoint:      ./out/recommender/checkpoint" in done.stdout
    assert pq.read_table(tmp_path / "out" / "recommender" / "recommended").num_rows == 120
    page = (tmp_path / "out" / "recommender" / "report.html").read_text()
    assert "6,120 rows in 5 epochs" in page
    assert page.count("<svg") == 1


@pytest.mark.classic("the examples start a Spark of their own")
def test_the_key_value_store_runs_as_a_module(as_module, capsys):
    as_module.setattr(kv_store, "OPERATIONS", 300)
    as_module.setattr(kv_store, "EPOCHS", 2)
    assert kv_store.main() == 0
    assert "300 operations in 2 epochs" in capsys.readouterr().out


@pytest.mark.classic("the examples start a Spark of their own")
def test_word_count_runs_as_a_module(as_module, capsys):
    as_module.setattr(word_count, "LINES", 60)
    as_module.setattr(word_count, "EPOCHS", 2)
    assert word_count.main() == 0
    assert "60 lines in 2 epochs" in capsys.readouterr().out


@pytest.mark.classic("the examples start a Spark of their own")
def test_the_fraud_rules_run_as_a_module(as_module, capsys):
    as_module.setattr(fraud_rules, "PAYMENTS", 300)
    as_module.setattr(fraud_rules, "ACCOUNTS", 10)
    as_module.setattr(fraud_rules, "EPOCHS", 2)
    assert fraud_rules.main() == 0
    assert "raised an alarm" in capsys.readouterr().out


@pytest.mark.classic("it is about the Spark in this process")
def test_the_blocks_of_the_tutorial_run_as_they_stand(spark, as_module, tmp_path):
    path = tmp_path / "tutorial_program.py"
    path.write_text("\n".join(code for _, code in blocks("docs/TUTORIAL.md")), encoding="utf-8")
    named = runpy.run_path(str(path), {"folder": str(tmp_path)})
    assert named["spark"] is spark
    assert named["report"].epoch == 1


def test_the_blocks_of_the_readme_run_as_they_stand(spark, as_module, tmp_path):
    columns = pa.schema([("user", pa.int64()), ("film", pa.int64()), ("stars", pa.float64())])
    rows = [{"user": 1, "film": 10, "stars": 5.0}, {"user": 1, "film": 11, "stars": 4.0}]
    ratings = write_parts(tmp_path / "ratings", columns, [[*rows, {"user": 2, "film": 10, "stars": 4.5}]])
    requests = write_parts(tmp_path / "requests", pa.schema([("user", pa.int64())]), [[{"user": 2}]])
    path = tmp_path / "readme_program.py"
    path.write_text(program(spark=True), encoding="utf-8")

    frames = {"spark": spark, "ratings": stream(spark, ratings), "requests": stream(spark, requests)}
    query = runpy.run_path(str(path), frames)["query"]
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert pq.read_table(tmp_path / "recommender" / "replies").to_pylist() == [{"user": 2, "reply": [(11, 4.5)]}]
