"""Joins of one key in plain values tell what the batch join tells, whatever the order, and forget what nobody needs."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond import windowing as w
from millpond.errors import WindowError
from millpond.windowing.joins import LEFT, RIGHT, KeyIntervals, KeyWindows, key_windows, nothing_held
from tests.property.joined import HOWS, Spec, batch_join
from tests.sizes import sized, some_of

WINDOWS = (
    w.tumbling("10 us"),
    w.sliding("10 us", "4 us"),
    w.sliding("4 us", "10 us"),
    w.sliding("12 us", "4 us"),
    w.session("5 us"),
)
SPECS = st.builds(
    Spec,
    how=st.sampled_from(list(HOWS)),
    within=st.tuples(st.integers(-15, 15), st.integers(0, 12)).map(lambda pair: (pair[0], sum(pair))),
    window=st.none(),
) | st.builds(Spec, how=st.sampled_from(list(HOWS)), within=st.none(), window=st.sampled_from(WINDOWS))
TURNS = st.lists(
    st.tuples(st.integers(0, 15), st.lists(st.tuples(st.integers(0, 1), st.integers(0, 25)), max_size=8)),
    min_size=1,
    max_size=8,
)
"""How far the watermark goes on, and rows that come before it does: side, time after the last watermark."""


class Key:
    """What a key holds, as a program would keep it."""

    def __init__(self, join):
        self.join = join
        self.held, self.due = nothing_held(join), None
        self.told = []

    def add(self, side, at, number, horizon):
        self.held[side].append((at, self.join.mark(at, max(at, horizon)), number))
        due = self.join.due(at)
        self.due = due if self.due is None else min(due, self.due)

    def reach(self, watermark):
        if self.due is not None and self.due <= watermark:
            told, self.held, self.due = self.join.close(self.held, watermark)
            self.told += told
            assert self.due is None or self.due > watermark
            assert (self.due is None) == (self.size == 0)

    @property
    def size(self):
        return sum(map(len, self.held))

    def counts(self, spec):
        pairs = [(pair.left, pair.right) for pair in self.told]
        bounds = [(pair.begin, pair.end) if spec.within is None else (None, None) for pair in self.told]
        return Counter((*bound, *pair) for bound, pair in zip(bounds, pairs, strict=True))


@settings(max_examples=some_of(300), deadline=None)
@given(SPECS, TURNS, st.sampled_from((0, 0, 6)))
def test_all_rows_that_are_not_late_are_joined_as_in_a_batch(spec, turns, lateness):
    key, rows, watermark = Key(spec.by_key(lateness)), [], 0
    for step, came in turns:
        for side, after in came:
            rows.append((side, 0, watermark - lateness + after, len(rows)))
            key.add(side, rows[-1][2], rows[-1][3], watermark - lateness)
        watermark += step
        key.reach(watermark)
    key.reach(10**9)
    assert key.counts(spec) == batch_join(spec, rows)
    assert key.size == 0


@settings(max_examples=some_of(200), deadline=None)
@given(SPECS, TURNS)
def test_a_late_row_makes_no_pair_that_is_not_one(spec, turns):
    key, rows, watermark, late = Key(spec.by_key()), [], 0, set()
    for step, came in turns:
        for side, after in came:
            rows.append((side, 0, watermark - 12 + after, len(rows)))
            late |= {rows[-1][3]} if after < 12 else set()
            key.add(side, rows[-1][2], rows[-1][3], watermark)
        watermark += step
        key.reach(watermark)
    key.reach(10**9)
    counts, every = key.counts(spec), batch_join(spec, rows)
    assert key.size == 0
    if spec.within is not None:
        pairs = Counter({pair: count for pair, count in counts.items() if None not in pair[2:]})
        assert pairs <= every
        alone = [one for *_, left, right in counts for one in (left, right) if None in (left, right)]
        assert not late.intersection(alone), "nobody knows whether it is alone"
        paired = {one for *_, left, right in pairs for one in (left, right)}
        assert not paired.intersection(alone)
    else:
        assert max(counts.values(), default=1) == 1


@pytest.mark.parametrize(
    "spec", [Spec("full", (-5, 5)), Spec("inner", (0, 9)), *(Spec("full", None, w) for w in WINDOWS)]
)
def test_a_key_holds_no_more_than_rows_that_may_find_a_partner(spec):
    key, most, rows = Key(spec.by_key()), 0, sized(3000, 600)
    for at in range(0, rows, 3):
        key.add(LEFT, at, at, at)
        key.add(RIGHT, at + 1, at + 1, at)
        key.reach(at)
        most = max(most, key.size)
    held = rows if isinstance(spec.window, type(w.session("5 us"))) else 20
    assert most <= held
    key.reach(10**9)
    assert key.size == 0


def test_a_pair_is_told_when_the_watermark_has_passed_both_rows():
    key = Key(KeyIntervals(0, 100, HOWS["left"]))
    key.add(LEFT, 10, "ad", 0)
    key.add(RIGHT, 20, "click", 0)
    key.reach(20)
    assert key.told == []
    key.reach(21)
    assert [(pair.left, pair.right) for pair in key.told] == [("ad", "click")]
    key.add(LEFT, 30, "other", 21)
    key.reach(130)
    assert len(key.told) == 1
    key.reach(131)
    assert [(pair.left, pair.right) for pair in key.told[1:]] == [("other", None)]


def test_a_row_that_is_late_for_one_of_its_windows_counts_in_the_others():
    key = Key(KeyWindows(w.sliding("10 us", "5 us").grid, HOWS["full"]))
    key.add(LEFT, 6, "in time", 0)
    key.reach(10)
    key.add(RIGHT, 7, "late", 10)
    key.reach(15)
    assert [(pair.begin, pair.left, pair.right) for pair in key.told] == [(0, "in time", None), (5, "in time", "late")]
    key.add(RIGHT, 7, "too late", 15)
    key.reach(30)
    assert len(key.told) == 2


def test_days_of_a_time_zone_are_windows_too():
    day = 86_400_000_000
    key = Key(key_windows(w.days("Europe/Berlin"), HOWS["inner"]))
    key.add(LEFT, 100 * day, 1, 0)
    key.add(RIGHT, 100 * day + day // 2, 2, 0)
    key.reach(200 * day)
    ((left, right, begin, end),) = key.told
    assert (left, right, end - begin) == (1, 2, day)


@pytest.mark.parametrize("window", [w.count_tumbling(3), w.measured(lambda row: row, 3), w.punctuation(bool)])
def test_other_windows_are_refused(window):
    with pytest.raises(WindowError, match="MP651"):
        key_windows(window, HOWS["inner"])


def test_a_late_row_is_in_a_session_that_is_open_or_in_none():
    key = Key(key_windows(w.session("5 us"), HOWS["full"]))
    key.add(LEFT, 10, "first", 0)
    key.add(LEFT, 14, "second", 0)
    key.add(RIGHT, 11, "late", 12)
    key.add(RIGHT, 3, "too late", 12)
    key.reach(12)
    assert key.told == []
    key.reach(19)
    assert [(pair.begin, pair.end, pair.left, pair.right) for pair in key.told] == [
        (10, 19, "first", "late"),
        (10, 19, "second", "late"),
    ]
