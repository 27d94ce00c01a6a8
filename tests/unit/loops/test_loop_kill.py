"""kill -9 at every point of epochs in which loops iterate, then a new start on other partitions; forks; state."""

from __future__ import annotations

import signal

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import millpond
from millpond import parquet
from millpond.checkpoint.forking import fork
from millpond.cli import app
from millpond.compiler.compile import compile_program
from millpond.crashpoints import IN_EPOCHS
from millpond.engine.simulated import Simulated
from millpond.engine.time.eventtime import FeedTime
from millpond.loops.program import TURNS, loop_program
from millpond.program.semantics.epoch_time import epoch_time, us_of
from millpond.windowing import tumbling
from tests.children import in_child
from tests.programs.looped import carried_kind, carried_of, made_up, shown

pytestmark = pytest.mark.slow

ROWS = made_up(7, 60)
COUNT = len(ROWS)
EPOCH_ROWS = 7
CLOCK = 1_700_000_000_000_000


@pytest.fixture(scope="module")
def compiled():
    # One round in an epoch: whenever a process dies, iterations are under way.
    return compile_program(loop_program(carried_kind(), tumbling("10 s"), budget=1))


def go_on(compiled, folder, partitions, until=COUNT):
    with epoch_time(CLOCK * 2):
        simulated = Simulated(
            compiled, folder, partitions, key_groups=8, sinks={TURNS: parquet(folder / "out")},
            event_time={"add": FeedTime(0, 0, None)},
        )  # fmt: skip
    while simulated.fed < until:
        told = ROWS[simulated.fed : simulated.fed + EPOCH_ROWS]
        with epoch_time(CLOCK + simulated.fed * 1_000_000):
            rows = [("add", (key, (target,))) for _, key, target in told]
            last = simulated.fed + len(told) == len(ROWS)
            simulated.epoch(rows, [us_of(moment) for moment, _, _ in told], ends=last)
    return simulated


def results(*folders):
    tables = [pq.read_table(path).to_pylist() for folder in folders for path in (folder / "out").glob("*.parquet")]
    replies = [row["reply"] for rows in tables for row in rows]
    return sorted(shown(tuple(part.values())) for reply in replies for part in reply)


@pytest.mark.parametrize(("times", "point"), [(4 + place % 9, point) for place, point in enumerate(IN_EPOCHS[1:])])
def test_a_process_killed_in_mid_iteration_is_followed_by_one_that_goes_on(tmp_path, compiled, times, point):
    assert in_child(lambda: go_on(compiled, tmp_path, 2), f"{point}:{times}") in (-signal.SIGKILL, 0)
    go_on(compiled, tmp_path, 4)
    assert results(tmp_path) == carried_of(ROWS)


def test_a_fork_in_mid_iteration_goes_on_as_its_source_does(tmp_path, compiled):
    base, forked = tmp_path / "base", tmp_path / "forked"
    go_on(compiled, base, 2, until=4 * EPOCH_ROWS)
    first = results(base)
    verified = CliRunner().invoke(app, ["state", "verify", str(base / "checkpoint")])
    assert "all well" in verified.stdout
    ((_, (running, *_)),) = millpond.open(base / "checkpoint")["lanes"].items()
    ((number, ended, _, _, inbox, _),) = running.values()
    assert (number >= 1, ended, bool(inbox)) == (True, False, True), "it is looked at in mid-iteration"
    fork(base / "checkpoint", forked / "checkpoint")
    go_on(compiled, forked, 5)
    assert sorted(first + results(forked)) == carried_of(ROWS)
    go_on(compiled, base, 1)
    assert results(base) == carried_of(ROWS)
    assert len(first) < len(results(base))
