"""The ends of the calendar and of 64 bits: what lies there is placed as it should be, or refused with a code."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from millpond import Program, entry, on_window
from millpond import windowing as w
from millpond.engine.time.eventtime import FIRST_US, LAST_US
from millpond.errors import MillpondError, WindowError
from millpond.program.semantics.epoch_time import us_of
from millpond.testing import event_time, fire_timers
from millpond.windowing import ClosedWindow
from millpond.windowing.columns.vectorised import ColumnWindows
from millpond.windowing.kinds.kinds import FIRST_TIME, LAST_TIME

DAY = timedelta(days=1) // timedelta(microseconds=1)
HOUR = timedelta(hours=1)


def at(*parts):
    return datetime(*parts, tzinfo=UTC)


def test_programs_have_the_times_that_a_datetime_can_tell():
    assert (FIRST_TIME, LAST_TIME) == (FIRST_US, LAST_US)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("make", [w.days, w.weeks, w.months])
@pytest.mark.parametrize("time", [us_of(at(9999, 12, 31, 12)), us_of(at(1, 1, 1, 12)), 2**61, -(2**61)])
def test_units_of_the_calendar_follow_each_other_beyond_its_ends(make, zone, time):
    grid = make(zone).grid
    number = grid.newest(time)
    assert grid.begin(number) <= time < grid.end(number) == grid.begin(number + 1)
    assert grid.oldest(time) == number
    assert 0 < grid.end(number) - grid.begin(number) <= 32 * DAY


def test_the_days_months_and_weeks_of_the_last_years_are_those_of_400_years_before():
    cycle = (date(9600, 1, 1) - date(9200, 1, 1)).days * DAY
    for make in (w.days, w.weeks, w.months):
        grid = make("Europe/Berlin").grid
        for day in range(0, 800, 5):
            time = us_of(at(9598, 6, 1)) + day * DAY
            early, late = grid.newest(time), grid.newest(time + cycle)
            assert (grid.begin(late), grid.end(late)) == (grid.begin(early) + cycle, grid.end(early) + cycle)


def told_days(window, times):
    columns = ColumnWindows(window, {"n": w.count()})
    columns.add([0] * len(times), times, {})
    closed = columns.close(2**62)
    by_columns = list(zip(closed.begins.tolist(), closed.ends.tolist(), closed.values["n"].tolist(), strict=True))
    records = w.SharedWindows(w.several(n=w.count(), first=w.first_of()), {"d": window})
    results = [one for time in times for one in records.add(time, time)] + records.advance(2**62)
    assert by_columns == [(*one.bounds, one.value["n"]) for one in results]
    return by_columns


def test_days_at_both_ends_of_the_calendar_are_told_once_as_what_they_are():
    times = [us_of(at(1, 1, 1)), us_of(at(1, 1, 2)), us_of(at(1970, 1, 1)), us_of(at(9999, 12, 31, 5))]
    told = told_days(w.days("UTC"), times)
    assert told == [(time // DAY * DAY, time // DAY * DAY + DAY, 1) for time in times]


@pytest.mark.parametrize("make", [w.days, w.weeks, w.months])
def test_columns_take_times_that_are_ages_apart(make):
    told = told_days(make("Europe/Berlin"), [-(2**62), 0, 2**61])
    assert [n for *_, n in told] == [1, 1, 1]
    assert all(begin <= time < end for (begin, end, _), time in zip(told, [-(2**62), 0, 2**61], strict=True))


def told_by(windows, aggregates, moments):
    class Ends(Program):
        @entry
        def put(self, key: str, v: int) -> None:
            self.told.add(key, v=v)

        @on_window(windows, **aggregates)
        def told(self, key: str, closed: list[ClosedWindow]) -> list[str]:
            return [f"{one.begin} {one.end}" for one in closed]

    program = Ends()
    for moment in moments:
        with event_time(moment):
            program.put("a", 1)
    found = fire_timers(program, datetime.max.replace(tzinfo=UTC))
    assert "a" not in program.told
    return [line for one in found for line in one.reply]


BOTH = pytest.mark.parametrize("aggregates", [{"n": w.count()}, {"n": w.first_of("v")}], ids=["slices", "rows"])


@BOTH
@pytest.mark.parametrize(
    ("windows", "moment"),
    [
        (w.tumbling(HOUR), at(9999, 12, 31, 23, 30)),
        (w.session(HOUR), at(9999, 12, 31, 23, 30)),
        (w.sliding(2 * HOUR, HOUR), at(1, 1, 1, 0, 30)),
        (w.days("Europe/Berlin"), at(9999, 12, 31, 23)),
        (w.days("Europe/Berlin"), at(1, 1, 1)),
        (w.months("UTC"), at(9999, 12, 1)),
        ({"hour": w.tumbling(HOUR), "day": w.days("UTC")}, at(9999, 12, 31, 12)),
    ],
)
def test_a_row_in_a_window_that_no_moment_can_tell_is_refused(windows, aggregates, moment):
    with pytest.raises(MillpondError, match="MP609"):
        told_by(windows, aggregates, [moment])


@pytest.mark.parametrize("window", [w.landmark(lambda _: True, length=HOUR), w.varying(lambda _: (HOUR, HOUR))])
def test_so_is_one_whose_window_follows_from_a_function(window):
    with pytest.raises(MillpondError, match="MP609"):
        told_by(window, {"n": w.count()}, [at(9999, 12, 31, 23, 30)])


@BOTH
def test_the_last_windows_that_can_be_told_are(aggregates):
    assert told_by(w.tumbling(HOUR), aggregates, [at(1, 1, 1), at(9999, 12, 31, 22, 59)]) == [
        "0001-01-01 00:00:00+00:00 0001-01-01 01:00:00+00:00",
        "9999-12-31 22:00:00+00:00 9999-12-31 23:00:00+00:00",
    ]
    assert told_by(w.days("UTC"), aggregates, [at(1, 1, 1), at(9999, 12, 30, 5)]) == [
        "0001-01-01 00:00:00+00:00 0001-01-02 00:00:00+00:00",
        "9999-12-30 00:00:00+00:00 9999-12-31 00:00:00+00:00",
    ]
    assert told_by(w.days("Europe/Berlin"), aggregates, [at(9999, 12, 31, 22, 59)]) == [
        "9999-12-30 23:00:00+00:00 9999-12-31 23:00:00+00:00",
    ]


class Echo(Program):
    """A handler adds to windows when event time has ended: that is no error, and nothing is told of it."""

    @entry
    def put(self, key: str, v: int) -> None:
        self.told.add(key, v=v)

    @on_window({"day": w.days("Europe/Berlin"), "visit": w.session(HOUR)}, n=w.count())
    def told(self, key: str, closed: list[ClosedWindow]) -> int:
        self.told.add(key, v=1)
        return len(closed)


def test_what_a_handler_adds_at_the_end_of_time_is_not_told():
    echo = Echo()
    with event_time(at(2024, 1, 1)):
        echo.put("a", 1)
    end = datetime.max.replace(tzinfo=UTC)
    assert [one.reply for one in fire_timers(echo, end)] == [1, 1]
    assert fire_timers(echo, end) == []
    with event_time(end - HOUR / 2), pytest.raises(MillpondError, match="MP609"):
        echo.put("a", 1)


@pytest.mark.parametrize("time", [2**62, 2**61 + 7, -(2**62), -(2**61)])
def test_times_whose_windows_have_too_large_numbers_are_refused(time):
    windows = ColumnWindows(w.tumbling("1 us"), {"n": w.count()})
    with pytest.raises(WindowError, match="MP628"):
        windows.add([0], [time], {})
    assert windows.live == 0


def test_the_last_numbers_are_told():
    windows = ColumnWindows(w.tumbling("1 us"), {"n": w.count()})
    windows.add([0, 0], [2**61 - 1, 2 - 2**61], {})
    assert windows.close(2**62).begins.tolist() == [2 - 2**61, 2**61 - 1]


def run(window, records):
    windows = w.SharedWindows(w.count(), {"m": window}, check=True)
    return [(one.bounds, one.value) for record in records for one in windows.add(record)]


@pytest.mark.parametrize("slide", [0.1, 10, 1e-300])
@pytest.mark.parametrize("point", [1e300, -1e300, float("inf"), float("-inf"), float("nan"), 2**63, None, "7", 1j, [1]])
def test_a_measure_that_windows_cant_be_placed_by_is_refused(slide, point):
    with pytest.raises(WindowError, match="MP609"):
        run(w.measured(lambda record: record, slide), [point])


def test_floats_that_are_coarser_than_the_slide_are_refused():
    assert run(w.measured(float, 0.5), [1e14, 1e14 + 1]) == [((1e14, 1e14 + 0.5), 1)]
    with pytest.raises(WindowError, match="MP609"):
        run(w.measured(float, 0.1), [1e17])


def test_a_record_whose_measure_goes_back_counts_at_the_highest_so_far():
    told = run(w.measured(float, 10), [5.0, 12.0, 3.0, -1.0, 13.0, 25.0, 0.0, 41.0])
    assert told == [((0, 10), 1), ((10, 20), 4), ((20, 30), 2)]
