"""Slices that are looked up are those that the windows cut, in whatever order times are asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.windowing import cuts, days
from millpond.windowing.grids import Regular

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
