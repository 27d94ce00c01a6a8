"""Windows over columns equal brute force: many keys, any order of rows, any batches, late rows told."""

from __future__ import annotations

import math
import statistics

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
from tests.property.windows_oracle import DAY, periodic
from tests.property.windows_oracle import session as brute_session
from tests.sizes import some_of

AGGREGATES = {
    "sum": w.sum_of("v"),
    "floats": w.sum_of("f"),
    "n": w.count(),
    "mean": w.mean_of("f"),
    "variance": w.variance_of("f"),
    "sample": w.variance_of("v", sample=True),
    "min": w.min_of("f"),
    "max": w.max_of("v"),
    "first": w.first_of("s"),
    "last": w.last_of("s"),
    "argmin": w.argmin("v", "s"),
    "argmax": w.argmax("f", "s"),
}


def evaluate(rows):
    """From rows (time, v, s) in the order of time and arrival, what each aggregate gives."""
    v, s = [row[1] for row in rows], [row[2] for row in rows]
    f = [number / 8 for number in v]
    return {
        "sum": sum(v),
        "floats": sum(f),
        "n": len(v),
        "mean": sum(f) / len(f),
        "variance": statistics.pvariance(f),
        "sample": statistics.variance(map(float, v)) if len(v) > 1 else math.nan,
        "min": min(f),
        "max": max(v),
        "first": s[0],
        "last": s[-1],
        "argmin": min(rows, key=lambda row: row[1])[2],
        "argmax": max(rows, key=lambda row: row[1])[2],
    }


def in_columns(batch):
    v = np.array([row[2] for row in batch], np.int64)
    s = np.array([row[3] for row in batch], object)
    keys, times = (np.array([row[i] for row in batch], np.int64) for i in range(2))
    return keys, times, {"v": v, "f": v / 8, "s": s}


def told(closed):
    values = {name: column.tolist() for name, column in closed.values.items()}
    return [
        (key, begin, end, {name: values[name][i] for name in values})
        for i, (key, begin, end) in enumerate(
            zip(closed.keys.tolist(), closed.begins.tolist(), closed.ends.tolist(), strict=True)
        )
    ]


def assert_alike(got, want):
    assert [each[:3] for each in got] == [each[:3] for each in want]
    for (*_, mine), (*_, other) in zip(got, want, strict=True):
        for name, value in other.items():
            if name in {"variance", "sample"}:
                both_nan = math.isnan(mine[name]) and math.isnan(value)
                assert both_nan or math.isclose(mine[name], value, rel_tol=1e-9, abs_tol=1e-9)
            else:
                assert mine[name] == value, name


ROWS = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-30, 60), st.integers(-20, 20)), max_size=25),
    min_size=1,
    max_size=6,
)
"""Batches of (key, time after the batch's base, value): each batch's base lies somewhat later."""


def number_rows(batches, pace, unit=1):
    count = 0
    numbered = []
    for turn, batch in enumerate(batches):
        rows = []
        for key, time, value in batch:
            rows.append((key, (time + turn * pace) * unit, value, f"row{count}"))
            count += 1
        numbered.append(rows)
    return numbered


def brute(find, batches, watermarks):
    """Per watermark: the windows that close and the late rows, from the rows that have come by then."""
    rows, story, before = [], [], None
    for batch, watermark in zip(batches, watermarks, strict=True):
        late = []
        for place, row in enumerate(batch):
            ends = [bounds[1] for bounds, _ in find([row[1]])]
            if before is not None and ends and max(ends) <= before:
                late.append((place, before - row[1]))
            elif ends:
                rows.append(row)
        closed = []
        for key in sorted({row[0] for row in rows}):
            mine = sorted((row[1:] for row in rows if row[0] == key), key=lambda row: row[0])
            for bounds, inside in find([row[0] for row in mine]):
                if bounds[1] <= watermark and (before is None or bounds[1] > before):
                    closed.append((key, *bounds, evaluate([mine[i] for i in inside])))
        story.append((closed, late))
        before = watermark
    return story


def moved_through(state, keys_of_parts):
    """An exported state, split by key as rescaling does, and put together again."""
    arrays = state["arrays"]
    masks = [np.isin(arrays["keys"], keys) for keys in keys_of_parts]
    parts = [{name: column[mask] for name, column in arrays.items()} for mask in masks]
    order = np.argsort(np.concatenate([part["keys"] for part in parts]), kind="stable")
    return {**state, "arrays": {name: np.concatenate([part[name] for part in parts])[order] for name in arrays}}


