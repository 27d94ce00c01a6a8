"""Watermarks and late rows, one rule at a time."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from millpond import Counter, Map, Partitioned, Program, entry
from millpond.checkpoint.records.times import TaskTimes
from millpond.engine.plan import BadRows, Level
from millpond.engine.simulated import Simulated
from millpond.engine.time.eventtime import (
    FIRST_US,
    LAST_US,
    FeedTime,
    Heard,
    ParentWatermark,
    advanced,
)
from millpond.engine.time.laterows import late_table, untimed
from millpond.errors import MillpondError
from millpond.program.semantics.epoch_time import epoch_time, event_time, us_of
from tests.programs.timed import Moves
from tests.sizes import compile_once

SECOND = 1_000_000


def heard(**highest):
    return Heard(highest, tuple(highest))


def test_the_watermark_is_the_highest_time_less_the_disorder_and_never_goes_back():
    feeds = {"a": FeedTime(disorder_us=10)}
    first = advanced(None, feeds, 0, heard(a=100))
    assert (first.watermark_us, first.horizon_us) == (90, 90)
    assert advanced(first, feeds, 1, heard(a=50)).watermark_us == 90
    assert advanced(first, feeds, 1, heard(a=150)).watermark_us == 140
    assert advanced(first, {"a": FeedTime(disorder_us=60)}, 1, heard(a=120)).watermark_us == 90


def test_there_is_no_watermark_before_every_feed_told_one():
    feeds = {"a": FeedTime(), "b": FeedTime(disorder_us=5)}
    first = advanced(None, feeds, 0, heard(a=100))
    assert (first.watermark_us, first.horizon_us) == (None, None)
    assert advanced(first, feeds, 1, heard(b=50)).watermark_us == 45


def test_an_idle_feed_holds_nobody_back_and_holds_again_when_it_speaks():
    feeds = {"a": FeedTime(), "b": FeedTime(idle_us=10)}
    both = advanced(None, feeds, 0, heard(a=100, b=20))
    assert both.watermark_us == 20
    silent = Heard({"a": 200}, ("a",))
    still = advanced(both, feeds, 9, silent)
    assert still.watermark_us == 20
    gone = advanced(still, feeds, 10, silent)
    assert gone.watermark_us == 200
    back = advanced(gone, feeds, 11, Heard({"a": 300, "b": 150}, ("a", "b")))
    assert back.watermark_us == 200, "it does not go back, and waits for the feed that spoke"


def test_rows_without_a_time_keep_a_feed_from_being_idle():
    feeds = {"a": FeedTime(), "b": FeedTime(idle_us=10)}
    both = advanced(None, feeds, 0, heard(a=100, b=20))
    assert advanced(both, feeds, 10, Heard({"a": 200}, ("a", "b"))).watermark_us == 20


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_if_all_feeds_are_idle_it_does_not_matter_which_fell_silent_first(order):
    feeds = {name: FeedTime(idle_us=10) for name in "abc"}
    now = advanced(None, feeds, 0, heard(a=30, b=20, c=10))
    for at, name in enumerate(order):
        now = advanced(now, feeds, at + 1, Heard({}, (name,)))
    assert advanced(now, feeds, 100, Heard({}, ())).watermark_us == 30


def test_the_end_of_a_bounded_run_moves_the_watermark_and_leaves_the_horizon():
    feeds = {"a": FeedTime(disorder_us=10), "b": FeedTime()}
    ended = advanced(None, feeds, 0, Heard({"a": 100}, ("a",), ends=True))
    assert (ended.watermark_us, ended.horizon_us, ended.ended) == (LAST_US, None, True)
    assert advanced(ended, feeds, 1, Heard({}, ())).ended


def test_the_horizon_waits_for_lateness_for_messages_and_for_timers_that_are_due():
    feeds = {"a": FeedTime(lateness_us=30), "b": FeedTime(lateness_us=5)}
    told = {"a": 100, "b": 100}
    assert advanced(None, feeds, 0, Heard(told, "ab")).horizon_us == 70
    assert advanced(None, feeds, 0, Heard(told, "ab", soonest_us=40)).horizon_us == 40
    assert advanced(None, feeds, 0, Heard(told, "ab", soonest_us=90)).horizon_us == 70
    assert advanced(None, feeds, 0, Heard(told, "ab", goes_on=True)).horizon_us is None


def test_rows_are_late_below_the_watermark_less_the_lateness_and_never_before_the_horizon():
    assert ParentWatermark().bound_us(FeedTime()) == FIRST_US
    assert ParentWatermark(100, 60).bound_us(FeedTime(lateness_us=10)) == 90
    assert ParentWatermark(100, 60).bound_us(FeedTime(lateness_us=90)) == 60
    assert ParentWatermark(100, 60).bound_us(FeedTime(lateness_us=None)) == 60, "timers are not late"


def test_tasks_tell_their_highest_times_by_feed_and_the_first_timer():
    told = [
        TaskTimes(None, {"a.b": 5}, ("d", "a.b")),
        TaskTimes(7, {"a.b": 9}),
        TaskTimes(3),
        TaskTimes(None, {"c": -4}, ("c",)),
    ]
    assert TaskTimes.joined(told) == TaskTimes(3, {"a.b": 9, "c": -4}, ("a.b", "c", "d"))
    assert TaskTimes.joined([]) == TaskTimes()


def test_the_order_of_late_rows_does_not_depend_on_how_they_came():
    chance = random.Random(1)
    rows = [(chance.randrange(2), chance.randrange(2), chance.randrange(3)) for _ in range(30)]
    tables = []
    for _ in range(5):
        chance.shuffle(rows)
        zeros = np.zeros(len(rows), dtype=np.int64)
        places = (np.array([row[0] for row in rows]), zeros, zeros)
        happened = np.array([row[1] for row in rows])
        tables.append(late_table({"x": pa.array([row[2] for row in rows])}, happened, ParentWatermark(10, 0), places))
    assert all(table.equals(tables[0]) for table in tables)
    assert tables[0].column("late_by").to_pylist()[0] == 10 / SECOND


def test_times_that_are_null_or_no_moment_are_bad_and_keep_earlier_reasons():
    bad = np.array([True, False, False, False])
    times = pa.array([None, None, LAST_US + 1, 0], pa.int64())
    mask, reasons = untimed(times, bad, ["was bad before"])
    assert mask.tolist() == [True, True, True, False]
    assert reasons[:2] == ["was bad before", "the event time is null"]
    assert "out of range" in reasons[2]


class Seen(Program):
    """Counts, and lists that are forgotten."""

    counts = Partitioned(Counter[str])
    lists = Partitioned(Map[str, list[int]], ttl=timedelta(seconds=5))

    @entry
    def see(self, key: str, n: int) -> int:
        self.counts[key] += 1
        self.lists.setdefault(key, []).append(n)
        return us_of(self.now)


def simulated(folder, **options):
    options = {"event_time": FeedTime(disorder_us=SECOND), **options}
    return Simulated(compile_once(Seen), folder, 2, key_groups=4, **options)


def test_an_older_row_does_not_shorten_the_life_of_an_entry():
    program = Seen()
    for second in (10, 7):
        with event_time(second * SECOND):
            program.see("a", second)
    with event_time(14 * SECOND):
        assert program.lists["a"] == [10, 7]
    with event_time(15 * SECOND):
        assert "a" not in program.lists


def test_each_row_is_a_moment_of_its_own():
    """A change in place and back within one row is none, in two rows of one time it is two."""

    class Unseen(Seen):
        @entry
        def unsee(self, key: str) -> None:
            self.lists[key].pop()

    program = Unseen()
    with event_time(SECOND):
        program.see("a", 1)
    with event_time(2 * SECOND):
        program.see("a", 2)
    with event_time(2 * SECOND):
        program.unsee("a")
    with event_time(6 * SECOND):
        assert program.lists["a"] == [1]


def test_epoch_time_and_event_time_set_what_now_says():
    program = Seen()
    with epoch_time(datetime(2024, 1, 1, tzinfo=UTC)), event_time(datetime(2020, 1, 1, tzinfo=UTC)):
        assert program.see("a", 1) == us_of(datetime(2020, 1, 1, tzinfo=UTC))


def test_late_rows_without_a_sink_are_counted_and_go_by_the_horizon(tmp_path):
    run = simulated(tmp_path)
    run.epoch([("see", ("a", 1))], [10 * SECOND])
    run.epoch([("see", ("a", 2)), ("see", ("a", 3))], [3 * SECOND, 11 * SECOND])
    assert list(run.replies().values()) == [10 * SECOND, 9 * SECOND, 11 * SECOND]
    assert run._checkpoint.head.counters["late.see"] == 1


def test_a_row_without_a_time_is_a_bad_row(tmp_path):
    with pytest.raises(MillpondError, match="the event time is null"):
        simulated(tmp_path / "fails").epoch([("see", ("a", 1))], [None])
    run = simulated(tmp_path / "letters", bad_rows=BadRows.DEAD_LETTER)
    run.epoch([("see", ("a", 1)), ("see", ("a", 2))], [None, 5 * SECOND])
    (letter,) = run.dead_letters["see"].rows()
    assert letter["reason"] == "the event time is null"
    assert run.times.event.watermark_us == 4 * SECOND


def test_rows_over_several_keys_that_are_all_without_a_time_are_bad_and_no_more(tmp_path):
    run = Simulated(compile_once(Moves), tmp_path, 2, key_groups=4, event_time=FeedTime(), bad_rows=BadRows.SKIP)
    run.epoch([("move", ("a", "b", 1)), ("move", ("c", "b", 1))], [None, None])
    assert run._checkpoint.head.counters["bad.move"] == 2


def test_a_tick_lets_an_idle_feed_have_its_effect_and_only_once(tmp_path):
    feeds = {"fill": FeedTime(), "move": FeedTime(idle_us=5 * SECOND)}
    run = Simulated(compile_once(Moves), tmp_path, 2, key_groups=4, event_time=feeds)
    ticked = []
    for second in (1, 2, 7, 8):
        with epoch_time(second * SECOND):
            if second == 1:
                run.epoch([("fill", ("a", 1))], [100 * SECOND])
            ticked.append((run.tick() is not None, run.times.event.watermark_us))
    assert ticked == [(False, None), (False, None), (True, 100 * SECOND), (False, 100 * SECOND)]


def test_no_rows_come_after_the_end_of_event_time(tmp_path):
    run = simulated(tmp_path)
    run.epoch([("see", ("a", 1))], [10 * SECOND], ends=True)
    assert run.times.reached_us == LAST_US
    with pytest.raises(MillpondError) as caught:
        run.epoch([("see", ("a", 2))], [11 * SECOND])
    assert caught.value.code == "MP632"


def test_a_checkpoint_does_not_change_its_kind_of_time(tmp_path):
    run = simulated(tmp_path)
    run.epoch([("see", ("a", 1))], [10 * SECOND])
    with pytest.raises(MillpondError) as caught:
        simulated(tmp_path, event_time=None)
    assert caught.value.code == "MP631"
    with pytest.raises(MillpondError) as caught:
        simulated(tmp_path / "replay", durability=Level.REPLAY)
    assert caught.value.code in ("MP637", "MP492")
