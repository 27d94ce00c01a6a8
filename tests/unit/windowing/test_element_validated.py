"""What is wrong with a row is told when it is added, not when its turn comes; and each window has its own value."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from millpond import Program, entry, on_window
from millpond import windowing as w
from millpond.compiler.compile import compile_program
from millpond.engine.plan import BadRows
from millpond.engine.simulated import Simulated
from millpond.engine.time.eventtime import LAST_US, FeedTime
from millpond.errors import MillpondError, WindowError
from millpond.program.semantics.epoch_time import moment_of
from millpond.testing import epoch_time, event_time, fire_timers
from millpond.windowing import ClosedWindow
from millpond.windowing.keyed.keyrows import KeyRows
from tests.lengths import us

SECOND = 1_000_000


def by_v(record):
    return record["v"]


def shape(record):
    return us(record["v"]), us(2)


def cut(seen, moment):
    return int(100 // moment.record["v"] > 0), int(seen > 0), seen + 1


def view(seen, moment, held):
    return max(0, held - 100 // moment.record["v"]), True, seen


def start_and_end(_state, moment):
    return int(moment.record["v"] == 1), int(moment.record["v"] == 2), None


WINDOWS = {
    "measure": (w.measured(by_v, 10), [math.nan, math.inf, "a", None, 1e300]),
    "fraction": (w.measured(lambda record: 1 / record["v"], 10), [0]),
    "mark": (w.punctuation(lambda record: 1 // record["v"] == 1), [0, "a"]),
    "landmark": (w.landmark(lambda record: record["v"] > 1, lambda record: 1 // record["v"] == 1), [0, "a"]),
    "shape": (w.varying(shape), [0, -1, 0.5, "a", 10**12]),
    "cut": (w.user_defined(cut, 0), [0, "a"]),
    "view": (w.viewed(view, 0), [0, "a"]),
    "aggregate": ({"t": w.tumbling("10 us"), "n": w.count_tumbling(2)}, ["a"]),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_a_row_on_which_a_function_fails_is_refused_when_it_is_added(name):
    windows, bad = WINDOWS[name]
    keys = KeyRows(windows if isinstance(windows, dict) else {"": windows}, w.several(top=w.max_of("v")))
    held, moment = keys.start(), None
    for time, value in enumerate([5, *bad, 7]):
        if value in (5, 7):
            held, moment = keys.add(held, time, {"v": value}, moment)
            continue
        before = repr(held)
        with pytest.raises((WindowError, TypeError, ZeroDivisionError)):
            keys.add(held, time, {"v": value}, moment)
        assert repr(held) == before
        assert [row["v"] for _, row in held[1]] == [5]
    _, held, _ = keys.close(held, 10**6)
    # Also after some rows were taken, where what is kept can tell.
    for value in bad if name != "aggregate" else ():
        with pytest.raises((WindowError, TypeError, ZeroDivisionError)):
            keys.add(held, 10**6, {"v": value}, None)


def test_windows_that_are_not_open_cant_end_and_stop_nothing():
    windows = {"own": w.user_defined(start_and_end), "view": w.viewed(lambda _s, _m, held: (held + 1, True, None))}
    keys = KeyRows(windows, w.several(all=w.collect("v")))
    held, moment = keys.start(), None
    for time, value in enumerate([2, 1, 2, 2, 1, 3, 2]):
        held, moment = keys.add(held, time, {"v": value}, moment)
    told, *_ = keys.close(held, 100)
    assert [(one.begin, one.end, one.value["all"]) for one in told] == [(1, 2, [1]), (4, 6, [1, 3])]


class Km(Program):
    @entry
    def drive(self, car: str, km: float) -> None:
        self.per10.add(car, km=km)

    @on_window(w.measured(lambda record: record["km"], 10), n=w.count(), all=w.collect("km"))
    def per10(self, car: str, closed: list[ClosedWindow]) -> list[str]:
        return [f"{car} {one.begin} {one['all']}" for one in closed]


ROWS = [("a", 5.0), ("a", 0.0), ("b", 1.0), ("a", 25.0), ("b", 12.0), ("a", 3.0), ("b", 40.0), ("a", 33.0)]
WANTED = ["a 0 [5.0, 0.0]", "a 20 [25.0, 3.0]", "b 0 [1.0]", "b 10 [12.0]"]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_measure_that_goes_back_stops_no_job(restarted, tmp_path):
    plain, told = Km(), []
    for seconds, row in enumerate(ROWS):
        with event_time(seconds * SECOND):
            plain.drive(*row)
        told += [line for one in fire_timers(plain, moment_of(seconds * SECOND)) for line in one.reply]
    compiled, lines = compile_program(Km), []
    simulated = Simulated(compiled, tmp_path, 2, key_groups=8, event_time={"drive": FeedTime()})
    for seconds, row in enumerate(ROWS):
        if restarted:
            simulated = Simulated(compiled, tmp_path, 2, key_groups=8, event_time={"drive": FeedTime()})
        with epoch_time(seconds * SECOND):
            simulated.epoch([("drive", row)], [seconds * SECOND])
        lines += [line for one in simulated.sinks["per10"].rows() for line in one["reply"]] if restarted else []
    lines = lines or [line for one in simulated.sinks["per10"].rows() for line in one["reply"]]
    assert sorted(set(told)) == sorted(set(lines)) == WANTED
    core = {}
    for car, km in ROWS:
        windows = core.setdefault(car, w.SharedWindows(w.collect(), {"": w.measured(float, 10)}))
        core.setdefault("told", []).extend(f"{car} {one.bounds[0]} {one.value}" for one in windows.add(km))
    assert sorted(core["told"]) == WANTED


def test_a_row_without_a_measure_is_refused_by_its_own_name():
    with event_time(SECOND), pytest.raises(MillpondError, match="MP609"):
        Km().drive("a", math.nan)


def test_a_bad_row_goes_where_the_feed_says_and_the_job_goes_on(tmp_path):
    rows = [("a", 5.0), ("a", math.nan), ("a", math.inf), ("a", 12.0)]
    compiled, letters, lines = compile_program(Km), 0, []
    for seconds, row in enumerate(rows):
        simulated = Simulated(
            compiled, tmp_path, key_groups=8, event_time={"drive": FeedTime()}, bad_rows=BadRows.DEAD_LETTER
        )
        with epoch_time(seconds * SECOND):
            simulated.epoch([("drive", row)], [seconds * SECOND])
        letters += len(simulated.dead_letters["drive"].rows())
        lines += [line for one in simulated.sinks["per10"].rows() for line in one["reply"]]
    assert letters == 2
    assert lines == ["a 0 [5.0]"]


class Shares(Program):
    """Windows that hold the same rows, as lists and as records."""

    @entry
    def put(self, key: str, v: int) -> None:
        self.told.add(key, v=v, parts=[v])

    @on_window(
        {name: w.sliding(timedelta(seconds=10), timedelta(seconds=5)) for name in "abc"},
        all=w.collect("v"),
        first=w.first_of("parts"),
        whole=w.last_of(),
    )
    def told(self, key: str, closed: list[ClosedWindow]) -> str:
        closed[0]["all"].append(99)
        closed[0]["first"].append(99)
        closed[0]["whole"]["parts"].append(99)
        return repr([[one.name, one["all"], one["first"], one["whole"]] for one in closed])


def test_each_window_has_its_own_value():
    shares = Shares()
    with event_time(6 * SECOND):
        shares.put("k", 1)
    changed, same = [[1, 99], [1, 99], {"v": 1, "parts": [1, 99]}], [[1], [1], {"v": 1, "parts": [1]}]
    for until in (10 * SECOND, LAST_US):
        (one,) = fire_timers(shares, moment_of(until))
        assert one.reply == repr([["a", *changed], ["b", *same], ["c", *same]])


def test_results_of_the_core_are_not_shared():
    windows = w.SharedWindows(w.collect(), {"a": w.tumbling("10 us"), "b": w.tumbling("10 us")})
    windows.add(1, 1)
    one, other = windows.advance(10)
    one.value.append(99)
    assert other.value == [1]