@settings(max_examples=some_of(60), deadline=None)
@given(
    ROWS,
    st.integers(1, 25),
    st.integers(1, 25),
    st.integers(0, 40),
    st.integers(0, 40),
    st.sets(st.integers(0, 5)),
    st.sampled_from([0, 2, 10**6]),
)
def test_sliding_windows_equal_brute_force(batches, range_, slide, pace, lag, restored, narrow):
    batches = number_rows(batches, pace)
    watermarks = [turn * pace + 30 - lag for turn in range(len(batches))]
    make = lambda: ColumnWindows(w.sliding(us(range_), us(slide)), AGGREGATES)  # noqa: E731
    windows = make()
    wanted = brute(lambda times: periodic(times, range_, slide), batches, watermarks)
    known, vectorised.NARROW = vectorised.NARROW, narrow
    try:
        for turn, (closed, late) in enumerate(wanted):
            if turn in restored:
                state = moved_through(windows.export(), [[0, 2], [1, 3]])
                windows = make()
                windows.restore(state)
            got = windows.add(*in_columns(batches[turn]))
            assert list(zip(got.rows.tolist(), got.late_by.tolist(), strict=True)) == late
            assert_alike(told(windows.close(watermarks[turn])), closed)
    finally:
        vectorised.NARROW = known


