"""An executor that something else slows down loses key groups; two attempts of a task never both count."""

from __future__ import annotations

import json
import random
import threading
from contextlib import suppress

import psutil
import pytest

from tests.spark.clusters import EXECUTOR, ClusterDriver, told
from tests.spark.drivers import wait_for
from tests.spark.elastic_job import Heavy
from tests.spark.feeding import replies_in, write_parts
from tests.spark.programs import committed_state, oracle, say

TWO = "local-cluster[2,1,1024]"
STOLEN_S, LEFT_S = 0.4, 0.08


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


class Thief(threading.Thread):
    """Takes most of the time away from the Python workers of an executor, whatever else runs on the machine."""

    def __init__(self, executor):
        super().__init__(daemon=True)
        self._executor = executor
        self._over = threading.Event()

    def run(self):
        while not self._over.is_set():
            workers = self._workers()
            self._signal(workers, psutil.Process.suspend)
            self._over.wait(STOLEN_S)
            self._signal(workers, psutil.Process.resume)
            self._over.wait(LEFT_S)

    def end(self):
        self._over.set()
        self.join()

    def _workers(self):
        with suppress(psutil.Error):
            return self._executor.children(recursive=True)
        return []

    def _signal(self, workers, verb):
        for worker in workers:
            with suppress(psutil.Error):
                verb(worker)


def relieved(folder):
    """Whether key groups left an executor because it was slow."""
    return any("times as long for a row as others" in text for one in told(folder) for text in one["advice"])


@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_an_executor_with_a_thief_beside_it_loses_key_groups_and_nothing_else(tmp_path):
    parts = 30
    rows = rows_of(parts, 800, 800)
    elastic = {"least": 2, "most": 2, "reports": 2, "ignored_s": 0.0}
    driver = begin(tmp_path, rows, parts, elastic=elastic, job={"partitions": 2})
    wait_for(lambda: len(told(tmp_path)) >= 3 or driver.ended(), "some epochs")
    executors = driver.processes(EXECUTOR)
    assert len(executors) == 2
    thief = Thief(executors[0])
    thief.start()
    try:
        wait_for(lambda: relieved(tmp_path) or driver.ended(), "relief")
        enough = len(told(tmp_path)) + 3
        wait_for(lambda: len(told(tmp_path)) >= enough or driver.ended(), "epochs after it")
    finally:
        thief.end()
    assert driver.end() == 0
    check(tmp_path, rows)
    epochs = told(tmp_path)
    say([(one["epoch"], round(one["seconds"], 1), one["groups_moved"], one["advice"]) for one in epochs])
    assert relieved(tmp_path)
    assert 0 < sum(one["groups_moved"] for one in epochs) < 128


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
