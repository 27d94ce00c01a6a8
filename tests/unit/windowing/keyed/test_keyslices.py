"""What telling the windows of a key costs, and that blocks find the windows that have rows."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from millpond.windowing import aggregate, days, sliding, tumbling
from millpond.windowing.keyed.keyslices import KeySlices, spots_over
from millpond.windowing.kinds.grids import Regular
from millpond.windowing.kinds.periodic import TIME, Periodic
from tests.lengths import us

CALLS = [0]


@dataclass(frozen=True, slots=True)
class Asked(Regular):
    """A grid that counts how often it is asked."""

    def begin(self, number):
        CALLS[0] += 1
        return Regular.begin(self, number)


def counting():
    calls = []

    def combine(left, right):
        calls.append(1)
        return left + right

    made = aggregate(lift=lambda value: (value,), combine=combine, lower=list, identity=(), commutative=True)
    return made, calls


def filled(keys, rows, until=None):
    """What a key holds after a row in each of the first slices; windows up to a time are told."""
    held, moment = keys.start(), None
    for row in range(rows):
        held, moment = keys.add(held, row, row, moment)
    if until is not None:
        _, held, moment = keys.close(held, until)
    return held


@pytest.mark.parametrize("overlap", [10, 100, 1000])
def test_windows_that_are_told_together_cost_three_combinations_each_whatever_their_overlap(overlap):
    made, calls = counting()
    keys = KeySlices({"": sliding(us(overlap), "1 us")}, made, 0)
    told, _, _ = keys.close(filled(keys, 3000), 3000)
    assert [one.value for one in told] == [list(range(max(0, end - overlap), end)) for end in range(1, 3001)]
    assert len(calls) < 3 * len(told)


def test_one_window_costs_a_combination_per_slice():
    made, calls = counting()
    keys = KeySlices({"": sliding("700 us", "1 us")}, made, 0)
    held = filled(keys, 1000, until=900)
    calls.clear()
    told, _, _ = keys.close(held, 901)
    assert [one.value for one in told] == [list(range(201, 901))]
    assert len(calls) == 699


def test_a_close_that_tells_little_does_not_look_at_every_slice_that_is_kept():
    made, _ = counting()
    keys = KeySlices({"": Periodic(Asked(10, 1), TIME)}, made, lateness=100_000)
    held = filled(keys, 5000, until=4900)
    held, _ = keys.add(held, 17, "late", None)
    CALLS[0] = 0
    told, _, _ = keys.close(held, 4901)
    assert [one.end for one in told if one.corrected] == list(range(18, 28))
    assert len(told) == 11
    assert CALLS[0] < 400


def test_many_late_rows_are_told_once_for_each_window_that_they_change():
    made, calls = counting()
    keys = KeySlices({"": sliding("500 us", "1 us")}, made, lateness=100_000)
    held = filled(keys, 3000, until=3000)
    for row in range(1000, 2000):
        held, _ = keys.add(held, row, "late", None)
    calls.clear()
    told, _, _ = keys.close(held, 3000)
    assert [one.begin for one in told] == list(range(501, 2000))
    assert all(one.corrected for one in told)
    assert len(calls) < 4 * len(told)


def test_windows_between_rows_are_passed_over():
    grid = tumbling("10 us").grid
    found = spots_over(grid, [0, 3, 10**9, 10**9 + 30], 0, 10**9, 2 * 10**9)
    assert [(one.begin, one.first, one.last) for one in found] == [(0, 0, 2), (10**9, 2, 3), (10**9 + 30, 3, 4)]


def test_windows_with_gaps_between_them_leave_rows_out():
    grid = sliding("2 us", "5 us").grid
    assert [one.number for one in spots_over(grid, [1, 3, 11, 14], 0, 9, 99)] == [0, 2]


def test_days_are_combined_in_blocks_too():
    made, calls = counting()
    keys = KeySlices({"": days("Europe/Berlin", span=28, every=1)}, made, 0)
    held, moment = keys.start(), None
    hour = 3_600_000_000
    for day in range(300):
        held, moment = keys.add(held, day * 24 * hour + hour, day, moment)
    told, _, _ = keys.close(held, 400 * 24 * hour)
    assert [one.value for one in told] == [list(range(max(0, end - 28), min(end, 300))) for end in range(1, 328)]
    assert len(calls) < 3 * len(told)
