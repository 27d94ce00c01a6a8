"""The examples of windows, sensors and trades, against brute force."""

from __future__ import annotations

import math
from statistics import fmean

import pytest

from examples import sensors, trades

MINUTE, TEN = 60_000_000, 10_000_000


def warnings_by_hand(readings):
    told = []
    for sensor in {reading.sensor for reading in readings}:
        mine = [reading for reading in readings if reading.sensor == sensor]
        first, last = min(r.at for r in mine) // TEN * TEN, max(r.at for r in mine)
        was_hot = False
        for end in range(first + TEN, last + MINUTE + TEN, TEN):
            inside = [reading.celsius for reading in mine if end - MINUTE <= reading.at < end]
            hot = bool(inside) and fmean(inside) > sensors.LIMIT
            if hot and not was_hot:
                told.append((sensor, end))
            was_hot = hot
    return sorted(told)


@pytest.mark.parametrize("batch", [1, 37, 10_000])
def test_a_sensor_is_warned_of_once_while_it_is_hot(batch):
    readings = sensors.make_readings(sensors.SEED, 3_000)
    told = sensors.watched(readings, batch)
    assert [(sensor, at) for sensor, at, _ in told] == warnings_by_hand(readings)
    assert len(told) > 10
    assert all(mean > sensors.LIMIT for *_, mean in told)
    assert readings != sorted(readings, key=lambda reading: reading.at), "rows come out of order"


def test_windows_follow_the_market():
    made = trades.make_trades(trades.SEED, 3_000)
    found = trades.weighted_prices(made)
    for result in found:
        begin, end = result.bounds
        inside = [trade for trade in made if begin <= trade["at"] < end]
        volume = sum(trade["volume"] for trade in inside)
        assert math.isclose(result.value, sum(t["price"] * t["volume"] for t in inside) / volume, rel_tol=1e-12)
    assert {(end - begin) // MINUTE for begin, end in (result.bounds for result in found)} == {5, 10}


def test_the_length_of_a_window_is_that_of_the_trade_it_begins_with():
    made = trades.make_trades(trades.SEED, 3_000)
    for result in trades.weighted_prices(made):
        begin, end = result.bounds
        opens = next(trade for trade in made if trade["at"] >= begin)
        minutes = (end - begin) // MINUTE
        # A narrow one waits for an older one that is wide.
        assert minutes == 10 if trades.shape(opens) == trades.CALM else 5 <= minutes <= 10


def test_averages_and_their_difference_are_those_of_brute_force():
    made = trades.make_trades(trades.SEED, 1_500)
    first, last = made[0]["at"], made[-1]["at"]

    def mean(end, minutes):
        return fmean(trade["price"] for trade in made if end - minutes * MINUTE <= trade["at"] < end)

    ends = range(first // MINUTE * MINUTE + MINUTE, last + 1, MINUTE)
    wanted = [(end, mean(end, trades.FAST) - mean(end, trades.SLOW)) for end in ends]
    found = trades.crossings(made)
    assert [each.at for each in found] == [end for end, _ in wanted][trades.SIGNAL - 1 : -1]
    for number, each in enumerate(found):
        assert math.isclose(each.macd, wanted[number + trades.SIGNAL - 1][1], abs_tol=1e-9)
        assert math.isclose(each.signal, fmean(m for _, m in wanted[number : number + trades.SIGNAL]), abs_tol=1e-9)
    assert len(found) > 20


@pytest.mark.parametrize(("example", "said"), [(sensors, "warnings"), (trades, "crosses its signal")])
def test_the_examples_run(capsys, example, said):
    assert example.main() == 0
    assert said in capsys.readouterr().out
