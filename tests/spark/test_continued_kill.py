"""kill -9 of the driver while it goes on with what an epoch left: nothing is lost, nothing comes twice."""

from __future__ import annotations

import random
import signal

import pytest

from millpond.engine.sequential import Sequential
from tests.programs.keyed import committed_state, fresh_seed
from tests.sizes import compile_once
from tests.spark.continued_job import STEPS, ContinuedDriver, Walks
from tests.spark.feeding import replies_in, write_parts

POINTS = ("manifest.committed:2", "epoch.computed:1", "publish.started:2", "task.started:5")
"""Where the driver dies, one start after the other: each in an epoch that goes on with messages."""

FEW_POINTS = ("manifest.committed:2",)

HOPS = 14


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "points",
    [pytest.param(FEW_POINTS, id="few"), pytest.param(POINTS, id="all", marks=pytest.mark.campaign)],
)
def test_a_driver_killed_in_continued_epochs_ends_as_the_reference_interpreter_does(tmp_path, points):
    rng = random.Random(fresh_seed())
    rows = [("walk", (rng.randrange(23), HOPS if not number else rng.randrange(HOPS))) for number in range(40)]
    write_parts(tmp_path / "in", Walks, rows, 1)
    reference = Sequential(compile_once(Walks))
    expected = dict(enumerate(reference.epoch(rows)))
    for number, point in enumerate(points):
        # A worker that dies in a task is a retry for Spark; in the one task of a small epoch too.
        code = ContinuedDriver(tmp_path, crash_at=point, small_epoch=number % 2 * 1000).end()
        assert code == (0 if point.startswith("task") else -signal.SIGKILL), point
    assert ContinuedDriver(tmp_path).end() == 0
    assert replies_in(tmp_path / "out") == expected
    assert committed_state(tmp_path / "ck") == reference.state()
    assert len(list((tmp_path / "ck" / "manifests").glob("*"))) >= HOPS // STEPS