@settings(max_examples=some_of(60), deadline=None)
@given(
    ROWS,
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]),
    st.integers(0, 2**14),
)
def test_calendar_windows_equal_brute_force(batches, every, times_every, zone, day):
    window = w.days(zone, span=every * times_every, every=every)
    grid = window.grid
    base = day * DAY
    batches = [[(k, t + base, v, s) for k, t, v, s in batch] for batch in number_rows(batches, 20, DAY // 5)]
    watermarks = [base + (turn * 20 + 25) * DAY // 5 for turn in range(len(batches))]

    def find(times):
        numbers = range(grid.oldest(min(times)), grid.newest(max(times)) + 1)
        bounds = [(grid.begin(number), grid.end(number)) for number in numbers]
        found = [((a, b), [i for i, time in enumerate(times) if a <= time < b]) for a, b in bounds]
        return [(each, inside) for each, inside in found if inside]

    windows = ColumnWindows(window, AGGREGATES)
    for batch, watermark, (closed, late) in zip(batches, watermarks, brute(find, batches, watermarks), strict=True):
        got = windows.add(*in_columns(batch))
        assert list(zip(got.rows.tolist(), got.late_by.tolist(), strict=True)) == late
        assert_alike(told(windows.close(watermark)), closed)


def brute_sessions(gap, batches, watermarks):
    """Rows that belong to open sessions, by key; a session closes for good."""
    held, story, before = [], [], None
    for batch, watermark in zip(batches, watermarks, strict=True):
        late, closed = [], []
        candidates = [(row, None) for row in held] + [(row, place) for place, row in enumerate(batch)]
        keep = []
        for key in sorted({row[0] for row, _ in candidates}):
            mine = sorted((each for each in candidates if each[0][0] == key), key=lambda each: each[0][1])
            for bounds, inside in brute_session(gap).find([row[1] for row, _ in mine], None, 10**9):
                run = [mine[i] for i in inside]
                if before is not None and bounds[1] <= before and all(place is not None for _, place in run):
                    late += [(place, before - row[1]) for row, place in run]
                elif bounds[1] <= watermark:
                    closed.append((key, *bounds, evaluate([row[1:] for row, _ in run])))
                else:
                    keep += [row for row, _ in run]
        # Rows of one time stay in the order of their arrival.
        held = sorted(keep, key=lambda row: int(row[3][3:]))
        story.append((closed, sorted(late)))
        before = watermark
    return story


@settings(max_examples=some_of(70), deadline=None)
@given(ROWS, st.integers(1, 25), st.integers(0, 40), st.integers(0, 40), st.sets(st.integers(0, 5)))
def test_sessions_equal_brute_force(batches, gap, pace, lag, restored):
    batches = number_rows(batches, pace)
    watermarks = [turn * pace + 30 - lag for turn in range(len(batches))]
    sessions = ColumnSessions(w.session(us(gap)), AGGREGATES)
    for turn, (closed, late) in enumerate(brute_sessions(gap, batches, watermarks)):
        if turn in restored:
            state = moved_through(sessions.export(), [[0, 2], [1, 3]])
            sessions = ColumnSessions(w.session(us(gap)), AGGREGATES)
            sessions.restore(state)
        got = sessions.add(*in_columns(batches[turn]))
        assert list(zip(got.rows.tolist(), got.late_by.tolist(), strict=True)) == late
        assert_alike(told(sessions.close(watermarks[turn])), closed)


@settings(max_examples=some_of(60), deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32), st.integers(2, 9))
def test_batches_and_watermarks_leave_no_trace_in_floats(range_, slide, seed, pieces):
    """Arbitrary floats, one batch or many, windows closed at once or step by step: the same bits."""
    rng = np.random.default_rng(seed)
    size = 120
    times = np.sort(rng.integers(0, 100, size)) + rng.integers(0, 3, size)
    keys, values = rng.integers(0, 3, size), rng.normal(size=size) * 10.0 ** rng.integers(-9, 9, size)
    aggregates = {"sum": w.sum_of("f"), "mean": w.mean_of("f"), "variance": w.variance_of("f")}

    def run(cuts, last):
        windows, parts = ColumnWindows(w.sliding(us(range_), us(slide)), aggregates), []
        for low, high in zip([0, *cuts], [*cuts, size], strict=True):
            windows.add(keys[low:high], times[low:high], {"f": values[low:high]})
            if high < size and not last:
                parts += told(windows.close(int(times[high:].min())))
        return sorted((*each[:3], sorted(each[3].items())) for each in parts + told(windows.close(10**6)))

    cuts = np.sort(rng.choice(np.arange(1, size), pieces - 1, replace=False)).tolist()
    whole = run([], last=True)
    assert whole == run(cuts, last=True)
    assert whole == run(cuts, last=False)
    bound = [float(np.abs(values[(keys == k) & (times >= b) & (times < e)]).sum()) for k, b, e, _ in whole]
    exact = [math.fsum(values[(keys == k) & (times >= b) & (times < e)].tolist()) for k, b, e, _ in whole]
    for (*_, got), limit, true in zip(whole, bound, exact, strict=True):
        assert abs(dict(got)["sum"] - true) <= size * 2.0**-53 * limit


@pytest.mark.parametrize("dense", [True, False])
def test_sparse_codes_of_keys_are_as_good_as_dense_ones(dense, monkeypatch):
    if not dense:
        monkeypatch.setattr(vectorised, "DENSE_CELLS_MIN", 0)
    rng = np.random.default_rng(5)
    keys, times, values = rng.integers(0, 50, 500), rng.integers(0, 1000, 500), rng.integers(0, 9, 500)
    results = []
    for factor in (1, 1_000, 2**61 // 64):
        windows = ColumnWindows(w.sliding("100 us", "30 us"), {"n": w.sum_of("v")})
        windows.add(keys * factor, times, {"v": values})
        closed = windows.close(10**7)
        results.append((closed.keys // factor, closed.begins, closed.values["n"]))
    for other in results[1:]:
        assert all(np.array_equal(mine, theirs) for mine, theirs in zip(results[0], other, strict=True))


@pytest.mark.parametrize("time", [-(2**63), 2**63 - 1, 2**62 + 1])
def test_times_whose_windows_would_not_fit_64_bits_are_refused(time):
    windows = ColumnWindows(w.sliding("20 us", "10 us"), {"total": w.sum_of("v")})
    with pytest.raises(WindowError, match="MP628"):
        windows.add([0], [time], {"v": [1]})
    assert windows.live == 0


def test_nan_is_the_largest_and_the_smallest_without_a_warning():
    windows = ColumnWindows(w.tumbling("10 us"), {"low": w.min_of("v"), "high": w.max_of("v")})
    windows.add([0, 0, 0], [1, 2, 3], {"v": [1.0, float("nan"), 2.0]})
    closed = windows.close(10)
    assert np.isnan(closed.values["low"]).all()
    assert np.isnan(closed.values["high"]).all()
