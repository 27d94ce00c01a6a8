"""kill -9 at every point of epochs with timers and state that expires, ticks included, then a new start."""

from __future__ import annotations

import random
import signal

import pyarrow.parquet as pq
import pytest

from millpond import parquet
from millpond.checkpoint.recovery import last_manifest, read_genesis
from millpond.checkpoint.snapshots import snapshots
from millpond.crashpoints import IN_EPOCHS
from millpond.engine.simulated import Simulated
from millpond.engine.task import working
from millpond.program.semantics.epoch_time import epoch_time
from tests.children import in_child
from tests.programs.timed import SECOND, START, Alarms, Plain, committed_state
from tests.sizes import compile_once

pytestmark = pytest.mark.slow

EPOCH_ROWS = 5
STEP_US = 2 * SECOND
TICKS = 6
HANDLERS = ("idle", "again")


def made_up(seed, count):
    chance = random.Random(seed)
    kinds = [("touch", -2, 8), ("touch", 1, 4), ("repeat", 0, 5)]
    rows = []
    for _ in range(count):
        kind, least, most = chance.choice(kinds)
        rows.append((kind, (chance.choice("abcdef"), chance.randrange(least, most))))
        if chance.random() < 0.2:
            rows.append(("stop", (chance.choice("abcdef"),)))
    return rows[:count]


ROWS = made_up(4, 40)
EPOCHS = [ROWS[at : at + EPOCH_ROWS] for at in range(0, len(ROWS), EPOCH_ROWS)]


def moment(number):
    return START + number * STEP_US


@pytest.fixture(scope="module")
def wanted():
    plain = Plain(Alarms)
    for number, rows in enumerate(EPOCHS):
        plain.epoch(moment(number), rows)
    for number in range(len(EPOCHS), len(EPOCHS) + TICKS):
        with epoch_time(moment(number)):
            if plain.fire():
                plain.now = moment(number)
    return plain


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", 60)


def go_on(folder, partitions):
    """Feed the rows that are not committed yet at the times that they had, then tick."""
    sinks = {name: parquet(folder / name) for name in HANDLERS}
    # A new start at a later time fires what the last epoch left at that epoch's own time.
    with epoch_time(moment(100)):
        simulated = Simulated(compile_once(Alarms), folder, partitions, key_groups=8, sinks=sinks)
    while simulated.fed < len(ROWS):
        number = simulated.fed // EPOCH_ROWS
        with epoch_time(moment(number)):
            simulated.epoch(EPOCHS[number])
    for number in range(len(EPOCHS), len(EPOCHS) + TICKS):
        with epoch_time(moment(number)):
            if last_time(simulated) < moment(number):
                simulated.tick()
    return simulated


def last_time(simulated):
    genesis = read_genesis(simulated.storage)
    return last_manifest(simulated.storage, genesis[1])[0].times.now_us


def check_the_end(folder, wanted):
    for name in HANDLERS:
        rows = [row for path in sorted((folder / name).glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
        assert sorted(str(row["reply"]) for row in rows) == sorted(str(r) for h, r in wanted.fired if h == name)
    simulated = go_on(folder, 3)
    state = wanted.state()
    found = committed_state(Alarms, simulated.storage)
    assert found == state


@pytest.mark.parametrize("occurrence", [3, pytest.param(6, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("point", IN_EPOCHS[1:])
def test_a_process_killed_at_any_point_is_followed_by_one_that_finishes(tmp_path, wanted, point, occurrence):
    assert in_child(lambda: go_on(tmp_path, 2), f"{point}:{occurrence}") in (-signal.SIGKILL, 0)
    go_on(tmp_path, 2)
    check_the_end(tmp_path, wanted)
