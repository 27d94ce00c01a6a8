"""Results that are corrected equal brute force: rows after their window was told, within a lateness and beyond it."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond import windowing as w
from millpond.errors import WindowError
from millpond.windowing.columns import vectorised
from millpond.windowing.columns.columnsessions import ColumnSessions
from millpond.windowing.columns.vectorised import ColumnWindows
from tests.lengths import us
from tests.property.test_windows_columns import (
    AGGREGATES,
    ROWS,
    assert_alike,
    evaluate,
    in_columns,
    moved_through,
    number_rows,
    told,
)
from tests.property.windows_oracle import DAY, periodic
from tests.property.windows_oracle import session as brute_session
from tests.sizes import some_of

PLAIN = {name: AGGREGATES[name] for name in ("sum", "n", "mean", "min", "max", "first", "last", "argmax")}
"""Those without roundings: whether a correction says anything new must not hang on the last bit."""


def evaluated(rows):
    return {name: value for name, value in evaluate(rows).items() if name in PLAIN}


def alike(closed, story):
    """A close against what brute force tells: (new, which of them are corrected, retracted)."""
    new, corrected, retracted = story
    assert_alike(told(closed), new)
    assert closed.corrected.tolist() == corrected
    assert_alike(told(closed.retracted), retracted)


def brute(find, batches, watermarks, lateness):
    """Per close: what is told, which of it was told before, what is retracted, and the late rows."""
    rows, story, before, store_version = [], [], None, {}
    for batch, watermark in zip(batches, watermarks, strict=True):
        late = []
        for place, row in enumerate(batch):
            ends = [bounds[1] for bounds, _ in find([row[1]])]
            if before is not None and ends and max(ends) <= before - lateness:
                late.append((place, before - row[1]))
            elif ends:
                rows.append((*row, before))
        new, retracted = [], []
        for key in sorted({row[0] for row in rows}):
            mine = sorted((row for row in rows if row[0] == key), key=lambda row: row[1])
            for bounds, inside in find([row[1] for row in mine]):
                if bounds[1] > watermark:
                    continue
                # A row counts in the windows that it was not too late for when it came.
                counted = [mine[i] for i in inside if mine[i][4] is None or bounds[1] > mine[i][4] - lateness]
                if not counted:
                    continue
                value = evaluated([row[1:4] for row in counted])
                known = store_version.get((key, *bounds))
                if known != value:
                    new.append((key, *bounds, value, known is not None))
                    if known is not None:
                        retracted.append((key, *bounds, known))
                    store_version[key, *bounds] = value
        story.append((([each[:4] for each in new], [each[4] for each in new], retracted), late))
        before = watermark
    return story


def through(state):
    """An exported state, split by key and put together again; what is to be corrected goes along whole."""
    return moved_through(state, [[0, 2], [1, 3]])


@settings(max_examples=some_of(50), deadline=None)
@given(
    ROWS,
    st.integers(1, 25),
    st.integers(1, 25),
    st.integers(0, 40),
    st.integers(0, 40),
    st.integers(0, 80),
    st.sets(st.tuples(st.integers(0, 5), st.booleans())),
    st.sampled_from([0, 2, 10**6]),
)
def test_sliding_windows_are_corrected_as_brute_force_does(
    batches, range_, slide, pace, lag, lateness, restored, narrow
):
    batches = number_rows(batches, pace)
    watermarks = [turn * pace + 30 - lag for turn in range(len(batches))]
    make = lambda: ColumnWindows(w.sliding(us(range_), us(slide)), PLAIN, lateness=us(lateness))  # noqa: E731
    windows = make()
    wanted = brute(lambda times: periodic(times, range_, slide), batches, watermarks, lateness)
    known, vectorised.NARROW = vectorised.NARROW, narrow
    try:
        for turn, (story, late) in enumerate(wanted):
            halves = np.array_split(np.arange(len(batches[turn])), 2)
            found = []
            for half, places in enumerate(halves):
                if (turn, bool(half)) in restored:
                    state = through(windows.export())
                    windows = make()
                    windows.restore(state)
                got = windows.add(*in_columns([batches[turn][place] for place in places]))
                found += zip(places[got.rows].tolist(), got.late_by.tolist(), strict=True)
            assert found == late
            closed = windows.close(watermarks[turn])
            if lateness:
                alike(closed, story)
            else:
                assert_alike(told(closed), story[0])
    finally:
        vectorised.NARROW = known


@settings(max_examples=some_of(25), deadline=None)
@given(
    ROWS,
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]),
    st.integers(0, 2**14),
    st.integers(0, 30),
)
def test_calendar_windows_are_corrected_as_brute_force_does(batches, every, times_every, zone, day, late_fifths):
    window = w.days(zone, span=every * times_every, every=every)
    grid, base, lateness = window.grid, day * DAY, 1 + late_fifths * DAY // 5
    batches = [[(k, t + base, v, s) for k, t, v, s in batch] for batch in number_rows(batches, 20, DAY // 5)]
    watermarks = [base + (turn * 20 + 25) * DAY // 5 for turn in range(len(batches))]

    def find(times):
        numbers = range(grid.oldest(min(times)), grid.newest(max(times)) + 1)
        bounds = [(grid.begin(number), grid.end(number)) for number in numbers]
        found = [((a, b), [i for i, time in enumerate(times) if a <= time < b]) for a, b in bounds]
        return [(each, inside) for each, inside in found if inside]

    windows = ColumnWindows(window, PLAIN, lateness=us(lateness))
    for turn, (story, late) in enumerate(brute(find, batches, watermarks, lateness)):
        got = windows.add(*in_columns(batches[turn]))
        assert list(zip(got.rows.tolist(), got.late_by.tolist(), strict=True)) == late
        alike(windows.close(watermarks[turn]), story)


def brute_sessions(gap, batches, watermarks, lateness):
    """All rows of sessions that can still change, regrouped at each close; what was told of a run is kept with it."""
    held, story, before, store_version = [], [], None, []
    for batch, watermark in zip(batches, watermarks, strict=True):
        late, new, retracted = [], [], []
        candidates = [(row, None) for row in held] + [(row, place) for place, row in enumerate(batch)]
        keep, stands = [], []
        for key in sorted({row[0] for row, _ in candidates}):
            mine = sorted((each for each in candidates if each[0][0] == key), key=lambda each: each[0][1])
            for bounds, inside in brute_session(gap).find([row[1] for row, _ in mine], None, 10**9):
                run = [mine[i] for i in inside]
                if before is not None and bounds[1] <= before - lateness and all(place is not None for _, place in run):
                    late += [(place, before - row[1]) for row, place in run]
                    continue
                names = {row[3] for row, _ in run}
                olds = [old for old in store_version if old[4] & names]
                value = evaluated([row[1:] for row, _ in run])
                same = len(olds) == 1 and olds[0][:4] == (key, *bounds, value)
                shown = [old[:4] for old in olds if old[5]]
                if bounds[1] <= watermark:
                    if not (same and shown):
                        new.append((key, *bounds, value, bool(olds)))
                        retracted += shown
                    stands.append((key, *bounds, value, names, True))
                else:
                    # Taken back now, told when it ends.
                    retracted += shown
                    stands += [(*old[:5], False) for old in olds]
                if bounds[1] > watermark - lateness:
                    keep += [row for row, _ in run]
        store_version = stands
        held = sorted(keep, key=lambda row: int(row[3][3:]))
        story.append((([each[:4] for each in new], [each[4] for each in new], sorted(retracted, key=lambda r: r[:3])),
                      sorted(late)))  # fmt: skip
        before = watermark
    return story


@settings(max_examples=some_of(70), deadline=None)
@given(
    ROWS,
    st.integers(1, 25),
    st.integers(0, 40),
    st.integers(0, 40),
    st.integers(1, 80),
    st.sets(st.integers(0, 5)),
    st.booleans(),
)
def test_sessions_are_corrected_as_brute_force_does(batches, gap, pace, lag, lateness, restored, replace):
    batches = number_rows(batches, pace)
    watermarks = [turn * pace + 30 - lag for turn in range(len(batches))]
    corrections = "replace" if replace else "retract"
    make = lambda: ColumnSessions(w.session(us(gap)), PLAIN, lateness=us(lateness), corrections=corrections)  # noqa: E731
    sessions = make()
    for turn, (story, late) in enumerate(brute_sessions(gap, batches, watermarks, lateness)):
        if turn in restored:
            state = through(sessions.export())
            sessions = make()
            sessions.restore(state)
        got = sessions.add(*in_columns(batches[turn]))
        assert list(zip(got.rows.tolist(), got.late_by.tolist(), strict=True)) == late
        if turn in restored:
            state = through(sessions.export())
            sessions = make()
            sessions.restore(state)
        closed = sessions.close(watermarks[turn])
        if replace:
            assert_alike(told(closed), story[0])
            assert closed.corrected.tolist() == story[1]
            assert closed.retracted is None
        else:
            alike(closed, story)


@pytest.mark.parametrize("kind", ["windows", "sessions"])
@settings(max_examples=some_of(20), deadline=None)
@given(ROWS, st.integers(1, 25), st.integers(1, 25), st.integers(0, 40), st.integers(0, 40))
def test_what_stands_in_the_end_is_what_rows_in_order_give(kind, batches, length, slide, pace, lag):
    """With a lateness that nothing exceeds, the changes add up to the results of one batch, in floats too."""
    aggregates = {"sum": w.sum_of("v"), "low": w.min_of("f"), "n": w.count()}

    def make(**options):
        if kind == "windows":
            return ColumnWindows(w.sliding(us(length), us(slide)), aggregates, **options)
        return ColumnSessions(w.session(us(length)), aggregates, **options)

    batches = number_rows(batches, pace)
    corrected, at_once = make(lateness="1 s"), make()
    store_version = {}
    for turn, batch in enumerate(batches):
        corrected.add(*in_columns(batch))
        at_once.add(*in_columns(batch))
        apply(store_version, corrected.close(turn * pace + 30 - lag))
    apply(store_version, corrected.close(10**6))
    wanted = {}
    apply(wanted, at_once.close(10**6))
    assert store_version == wanted


def apply(store_version, closed):
    """Make the changes of a close to a table of results: what is retracted is there as it is told."""
    for change in closed.changes().to_pylist():
        kind = change.pop("change")
        window = (change["key"], change["window_begin"], change["window_end"])
        if kind == "retract":
            assert store_version.pop(window) == change
        else:
            assert window not in store_version
            store_version[window] = change


def test_a_row_of_a_told_window_corrects_it_once():
    windows = ColumnWindows(
        w.tumbling("10 us"), {"n": w.count(), "high": w.max_of("v")}, lateness=timedelta(microseconds=15)
    )
    windows.add([0, 0], [1, 12], {"v": [5, 1]})
    first = windows.close(10)
    assert (first.values["n"].tolist(), first.corrected.tolist(), len(first.retracted)) == ([1], [False], 0)
    windows.add([0], [2], {"v": [3]})
    windows.add([0], [3], {"v": [9]})
    second = windows.close(11)
    assert (second.values["n"].tolist(), second.values["high"].tolist()) == ([3], [9])
    assert (second.corrected.tolist(), second.retracted.values["n"].tolist()) == ([True], [1])
    assert len(windows.close(25)) == 1  # The second window. The first one is final now:
    assert windows.add([0], [4], {"v": [0]}).rows.tolist() == [0]
    assert len(windows.close(40)) == 0


def test_a_correction_that_changes_no_value_is_not_told():
    windows = ColumnWindows(w.tumbling("10 us"), {"high": w.max_of("v")}, lateness="100 us")
    windows.add([0], [1], {"v": [5.0]})
    windows.close(10)
    windows.add([0], [2], {"v": [3.0]})
    closed = windows.close(11)
    assert (len(closed), len(closed.retracted)) == (0, 0)


def test_replaced_results_are_marked_and_not_retracted():
    windows = ColumnWindows(w.tumbling("10 us"), {"n": w.count()}, lateness="100 us", corrections="replace")
    windows.add([0], [1], {})
    windows.close(10)
    windows.add([0, 1], [2, 3], {})
    closed = windows.close(12)
    assert (closed.values["n"].tolist(), closed.corrected.tolist(), closed.retracted) == ([2, 1], [True, False], None)
    assert closed.changes().column("change").to_pylist() == ["correct", "tell"]


def test_a_row_joins_two_sessions_that_were_told():
    sessions = ColumnSessions(w.session("10 us"), {"n": w.count()}, lateness="100 us")
    sessions.add([0, 0], [0, 15], {})
    assert len(sessions.close(40)) == 2
    sessions.add([0], [8], {})
    closed = sessions.close(41)
    assert (closed.begins.tolist(), closed.ends.tolist(), closed.values["n"].tolist()) == ([0], [25], [3])
    assert (closed.retracted.begins.tolist(), closed.retracted.ends.tolist()) == ([0, 15], [10, 25])


def test_a_told_session_that_goes_on_is_taken_back_at_once_and_corrected_when_it_ends():
    sessions = ColumnSessions(w.session("10 us"), {"n": w.count()}, lateness="100 us")
    sessions.add([0], [0], {})
    assert len(sessions.close(12)) == 1
    sessions.add([0], [9], {})
    reopened = sessions.close(13)
    assert (len(reopened), reopened.retracted.ends.tolist()) == (0, [10])
    sessions.add([0], [14], {})
    assert [len(sessions.close(20)), len(sessions.close(20).retracted)] == [0, 0]
    closed = sessions.close(24)
    assert (closed.ends.tolist(), closed.corrected.tolist(), len(closed.retracted)) == ([24], [True], 0)


@pytest.mark.parametrize("lateness", [0, 3, 50])
def test_another_lateness_is_taken_up_by_a_restored_state(lateness):
    """Less lets results be final at once; more does not bring back slices that are gone."""
    for make, begins in (
        (lambda n: ColumnWindows(w.tumbling("10 us"), {"n": w.count()}, lateness=us(n)), [30]),
        (lambda n: ColumnSessions(w.session("10 us"), {"n": w.count()}, lateness=us(n)), [34]),
    ):
        first = make(20)
        first.add([0, 0, 0], [1, 14, 34], {})
        first.close(34)
        then = make(lateness)
        then.restore(first.export())
        late = then.add([0, 0], [2, 15], {})
        assert late.rows.tolist() == ([0, 1] if lateness <= 3 else [0])
        closed = then.close(50)
        corrected = [] if lateness <= 3 else [int(closed.begins[0])]
        assert closed.begins.tolist() == corrected + begins


@pytest.mark.parametrize(
    "options", [{"lateness": "-1 us"}, {"lateness": 1.5}, {"lateness": True}, {"corrections": "both"}]
)
def test_a_lateness_that_makes_no_sense_is_refused(options):
    with pytest.raises(WindowError, match="MP650"):
        ColumnWindows(w.tumbling("10 us"), {"n": w.count()}, **options)
    with pytest.raises(WindowError, match="MP650"):
        ColumnSessions(w.session("10 us"), {"n": w.count()}, **options)
