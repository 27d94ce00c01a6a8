"""kill -9 at every point of epochs whose rows go into windows, then a new start on other partitions."""

from __future__ import annotations

import random
import signal

import pyarrow.parquet as pq
import pytest

from millpond import parquet
from millpond.checkpoint.snapshots import snapshots
from millpond.crashpoints import IN_EPOCHS
from millpond.engine.simulated import Simulated
from millpond.engine.task import working
from millpond.engine.time.eventtime import FeedTime
from millpond.program.semantics.epoch_time import epoch_time
from tests.children import in_child
from tests.programs.timed import SECOND, START, committed_state
from tests.programs.windowed import Adding, Corrected, Ordered, Watched
from tests.sizes import compile_once, thinned

pytestmark = pytest.mark.slow

EVENTS = 1_500_000_000 * SECOND
EPOCH_ROWS = 6
NAMES = ("read", "visit")
HANDLERS = {
    Corrected: ("spans", "visits"),
    Ordered: ("counted", "visits"),
    Adding: ("ring", "spans", "totals"),
}
LATENESS_US = {Corrected: 4 * SECOND, Ordered: 0, Adding: 0}


def made_up(seed, count):
    chance = random.Random(seed)
    return [
        (
            (chance.choice(NAMES), (chance.choice("abcd"), chance.randrange(3))),
            EVENTS + (number // 2 + chance.randrange(-9, 4)) * SECOND,
        )
        for number in range(count)
    ]


ROWS = made_up(5, 48)
EPOCHS = [ROWS[at : at + EPOCH_ROWS] for at in range(0, len(ROWS), EPOCH_ROWS)]


def feeds(program):
    return dict.fromkeys(NAMES, FeedTime(SECOND, LATENESS_US[program], 3 * SECOND))


def clock(number):
    return START + number * 2 * SECOND


@pytest.fixture(scope="module")
def wanted():
    made = {}
    for program, handlers in HANDLERS.items():
        made[program] = plain = Watched(program, feeds(program), late=False)
        for number, told in enumerate(EPOCHS):
            last = number == len(EPOCHS) - 1
            plain.epoch(clock(number), [row for row, _ in told], [happened for _, happened in told], ends=last)
        assert {handler for handler, _ in plain.fired} == set(handlers)
        assert plain.counted_late
    assert any("True" in reply for _, reply in made[Corrected].fired)
    return made


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", 60)


def go_on(program, folder, partitions):
    """Feed the rows that are not committed yet at the clock's times that they had; the last epoch ends event time."""
    with epoch_time(clock(100)):
        simulated = Simulated(
            compile_once(program),
            folder,
            partitions,
            key_groups=8,
            sinks={name: parquet(folder / name) for name in HANDLERS[program]},
            event_time=feeds(program),
        )
    while simulated.fed < len(ROWS):
        number = simulated.fed // EPOCH_ROWS
        told = EPOCHS[number]
        with epoch_time(clock(number)):
            last = number == len(EPOCHS) - 1
            simulated.epoch([row for row, _ in told], [happened for _, happened in told], ends=last)
    return simulated


def replies_in(folder):
    return sorted(row["reply"] for path in folder.glob("*.parquet") for row in pq.read_table(path).to_pylist())


KILLS = [
    (program, times, point)
    for program, times in ((Corrected, 4), (Ordered, 4), (Adding, 4), (Adding, 9))
    for point in IN_EPOCHS[1:]
]


@pytest.mark.parametrize(("program", "times", "point"), thinned(KILLS, 3))
def test_a_process_killed_at_any_point_is_followed_by_one_that_tells_each_window_once(
    tmp_path, wanted, program, times, point
):
    assert in_child(lambda: go_on(program, tmp_path, 2), f"{point}:{times}") in (-signal.SIGKILL, 0)
    simulated = go_on(program, tmp_path, 3)
    for name in HANDLERS[program]:
        assert replies_in(tmp_path / name) == sorted(reply for own, reply in wanted[program].fired if own == name)
    assert committed_state(program, simulated.storage) == wanted[program].state()
