"""The examples of the document, and small stories that say what each kind of window means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from millpond import windowing as w
from millpond.windowing.columns.vectorised import ColumnWindows

MINUTE = 60_000_000


def told(windows, records, now=None):
    results = [result for record, time in records for result in windows.add(record, time)]
    return results + (windows.advance(now) if now is not None else [])


def test_windows_of_several_queries_share_slices():
    """4/2 and 5/3 over one stream: what the printed algorithm gets wrong for most windows."""
    windows = w.SharedWindows(w.sum_of(), {"a": w.count_sliding(4, 2), "b": w.count_sliding(5, 3)}, check=True)
    for result in told(windows, [(number, None) for number in range(400)]):
        assert result.value == sum(range(*result.bounds))


def test_time_and_distance_share_slices():
    """10 s every 6 s beside 10 km every 5 km: a begin of either is a record, and cuts for both."""
    records = [({"km": number * 1.5}, number * 2_000_000) for number in range(200)]
    queries = {"time": w.sliding("10 s", "6 s"), "way": w.measured(lambda record: record["km"], 10, 5)}
    for result in told(w.SharedWindows(w.collect("km"), queries, check=True), records):
        begin, end = result.bounds
        points = [(record["km"], time if result.query == "time" else record["km"]) for record, time in records]
        assert result.value == [km for km, point in points if begin <= point < end]


def test_stock_windows_follow_the_price():
    """VWAP over 10 minutes every 5 while the price is above 10, over 5 every 2 below; it falls at minute 25."""
    vwap = w.several(
        money=w.sum_of(lambda trade: trade["price"] * trade["shares"]), shares=w.sum_of(lambda trade: trade["shares"])
    )
    shape = lambda trade: ("10 min", "5 min") if trade["price"] > 10 else ("5 min", "2 min")  # noqa: E731
    trades = [({"price": 12 if minute < 25 else 8, "shares": 1 + minute % 3}, minute * MINUTE) for minute in range(40)]
    results = told(w.SharedWindows(vwap, {"vwap": w.varying(shape)}, check=True), trades, 60 * MINUTE)
    bounds = [(begin // MINUTE, end // MINUTE) for begin, end in (result.bounds for result in results)]
    assert bounds[:5] == [(-5, 5), (0, 10), (5, 15), (10, 20), (15, 25)]
    assert bounds[5:9] == [(20, 30), (25, 30), (27, 32), (29, 34)]
    for (begin, end), result in zip(bounds, results, strict=True):
        inside = [trade for trade, time in trades if begin <= time // MINUTE < end]
        assert result.value["money"] == sum(trade["price"] * trade["shares"] for trade in inside)
        assert result.value["shares"] == sum(trade["shares"] for trade in inside)


def test_the_last_ten_records_every_five_seconds():
    windows = w.SharedWindows(w.collect(), {"v": w.last_every(10, "5 s")})
    results = told(windows, [(number, number * 400_000) for number in range(60)])
    assert results[0].value == list(range(3, 13))
    assert all(len(result.value) == 10 for result in results)


def test_a_punctuation_between_records_ends_a_window():
    windows = w.SharedWindows(w.collect(), {"p": w.punctuation(), "m": w.landmark(lambda record: record == 2)})
    results = told(windows, [(1, None), (2, None)]) + windows.punctuate()
    results += told(windows, [(3, None)]) + windows.punctuate("again")
    assert [(result.query, result.bounds, result.value) for result in results] == [
        ("p", (0, 2), [1, 2]),
        ("m", (1, 2), [2]),
        ("p", (2, 3), [3]),
    ]


def test_days_are_23_and_25_hours_long_where_clocks_change():
    windows = w.SharedWindows(w.count(), {"d": w.days("Europe/Berlin")})
    for month, day, hours in ((3, 29, 23), (10, 25, 25)):
        begin = datetime(2026, month, day, tzinfo=UTC) - timedelta(hours=3)
        start = int(begin.timestamp())
        results = told(windows, [(hour, (start + hour * 3600) * 1_000_000) for hour in range(40)])
        assert hours in [result.value for result in results]
        windows.advance((start + 100 * 3600) * 1_000_000)


@pytest.mark.parametrize(
    ("zone", "year", "month", "day"),
    [("America/St_Johns", 2006, 10, 29), ("Pacific/Apia", 2011, 12, 29), ("America/Toronto", 1919, 3, 31)],
)
def test_days_touch_whatever_clocks_do_at_midnight(zone, year, month, day):
    grid = w.days(zone).grid
    first = grid.newest(int(datetime(year, month, day, tzinfo=UTC).timestamp()) * 1_000_000)
    for number in range(first - 3, first + 4):
        assert grid.end(number) == grid.begin(number + 1) >= grid.begin(number)
    for time in range(grid.begin(first - 1), grid.begin(first + 2), 600_000_000):
        newest = grid.newest(time)
        assert grid.begin(newest) <= time < grid.end(newest)


def test_a_record_between_windows_does_not_stop_a_query():
    windows = w.SharedWindows(w.collect(), {"w": w.sliding("3 us", "7 us")})
    results = told(windows, [(time, time) for time in (0, 12, 13, 15, 20, 26, 29, 30)], 100)
    assert [(result.bounds, result.value) for result in results] == [
        ((0, 3), [0]),
        ((14, 17), [15]),
        ((28, 31), [29, 30]),
    ]


def test_columns_come_from_arrow_and_leave_as_a_table():
    moment = datetime(2026, 1, 1, 12, tzinfo=UTC)
    table = pa.table({"k": [0, 1], "t": pa.array([moment, moment], pa.timestamp("ms", "UTC")), "v": [1.5, 2.5]})
    windows = ColumnWindows(w.days("UTC"), {"total": w.sum_of("v"), "first": w.first_of("v")})
    windows.add(table["k"], table["t"], {"v": table["v"]})
    closed = windows.close(2**60).to_arrow()
    assert closed.column_names == ["key", "window_begin", "window_end", "total", "first"]
    assert closed["window_begin"].to_pylist() == [datetime(2026, 1, 1)] * 2  # noqa: DTZ001 - a timestamp without zone
    assert closed["total"].to_pylist() == [1.5, 2.5]


def test_a_day_without_a_midnight_begins_when_clocks_are_put_forward():
    # In Toronto, half past eleven of 30 March 1919 was followed by half past twelve of the next day.
    grid = w.days("America/Toronto").grid
    forward = int(datetime(1919, 3, 31, 4, 30, tzinfo=UTC).timestamp()) * 1_000_000
    assert grid.begin(grid.newest(forward)) == grid.end(grid.newest(forward - 1)) == forward
