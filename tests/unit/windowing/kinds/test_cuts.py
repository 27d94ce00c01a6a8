"""Slices that are looked up are those that the windows cut, in whatever order times are asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.windowing import days
from millpond.windowing.kinds import cuts
from millpond.windowing.kinds.grids import Regular

GRIDS = st.builds(Regular, st.integers(1, 12), st.integers(1, 12), st.integers(-5, 5))
TIMES = st.lists(st.integers(-60, 60), min_size=1, max_size=60)


@pytest.mark.parametrize("remembered", [1, 3, 1024])
def test_a_slice_lies_between_two_points_at_which_windows_begin_or_end(monkeypatch, remembered):
    monkeypatch.setattr(cuts, "SLICES_MAX", remembered)

    @given(st.lists(GRIDS, min_size=1, max_size=3), st.lists(st.none() | st.integers(-20, 20), min_size=3), TIMES)
    def check(grids, firsts, times):
        named = {str(place): grid for place, grid in enumerate(grids)}
        first = {str(place): number for place, number in enumerate(firsts) if number is not None}
        known = cuts.Cuts(named, first)
        bounds = {name: [(grid.begin(n), grid.end(n), n) for n in range(-160, 160)] for name, grid in named.items()}
        points = sorted({point for own in bounds.values() for begin, end, _ in own for point in (begin, end)})
        for time in times:
            ends = [
                end
                for name, own in bounds.items()
                for begin, end, number in own
                if begin <= time < end and number >= first.get(name, number)
            ]
            assert known.place(time) == (max(one for one in points if one <= time), min(ends, default=None))

    check()


def test_days_are_looked_up_across_a_change_of_clocks():
    hour = 3_600_000_000
    spring = 1_711_839_600 * 1_000_000  # Midnight in Berlin; this day has 23 hours.
    known = cuts.Cuts({"day": days("Europe/Berlin").grid}, {})
    found = [known.place(spring + after) for after in (0, 23 * hour - 1, 23 * hour, -1)]
    assert found[0] == found[1] == (spring, spring + 23 * hour)
    assert found[2] == (spring + 23 * hour, spring + 47 * hour)
    assert found[3] == (spring - 24 * hour, spring)


DAYS = st.builds(days, st.just("Europe/Berlin"), span=st.sampled_from((2, 6)), every=st.sampled_from((1, 2)))


@given(
    st.lists(st.one_of(GRIDS, DAYS.map(lambda window: window.grid)), min_size=1, max_size=3),
    st.lists(st.none() | st.integers(-20, 20), min_size=3),
    st.lists(st.one_of(st.integers(-60, 60), st.integers(1 - cuts.FAR_US, cuts.FAR_US - 1)), min_size=1, max_size=30),
)
def test_whole_columns_are_cut_as_times_one_by_one(grids, firsts, times):
    named = {str(place): grid for place, grid in enumerate(grids)}
    first = {str(place): number for place, number in enumerate(firsts) if number is not None}
    known = cuts.Cuts(named, first)
    begins, ends = known.columns(np.array(times, np.int64))
    found = zip(begins.tolist(), [None if end == cuts.NEVER_US else end for end in ends.tolist()], strict=True)
    assert list(found) == [known.place(time) for time in times]


@pytest.mark.parametrize("times", [[], [2**54], [2**55], [0, -(2**54)], [0, -(2**63)], [2**63 - 1]])
def test_columns_of_times_that_are_far_off_are_not_cut(times):
    assert cuts.Cuts({"": Regular(5, 2)}, {}).columns(np.array(times, np.int64)) is None


@pytest.mark.parametrize("grid", [Regular(2**60, 1), Regular(3, 2**60), Regular(3, 2, -(2**60))])
def test_columns_are_not_cut_by_windows_that_are_far_off(grid):
    assert cuts.Cuts({"": grid}, {}).columns(np.array([1], np.int64)) is None
