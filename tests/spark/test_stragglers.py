"""An executor that something else slows down loses key groups; two attempts of a task never both count."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.pinning import cores, pin, thieves
from tests.programs.keyed import committed_state, oracle, say
from tests.spark.clusters import EXECUTOR, ClusterDriver, told
from tests.spark.drivers import ROOT, wait_for
from tests.spark.elastic_job import Heavy
from tests.spark.feeding import replies_in, write_parts

TWO = "local-cluster[2,1,1024]"
THIEVES = 6
"""So many beside an executor leave it a seventh of its core, or a good deal less than others on a busy machine."""


class ElasticDriver(ClusterDriver):
    JOB = "tests.spark.elastic_job"


def rows_of(parts, rows, turns):
    rng = random.Random(parts)
    return [("add", (rng.randrange(400), turns)) for _ in range(parts * rows)]


def begin(folder, rows, parts, **options):
    write_parts(folder / "in", Heavy, rows, parts)
    (folder / "options").write_text(json.dumps(options))
    return ElasticDriver(folder, master=TWO)


def check(folder, rows):
    truth = oracle(Heavy, rows)
    assert committed_state(folder / "ck") == truth.state
    assert replies_in(folder / "out") == truth.replies


def relieved(folder):
    """Whether key groups left an executor because it was slow."""
    return any("times as long for a row as others" in text for one in told(folder) for text in one["advice"])


@pytest.mark.campaign
@pytest.mark.timeout(1800)
@pytest.mark.skipif(len(cores()) < 2, reason="each executor needs a core of its own")
def test_an_executor_with_a_thief_beside_it_loses_key_groups_and_nothing_else(tmp_path):
    parts = 24
    # Some tenths of a second for each executor: a task that is over sooner hardly meets the others on its core.
    rows = rows_of(parts, 2000, 4000)
    elastic = {"least": 2, "most": 2, "reports": 2}
    driver = begin(tmp_path, rows, parts, elastic=elastic, job={"partitions": 2})
    wait_for(lambda: len(told(tmp_path)) >= 3 or driver.ended(), "some epochs")
    executors, own = driver.processes(EXECUTOR), cores()
    assert len(executors) == 2
    for executor, core in zip(executors, own, strict=False):
        pin(executor, core)
    with thieves(own[0], THIEVES):
        wait_for(lambda: relieved(tmp_path) or driver.ended(), "relief")
        enough = len(told(tmp_path)) + 3
        wait_for(lambda: len(told(tmp_path)) >= enough or driver.ended(), "epochs after it")
        after = told(tmp_path)[-1]
    assert driver.end() == 0
    check(tmp_path, rows)
    epochs = told(tmp_path)
    say([(one["epoch"], round(one["seconds"], 1), one["loads"][0]["worked"], one["advice"]) for one in epochs])
    assert relieved(tmp_path)
    assert 0 < sum(one["groups_moved"] for one in epochs) < 128
    assert 2 * min(after["loads"][0]["worked"]) < max(after["loads"][0]["worked"]), "one has little to do"


@pytest.mark.campaign
@pytest.mark.timeout(1200)
def test_of_two_attempts_of_a_task_one_counts(tmp_path):
    parts = 6
    rows = rows_of(parts, 60, 1)
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.4",
        "spark.speculation.minTaskRuntime": "500ms",
        "spark.locality.wait": "200ms",
    }
    (tmp_path / "drag").write_text("5")
    driver = begin(tmp_path, rows, parts, conf=speculation, job={"partitions": 2})
    assert driver.end() == 0
    check(tmp_path, rows)
    assert "speculatable" in driver.log()
    assert (tmp_path / "drag.4").exists(), "all of them were slow"


@pytest.mark.campaign
@pytest.mark.timeout(1200)
@pytest.mark.skipif(len(cores()) < 2, reason="each executor needs a core of its own")
def test_the_benchmark_tells_its_figures_draws_them_and_was_checked(tmp_path):
    sizes = ["--epochs", "9", "--pace", "0.5", "--rows", "60", "--turns", "200", "--repeat", "1"]
    command = [sys.executable, "-m", "benchmarks", "elastic", *sizes, "--svg", str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    figures = json.loads(ran.stdout.splitlines()[-1])
    assert figures["checked"] is True
    assert figures["scale_out_ratio"] > 0
    assert figures["relief_ratio"] > 0
    assert len(figures["partitions"][0]) == 9
    assert all("<polyline" in Path(chart).read_text(encoding="utf-8") for chart in figures["charts"])
