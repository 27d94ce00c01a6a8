"""kill -9 of the driver, at named points and at random times; and of an executor between two steps (R7, R8)."""

from __future__ import annotations

import random
import signal
from contextlib import suppress

import psutil
import pytest

from tests.spark.drivers import Driver, wait_for
from tests.spark.feeding import replies_in, write_parts
from tests.spark.gated import Gated
from tests.spark.programs import committed_state, fresh_seed, oracle, say

POINTS = (
    "epoch.computed:2",
    "segment.written:1",
    "manifest.staged:1",
    "manifest.linked:1",
    "manifest.committed:1",
    "publish.started:1",  # during recovery
    "publish.started:2",
    "publish.file:5",  # behind the files of the last epoch, which recovery looks at again
)
"""Where the driver dies, one start after the other."""

WORKER_POINTS = ("task.started:3", "output.staged:2", "delta.written:2")
PART_ROWS = 80
RANDOM_KILLS = 3


def rows_for(seed, parts):
    """Rows with long page names, so that deltas become files of their own."""
    rng = random.Random(seed)
    pages = [f"page {number} " + "x" * 6000 for number in range(60)]
    rows = []
    for _ in range(parts * PART_ROWS):
        visit = ("visit", (rng.randrange(12), rng.choice(pages)))
        rows.append(rng.choice((visit, visit, visit, ("views", (rng.choice(pages),)))))
    return rows


def check(folder, rows):
    wanted = oracle(Gated, rows)
    assert replies_in(folder / "out") == wanted.replies
    assert committed_state(folder / "ck") == wanted.state


def epochs_in(folder):
    return len(list((folder / "ck" / "manifests").glob("*")))


@pytest.mark.timeout(1800)
def test_a_driver_killed_again_and_again_neither_loses_nor_repeats_anything(tmp_path):
    seed = fresh_seed()
    rng = random.Random(seed)
    parts = 24
    rows = rows_for(seed, parts)
    write_parts(tmp_path / "in", Gated, rows, parts)
    for point in POINTS:
        assert Driver(tmp_path, crash_at=point).end() == -signal.SIGKILL, point
        say(point, "left", epochs_in(tmp_path), "epochs")
    for _ in range(RANDOM_KILLS):
        driver = Driver(tmp_path)
        driver.wait_until_started()
        before = epochs_in(tmp_path)
        wait_for(lambda before=before, driver=driver: epochs_in(tmp_path) > before or driver.ended(), "an epoch")
        driver.kill_after(rng.uniform(0.0, 0.8))
        assert driver.end() == -signal.SIGKILL
        say("killed at random with", epochs_in(tmp_path), "epochs")
    assert epochs_in(tmp_path) < parts, "there was nothing left to recover"
    assert Driver(tmp_path).end() == 0
    check(tmp_path, rows)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("point", WORKER_POINTS)
def test_workers_that_die_all_the_time_change_nothing(tmp_path, point):
    rows = rows_for(7, 4)
    write_parts(tmp_path / "in", Gated, rows, 4)
    driver = Driver(tmp_path, crash_at=point)
    assert driver.end() == 0
    assert "Python worker exited unexpectedly" in driver.log()
    check(tmp_path, rows)


def executors(driver):
    found = []
    for process in driver.below():
        with suppress(psutil.Error):
            if any(word.endswith("CoarseGrainedExecutorBackend") for word in process.cmdline()):
                found.append(process)
    return found


@pytest.mark.timeout(900)
def test_an_executor_killed_between_two_steps_costs_a_rerun_and_nothing_else(tmp_path):
    rows = rows_for(9, 3)
    write_parts(tmp_path / "in", Gated, rows, 3)
    gates = tmp_path / "gates"
    gates.mkdir()
    (gates / "second").write_text("wait")
    driver = Driver(tmp_path, master="local-cluster[2,1,1024]")
    wait_for(lambda: (gates / "second.waiting").exists() or driver.ended(), "the second step")
    found = executors(driver)
    assert len(found) == 2
    found[0].kill()
    psutil.wait_procs(found[:1], timeout=60)
    (gates / "go").touch()
    assert driver.end() == 0
    assert "Lost executor" in driver.log()
    check(tmp_path, rows)
