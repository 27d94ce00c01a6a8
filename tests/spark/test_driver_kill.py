"""kill -9 of the driver, at named points and at random times; and of an executor between two steps (R7, R8)."""

from __future__ import annotations

import random
import signal
from contextlib import suppress

import psutil
import pytest

from tests.programs.keyed import committed_state, fresh_seed, oracle, say
from tests.spark.drivers import Driver, wait_for
from tests.spark.feeding import epochs_of_replies, replies_in, write_parts
from tests.spark.gated import Gated

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

FEW_POINTS = ("manifest.committed:1", "publish.file:5")

WORKER_POINTS = (
    "output.staged:2",
    *(pytest.param(point, marks=pytest.mark.campaign) for point in ("task.started:3", "delta.written:2")),
)
PART_ROWS = 80


def rows_for(seed, parts):
    """Rows with long page names, so that deltas become files of their own."""
    rng = random.Random(seed)
    pages = [f"page {number} " + "x" * 6000 for number in range(60)]
    rows = []
    for _ in range(parts * PART_ROWS):
        visit = ("visit", (rng.randrange(12), rng.choice(pages)))
        rows.append(rng.choice((visit, visit, visit, ("views", (rng.choice(pages),)))))
    return rows


def check(folder, rows, program=Gated):
    """Compare with plain Python, run in input order: epochs in their order, within an epoch by number.

    Spark decides which rows of two feeds meet in an epoch: a source that had noted its next file when the driver died
    is one file ahead of the others from then on.
    """
    epochs = epochs_of_replies(folder / "out")
    assert sorted(epochs) == list(range(len(rows))), "a reply is missing"
    for name in {name for name, _ in rows}:
        own = [epochs[number] for number, (called, _) in enumerate(rows) if called == name]
        assert own == sorted(own), f"rows of {name} changed places"
    order = sorted(epochs, key=lambda number: (epochs[number], number))
    wanted = oracle(program, [rows[number] for number in order])
    assert replies_in(folder / "out") == {order[place]: reply for place, reply in wanted.replies.items()}
    assert committed_state(folder / "ck") == wanted.state
    return epochs


def epochs_in(folder):
    return len(list((folder / "ck" / "manifests").glob("*")))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("points", "random_kills", "parts"),
    [
        pytest.param(FEW_POINTS, 0, 8, id="few"),
        pytest.param(POINTS, 3, 24, id="all", marks=pytest.mark.campaign),
    ],
)
def test_a_driver_killed_again_and_again_neither_loses_nor_repeats_anything(tmp_path, points, random_kills, parts):
    seed = fresh_seed()
    rng = random.Random(seed)
    rows = rows_for(seed, parts)
    write_parts(tmp_path / "in", Gated, rows, parts)
    for number, point in enumerate(points):
        # Both ways to run an epoch, since a restart may change over.
        small = number % 2 * PART_ROWS
        assert Driver(tmp_path, crash_at=point, small_epoch=small).end() == -signal.SIGKILL, point
        say(point, "left", epochs_in(tmp_path), "epochs")
    for _ in range(random_kills):
        driver = Driver(tmp_path, small_epoch=rng.choice((0, PART_ROWS)))
        driver.kill_at_random(lambda: epochs_in(tmp_path), rng)
        say("killed at random with", epochs_in(tmp_path), "epochs")
    assert epochs_in(tmp_path) < parts, "there was nothing left to recover"
    assert Driver(tmp_path, small_epoch=PART_ROWS).end() == 0
    check(tmp_path, rows)


@pytest.mark.timeout(1800)
def test_a_feed_that_runs_ahead_of_another_after_a_crash_still_gives_the_order_of_the_epochs(tmp_path):
    rows = rows_for(3, 6)
    write_parts(tmp_path / "in", Gated, rows, 6)
    assert Driver(tmp_path, crash_at="manifest.committed:2").end() == -signal.SIGKILL
    noted = tmp_path / "ck" / "spark" / "sources" / "0"
    text = (noted / "1").read_text()
    (noted / "2").write_text(text.replace("part-0001", "part-0002").replace('"batchId":1', '"batchId":2'))
    assert Driver(tmp_path).end() == 0
    epochs = check(tmp_path, rows)
    together = {(epochs[number], number // PART_ROWS, name) for number, (name, _) in enumerate(rows)}
    assert len({epoch for epoch, part, _ in together if part == 3}) == 2, "no feed was ahead"


@pytest.mark.timeout(1800)
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


@pytest.mark.timeout(1800)
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
    psutil.wait_procs(found[:1], timeout=600)
    (gates / "go").touch()
    assert driver.end() == 0
    assert "Lost executor" in driver.log()
    check(tmp_path, rows)
