"""The program that joins two streams tells what a batch tells, however rows come and epochs and partitions are cut."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime
from functools import cache

import pytest

from millpond import windowing as w
from millpond.engine.simulated import Simulated
from millpond.engine.time.eventtime import FeedTime
from millpond.errors import EpochError
from millpond.program.semantics.epoch_time import us_of
from millpond.spark.frames.joinstreams import join_program
from tests.programs.timed import committed_state
from tests.property.joined import HOWS, Spec, batch_join
from tests.sizes import compile_once

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
DISORDER = 8 * SECOND
JOINS = {
    "after": {"within": (0, 6 * SECOND)},
    "around": {"within": (-4 * SECOND, 3 * SECOND)},
    "before": {"within": (-9 * SECOND, -2 * SECOND)},
    "tumbling": {"window": w.tumbling("5 s")},
    "sliding": {"window": w.sliding("7 s", "3 s")},
    "session": {"window": w.session("2 s")},
}


@cache
def program_of(spec, lateness=0):
    """A program whose rows have a number, a text or none, and keys of two columns."""
    sides = (int, str), (int, float)
    return join_program(spec.by_key(lateness), tuple[str, int], *sides, bounds=spec.within is None)


def made_up(seed, count, keys):
    """Rows (side, key, time, number) in the order of arrival, equal times among them."""
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        at = START + number * SECOND // 2 + chance.randrange(-14, 2) * SECOND // 2
        rows.append((chance.randrange(2), chance.randrange(keys), at, number))
    return rows


def fed(row):
    side, key, at, number = row
    columns = (number, None if number % 3 else f"row {number}") if side == 0 else (number, number / 4)
    return ("left", "right")[side], (("k", key), at, columns)


def told_by(spec, *runs):
    """What the handler told, as counts of bounds and the numbers of rows; other columns are those of the rows."""
    told = Counter()
    for run in runs:
        for reply in run.sinks["told"].rows():
            for joined in reply["reply"]:
                *bounds, left, text, right, number = joined.values()
                assert text == (None if left is None or left % 3 else f"row {left}")
                assert number == (None if right is None else right / 4)
                begin, end = map(us, bounds) if bounds else (None, None)
                told[begin, end, left, right] += 1
    return told


def us(moment):
    return us_of(moment) if isinstance(moment, datetime) else moment


def turns_of(rows, size):
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]


def simulated(spec, directory, partitions, *, disorder=DISORDER, lateness=0, late=False):
    time = FeedTime(disorder_us=disorder, lateness_us=lateness)
    return Simulated(
        compile_once(program_of(spec, lateness)), directory, partitions, key_groups=8, event_time=time, late=late
    )


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("join", JOINS)
def test_a_run_that_is_cut_restarted_and_rescaled_tells_what_a_batch_tells(join, how, tmp_path):
    spec = Spec(how, **JOINS[join])
    rows = made_up(f"{join} {how}", 90, 3)
    turns = turns_of(rows, 11)
    runs = []
    for number, turn in enumerate(turns):
        if number in (0, 3, 6):
            runs.append(simulated(spec, tmp_path, {0: 2, 3: 3, 6: 1}[number]))
        runs[-1].epoch(list(map(fed, turn)), [row[2] for row in turn], ends=number == len(turns) - 1)
    found = told_by(spec, *runs)
    assert found == batch_join(spec, rows)
    assert found.total() > 20
    assert committed_state(program_of(spec), runs[-1].storage) == {"held": {}, "told": {}}


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 40])
def test_one_key_in_small_and_large_epochs(size, tmp_path):
    spec = Spec("full", (-2 * SECOND, 2 * SECOND))
    rows = made_up(7, 40, 1)
    rows += [(side, key, at, number + 40) for side, key, at, number in rows[-5:]]
    run = simulated(spec, tmp_path, 2)
    turns = turns_of(rows, size)
    for number, turn in enumerate(turns):
        run.epoch(list(map(fed, turn)), [row[2] for row in turn], ends=number == len(turns) - 1)
    assert told_by(spec, run) == batch_join(spec, rows)


def test_state_does_not_grow_and_what_is_known_is_told_before_the_end(tmp_path):
    spec = Spec("full", (0, 3 * SECOND))
    rows = made_up(3, 160, 2)
    run, sizes = simulated(spec, tmp_path, 2), []
    for turn in turns_of(rows, 20):
        run.epoch(list(map(fed, turn)), [row[2] for row in turn])
        held = committed_state(program_of(spec), run.storage)["held"]
        sizes.append(sum(len(rows) for _, lists in held.values() for rows in lists))
    assert max(sizes) < 60
    assert told_by(spec, run).total() > 120
    assert told_by(spec, run) <= batch_join(spec, rows)


def test_late_rows_go_to_their_sink_or_find_what_is_still_there(tmp_path):
    spec = Spec("left", (0, 20 * SECOND))
    first = [(0, 0, START, 0), (1, 0, START + 12 * SECOND, 1), (0, 0, START + 15 * SECOND, 2)]
    second = [(1, 0, START + 3 * SECOND, 3), (1, 0, START + 60 * SECOND, 4), (0, 0, START + 60 * SECOND, 5)]
    for late in (True, False):
        run = simulated(spec, tmp_path / str(late), 2, disorder=0, late=late)
        for turn in (first, second):
            run.epoch(list(map(fed, turn)), [row[2] for row in turn], ends=turn is second)
        pairs = {(left, right) for *_, left, right in told_by(spec, run)}
        assert pairs == {(0, 1), (2, None), (5, 4)} | (set() if late else {(0, 3)})
        gone = [row["join_row"]["_1"] for sink in run.late_rows.values() for row in sink.rows()]
        assert gone == ([3] if late else [])


def test_rows_within_the_lateness_are_not_late(tmp_path):
    spec = Spec("full", (0, 2 * SECOND))
    first = [(0, 0, START, 0), (1, 0, START + 12 * SECOND, 1), (0, 0, START + 12 * SECOND, 2)]
    second = [(1, 0, START + 1 * SECOND, 3), (0, 0, START + 60 * SECOND, 4)]
    run = simulated(spec, tmp_path, 2, disorder=0, lateness=12 * SECOND)
    for turn in (first, second):
        run.epoch(list(map(fed, turn)), [row[2] for row in turn], ends=turn is second)
    assert told_by(spec, run) == batch_join(spec, first + second)
    assert (None, None, 0, 3) in told_by(spec, run)


def test_another_join_does_not_take_over_what_was_held_for_this_one(tmp_path):
    rows = made_up(1, 5, 1)
    run = simulated(Spec("left", (0, SECOND)), tmp_path, 2)
    run.epoch(list(map(fed, rows)), [row[2] for row in rows])
    for other in (Spec("left", (0, 2 * SECOND)), Spec("full", (0, SECOND)), Spec("left", None, w.tumbling("1 s"))):
        with pytest.raises(EpochError, match="MP441"):
            simulated(other, tmp_path, 2)
    simulated(Spec("left", (0, SECOND)), tmp_path, 2)


def test_distances_that_reach_beyond_all_dates_end_with_event_time(tmp_path):
    spec = Spec("full", (0, 2**60))
    rows = [(0, 0, START, 0), (1, 0, START + SECOND, 1), (0, 1, START, 2), (1, 2, START, 3)]
    run = simulated(spec, tmp_path, 2)
    run.epoch(list(map(fed, rows)), [row[2] for row in rows])
    run.epoch([], [], ends=True)
    assert told_by(spec, run) == batch_join(spec, rows)
