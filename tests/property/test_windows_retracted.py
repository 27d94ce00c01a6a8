"""Whoever keeps results by key and window, and does what is told in order, has exactly the right ones at any time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.state.codec.valuecodec import ValueCodec
from millpond.windowing import count, session, several, sliding, sum_of, tumbling
from millpond.windowing.keyed.keyslices import KeySlices
from tests.lengths import us
from tests.property.test_eventtime import many

pytestmark = pytest.mark.slow

GAPS = {"visit": 4, "ride": 9}
SPANS = {"ten": (10, 10), "overlapping": (7, 3)}
WINDOWS = {name: session(us(gap)) for name, gap in GAPS.items()} | {
    name: tumbling(us(wide)) if wide == slide else sliding(us(wide), us(slide)) for name, (wide, slide) in SPANS.items()
}
AGGREGATE = several(total=sum_of("v"), many=count())
KEYS = 2
ROUNDS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, KEYS - 1), st.integers(-15, 8), st.integers(-5, 5)), max_size=12),
        st.integers(0, 6),
    ),
    min_size=2,
    max_size=10,
)


def wanted(rows, until):
    """The results that hold at a time, by window: of each its total and the number of rows."""
    found = {}
    for key in range(KEYS):
        times = sorted((at, v) for one, at, v in rows if one == key)
        for name, gap in GAPS.items():
            runs = []
            for at, v in times:
                if runs and at - runs[-1][-1][0] < gap:
                    runs[-1].append((at, v))
                else:
                    runs.append([(at, v)])
            for run in runs:
                found[key, name, run[0][0], run[-1][0] + gap] = sum(v for _, v in run), len(run)
        for name, (wide, slide) in SPANS.items():
            for begin in {
                begin
                for at, _ in times
                for begin in range(at // slide * slide - wide, at + 1)
                if begin % slide == 0 and begin <= at < begin + wide
            }:
                inside = [v for at, v in times if begin <= at < begin + wide]
                found[key, name, begin, begin + wide] = sum(inside), len(inside)
    return {window: values for window, values in found.items() if window[3] <= until}


class Keyed:
    """Keys whose rows are added one by one or by columns, and a table of what was told of them."""

    def __init__(self, lateness, *, columns):
        self.keys = KeySlices(WINDOWS, AGGREGATE, lateness)
        self.codec = ValueCodec(KeySlices.stored_type(AGGREGATE))
        self.columns = columns
        self.held = dict.fromkeys(range(KEYS), (None, None))
        self.table, self.seen = {}, {"tell": 0, "correct": 0, "retract": 0}

    def add(self, rows):
        started = {key: (at, self.keys.start() if held is None else held) for key, (at, held) in self.held.items()}
        if self.columns and rows:
            places, times, values = (np.array(column, np.int64) for column in zip(*rows, strict=True))
            moments = self.keys.columns.add(list(started.values()), places, times, {"v": values})
            assert moments is not None
            touched = {key for key, *_ in rows}
            pairs = zip(started.items(), moments, strict=True)
            self.held |= {key: (moment, held) for (key, (_, held)), moment in pairs if key in touched}
            return
        for key, at, v in rows:
            moment, held = started[key]
            held, moment = self.keys.add(held, at, {"v": v}, moment)
            started[key] = self.held[key] = moment, held

    def close(self, until):
        for key, (moment, held) in self.held.items():
            if moment is None or moment > until:
                continue
            told, left, following = self.keys.close(self.codec.decode(self.codec.encode(held)), until)
            self.held[key] = following, left
            assert told == sorted(told, key=lambda one: (not one.retracted, one.end))
            for one in told:
                self._apply((key, one.window, one.begin, one.end), one)

    def _apply(self, window, one):
        values = one.value["total"], one.value["many"]
        if one.retracted:
            assert self.table.pop(window) == values
            self.seen["retract"] += 1
            return
        # Only one that was told before, or takes the place of others that were, is corrected.
        assert one.corrected or window not in self.table
        assert one.corrected == (window in self.table) or window[1] in GAPS
        self.seen["correct" if one.corrected else "tell"] += 1
        self.table[window] = values


@pytest.mark.parametrize("columns", [False, True])
def test_a_table_by_key_and_window_holds_what_holds_at_any_time(columns):
    seen = {"tell": 0, "correct": 0, "retract": 0}

    @many(200)
    @given(ROUNDS, st.integers(0, 20))
    def check(rounds, lateness):
        keyed, rows, until, now = Keyed(lateness, columns=columns), [], -1000, 0
        for fresh, step in rounds:
            # As feeds do: what is too late counts at the earliest time that windows are kept for.
            now += 3
            came = [(key, max(now + at, until - lateness), v) for key, at, v in fresh]
            keyed.add(came)
            rows += came
            until = max(until, now + step - 5)
            keyed.close(until)
            assert keyed.table == wanted(rows, until)
        keyed.close(10**6)
        assert keyed.table == wanted(rows, 10**6)
        assert all(held is None for _, held in keyed.held.values())
        for what, number in keyed.seen.items():
            seen[what] += number

    check()
    assert all(number > 50 for number in seen.values()), seen


def test_a_session_that_joins_two_takes_both_back_at_once_and_is_told_when_it_ends():
    keys = KeySlices({"": session("10 us")}, AGGREGATE, 100)
    held, moment = keys.start(), None
    for at in (0, 15):
        held, moment = keys.add(held, at, {"v": at}, moment)
    told, held, moment = keys.close(held, 30)
    assert [(one.begin, one.end, one.corrected, one.retracted) for one in told] == [
        (0, 10, False, False),
        (15, 25, False, False),
    ]
    for at in (8, 24):
        held, moment = keys.add(held, at, {"v": at}, moment)
    assert moment == 10
    told, held, moment = keys.close(held, 31)
    assert [(one.begin, one.end, one.value["total"], one.retracted) for one in told] == [
        (0, 10, 0, True),
        (15, 25, 15, True),
    ]
    assert moment == 34
    told, held, _ = keys.close(held, 34)
    assert [(one.begin, one.end, one.value["total"], one.corrected) for one in told] == [(0, 34, 47, True)]


def test_a_row_inside_a_told_session_corrects_it_and_takes_nothing_back():
    keys = KeySlices({"": session("10 us")}, AGGREGATE, 100)
    held, moment = keys.start(), None
    for at in (0, 5):
        held, moment = keys.add(held, at, {"v": 1}, moment)
    _, held, moment = keys.close(held, 30)
    held, moment = keys.add(held, 3, {"v": 1}, moment)
    told, held, _ = keys.close(held, 30)
    assert [(one.begin, one.end, one.value["many"], one.corrected, one.retracted) for one in told] == [
        (0, 15, 3, True, False)
    ]


def test_what_is_to_be_taken_back_stays_so_when_windows_get_other_names():
    keys = KeySlices({"b": session("10 us"), "a": session("4 us")}, AGGREGATE, 100)
    held, moment = keys.start(), None
    held, moment = keys.add(held, 0, {"v": 1}, moment)
    _, held, moment = keys.close(held, 30)
    held, moment = keys.add(held, 3, {"v": 2}, moment)
    others = KeySlices({"x": session("10 us"), "y": session("4 us")}, several(many=count()), 100)
    held = others.carried(held, {"b": "x", "a": "y"}, lambda whole: whole[1:])
    told, _, _ = others.close(held, 30)
    assert [(one.window, one.begin, one.end, one.value["many"], one.corrected, one.retracted) for one in told] == [
        ("y", 0, 4, 1, False, True),
        ("x", 0, 10, 1, False, True),
        ("y", 0, 7, 2, True, False),
        ("x", 0, 13, 2, True, False),
    ]
