"""kill -9 at every point of epochs with event time, late rows and an end included, then a new start."""

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
from tests.programs.eventtimed import EventPlain
from tests.programs.timed import SECOND, START, Alarms, committed_state
from tests.sizes import compile_once

pytestmark = pytest.mark.slow

EVENTS = 1_500_000_000 * SECOND
EPOCH_ROWS = 5
HANDLERS = ("idle", "again")
NAMES = ("touch", "stop", "repeat")
FEEDS = dict.fromkeys(NAMES, FeedTime(disorder_us=SECOND, idle_us=3 * SECOND))


def made_up(seed, count):
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        name = chance.choice(NAMES)
        arguments = (chance.choice("abcdef"), *([chance.randrange(5)] if name != "stop" else []))
        rows.append(((name, arguments), EVENTS + (number + chance.randrange(-9, 4)) * SECOND))
    return rows


ROWS = made_up(6, 40)
EPOCHS = [ROWS[at : at + EPOCH_ROWS] for at in range(0, len(ROWS), EPOCH_ROWS)]


def clock(number):
    return START + number * 2 * SECOND


@pytest.fixture(scope="module")
def wanted():
    plain = EventPlain(Alarms, FEEDS, late=True)
    for number, told in enumerate(EPOCHS):
        last = number == len(EPOCHS) - 1
        plain.epoch(clock(number), [row for row, _ in told], [happened for _, happened in told], ends=last)
    assert plain.late
    assert plain.fired
    return plain


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(snapshots, "DELTA_EPOCHS_MAX", 3)
    monkeypatch.setattr(working, "INLINE_BYTES_MAX", 60)


def go_on(folder, partitions):
    """Feed the rows that are not committed yet at the clock's times that they had; the last epoch ends event time."""
    # A new start at a later time fires what the last epoch left, by the watermark that it committed.
    with epoch_time(clock(100)):
        simulated = Simulated(
            compile_once(Alarms),
            folder,
            partitions,
            key_groups=8,
            sinks={name: parquet(folder / name) for name in HANDLERS},
            event_time=FEEDS,
            late={name: parquet(folder / f"late-{name}") for name in NAMES},
        )
    while simulated.fed < len(ROWS):
        number = simulated.fed // EPOCH_ROWS
        told = EPOCHS[number]
        with epoch_time(clock(number)):
            last = number == len(EPOCHS) - 1
            simulated.epoch([row for row, _ in told], [happened for _, happened in told], ends=last)
    return simulated


def rows_in(folder):
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


@pytest.mark.parametrize("occurrence", [3, pytest.param(6, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("point", IN_EPOCHS[1:])
def test_a_process_killed_at_any_point_is_followed_by_one_that_finishes(tmp_path, wanted, point, occurrence):
    assert in_child(lambda: go_on(tmp_path, 2), f"{point}:{occurrence}") in (-signal.SIGKILL, 0)
    simulated = go_on(tmp_path, 3)
    for name in HANDLERS:
        replies = sorted(str(row["reply"]) for row in rows_in(tmp_path / name))
        assert replies == sorted(str(reply) for handler, reply in wanted.fired if handler == name)
    for name in NAMES:
        late = sorted((row["key"], row["late_by"]) for row in rows_in(tmp_path / f"late-{name}"))
        assert late == sorted((arguments[0], by / SECOND) for own, arguments, _, by in wanted.late if own == name)
    event = simulated.times.event
    assert (event.watermark_us, event.horizon_us) == (wanted.watermark, wanted.horizon)
    assert committed_state(Alarms, simulated.storage) == wanted.state()
