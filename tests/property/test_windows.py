"""Shared windows equal brute force: every kind of window, every aggregate, every store, many queries at once."""

from __future__ import annotations

import math
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.baselines import Naive, pairs, pairs_plus, panes, reactive
from millpond import windowing as w
from millpond.state.codec.valuecodec import ValueCodec
from millpond.windowing.stores.stores import CHOICES, PREFIX
from tests.lengths import us
from tests.property.windows_oracle import (
    AGGREGATES,
    DAY,
    bursts,
    by_function,
    calendar,
    counted,
    halved,
    landmarks,
    latest,
    long_landmarks,
    measured,
    metres,
    punctuated,
    same,
    session,
    sliding,
    varying,
)
from tests.sizes import some_of

SMALL = st.integers(1, 12)
CASES = st.one_of(
    st.builds(sliding, SMALL, SMALL),
    st.builds(counted, SMALL, SMALL),
    st.builds(by_function, SMALL, SMALL),
    st.builds(measured, SMALL, SMALL),
    st.builds(session, SMALL),
    st.builds(punctuated),
    st.builds(landmarks),
    st.builds(long_landmarks, SMALL),
    st.builds(varying),
)
KINDS = [
    sliding(7, 3), sliding(3, 7), sliding(6, 2), counted(5, 2), counted(2, 5), by_function(4, 2), measured(9, 4),
    session(3), punctuated(), landmarks(), long_landmarks(6), varying(), bursts(), latest(4, 3), halved(),
]  # fmt: skip
# Equal times, small steps, and gaps in which whole windows pass.
STEPS = st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5, 9, 40]), st.integers(0, 20)), min_size=1)


def make_stream(steps, start=100):
    times, values, now, metres = [], [], start, 0
    for step, value in steps:
        now += step
        metres += value % 4
        times.append(now)
        values.append({"n": value, "m": metres})
    return times, values


def assert_equal(results, case, evaluate, times, values, now):
    want = [(b, evaluate([values[n]["n"] for n in inside])) for b, inside in case.find(times, values, now)]
    assert [bounds for bounds, _ in results] == [bounds for bounds, _ in want], case.name
    assert all(same(got, wanted) for (_, got), (_, wanted) in zip(results, want, strict=True)), (
        case.name,
        results,
        want,
    )


def run(windows, times, values, now=None):
    told = {}
    results = [result for time, value in zip(times, values, strict=True) for result in windows.add(value, time)]
    for result in results + (windows.advance(now) if now is not None else []):
        told.setdefault(result.query, []).append((result.bounds, result.value))
    return told


@pytest.mark.parametrize("store", CHOICES)
@pytest.mark.parametrize("aggregate", AGGREGATES)
@settings(max_examples=some_of(8), deadline=None)
@given(data=st.data())
def test_every_kind_of_window_equals_brute_force(aggregate, store, data):
    computed, evaluate = AGGREGATES[aggregate]
    if store == PREFIX and computed.inverse is None:
        return
    times, values = make_stream(data.draw(STEPS))
    now = times[-1] + data.draw(st.sampled_from([0, 1, 5, 100]))
    windows = w.SharedWindows(computed, {case.name: case.window for case in KINDS}, store=store, check=True)
    told = run(windows, times, values, now)
    for case in KINDS:
        assert_equal(told.get(case.name, []), case, evaluate, times, values, now)


@settings(max_examples=some_of(150), deadline=None)
@given(
    STEPS,
    st.lists(st.tuples(CASES, st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=6),
    st.sampled_from(sorted(AGGREGATES)),
    st.sampled_from(CHOICES),
    st.sets(st.integers(0, 60)),
)
def test_queries_come_and_go_and_states_are_restored(steps, queries, aggregate, store, restored):
    computed, evaluate = AGGREGATES[aggregate]
    store = "auto" if store == PREFIX and computed.inverse is None else store
    codec = ValueCodec(w.exported_type(computed))
    times, values = make_stream(steps)
    size = len(times)
    lives = {}
    for number, (case, begin, part) in enumerate(queries):
        first = int(begin * size)
        lives[f"{number}"] = (case, first, first + int(part * (size - first)) + 1)
    windows = w.SharedWindows(computed, {}, store=store, check=True)
    told = {name: [] for name in lives}
    for position in range(size):
        gone = [name for name, (_, _, last) in lives.items() if last == position]
        new = {name: case.window for name, (case, first, _) in lives.items() if first == position}
        if position in restored:  # At a restart queries that are gone are not given, and new ones are.
            state = codec.decode(codec.encode(windows.export()))
            running = {n: c.window for n, (c, first, last) in lives.items() if first <= position < last}
            windows = w.SharedWindows(computed, running, store=store, check=True)
            windows.restore(state)
        else:
            for name in gone:
                windows.remove_query(name)
            for name, window in new.items():
                windows.add_query(name, window)
        for result in windows.add(values[position], times[position]):
            told[result.query].append((result.bounds, result.value))
    for name, (case, first, last) in lives.items():
        end = min(last, size)
        if first < end:
            shifted = [(bounds, value) for bounds, value in told[name]]
            if case.name in {"punctuation", "landmark"} or case.name.startswith("by_function"):
                shifted = [((b[0] - first, b[1] - first), value) for b, value in shifted]
            # Time does not move on by itself here, so windows of records end with the next one.
            now = None if case.name.startswith("counted") else times[end - 1]
            assert_equal(shifted, case, evaluate, times[first:end], values[first:end], now)


@pytest.mark.parametrize("make", [Naive, pairs, pairs_plus, reactive])
@settings(max_examples=some_of(25), deadline=None)
@given(STEPS, st.lists(CASES, min_size=1, max_size=4), st.sampled_from(["concatenation", "sum", "several"]))
def test_baselines_equal_brute_force(make, steps, cases, aggregate):
    computed, evaluate = AGGREGATES[aggregate]
    times, values = make_stream(steps)
    told = run(make(computed, {str(n): case.window for n, case in enumerate(cases)}), times, values, times[-1] + 3)
    for number, case in enumerate(cases):
        assert_equal(told.get(str(number), []), case, evaluate, times, values, times[-1] + 3)


@settings(max_examples=some_of(60), deadline=None)
@given(STEPS, SMALL, SMALL, st.booleans())
def test_panes_equal_brute_force(steps, range_, slide, timed):
    computed, evaluate = AGGREGATES["concatenation"]
    case = sliding(range_, slide) if timed else counted(range_, slide)
    times, values = make_stream(steps)
    told = run(panes(computed, {"w": case.window}), times, values, times[-1])
    assert_equal(told.get("w", []), case, evaluate, times, values, times[-1])


ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia"]


@settings(max_examples=some_of(100), deadline=None)
@given(
    st.sampled_from(["day", "week", "month"]),
    st.sampled_from(ZONES),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 2**14),
    st.lists(st.integers(0, 3 * DAY), min_size=1, max_size=40),
)
def test_calendar_windows_follow_the_clock_of_their_zone(unit, zone, every, times_every, day, steps):
    case = calendar(unit, zone, every * times_every, every)
    times = [day * DAY]
    for step in steps:
        times.append(times[-1] + step)
    values = [{"n": number, "m": 0} for number in range(len(times))]
    told = run(w.SharedWindows(AGGREGATES["collect"][0], {"w": case.window}, check=True), times, values, times[-1])
    want = [[values[n]["n"] for n in inside] for _, inside in case.find(times, values, times[-1])]
    assert [value for _, value in told.get("w", [])] == want


@settings(max_examples=some_of(60), deadline=None)
@given(STEPS, SMALL, SMALL, st.integers(0, 50))
def test_views_tell_the_last_records(steps, records, every, restart):
    times, values = make_stream(steps)
    windows = w.SharedWindows(AGGREGATES["collect"][0], {"v": w.last_every(records, us(every)), "w": w.session("4 us")})
    codec = ValueCodec(w.exported_type(windows.aggregate))
    told = []
    for position, (time, value) in enumerate(zip(times, values, strict=True)):
        if position == restart:
            state = codec.decode(codec.encode(windows.export()))
            queries = {"v": w.last_every(records, us(every)), "w": w.session("4 us")}
            windows = w.SharedWindows(windows.aggregate, queries)
            windows.restore(state)
        told += [result.value for result in windows.add(value, time) if result.query == "v"]
    want, due = [], None
    for position, time in enumerate(times):
        if due is not None and time >= due:
            want.append([value["n"] for value in values[max(0, position - records) : position]])
        if due is None or time >= due:
            due = (time // every + 1) * every
    assert told == want


@settings(max_examples=some_of(150), deadline=None)
@given(STEPS, SMALL, SMALL, st.integers(-50, 100), st.sampled_from([0, 1, 5, 100]))
def test_a_shape_that_does_not_vary_gives_sliding_windows(steps, wide, slide, start, later):
    times, values = make_stream(steps, start)
    windows = w.SharedWindows(
        w.count(),
        {"varying": w.varying(lambda _: (us(wide), us(slide))), "sliding": w.sliding(us(wide), us(slide))},
        check=True,
    )
    told = run(windows, times, values, times[-1] + later)
    assert told.get("varying", []) == told.get("sliding", [])


@settings(max_examples=some_of(150), deadline=None)
@given(
    st.lists(st.one_of(st.integers(-30, 60), st.floats(-30, 60)), min_size=1), SMALL, SMALL, st.sets(st.integers(0, 60))
)
def test_a_measure_that_goes_back_stands_still(points, wide, slide, restored):
    def told(records):
        windows, results = w.SharedWindows(w.count(), {"m": w.measured(metres, wide, slide)}), []
        for number, record in enumerate(records):
            if number in restored:
                state, windows = windows.export(), w.SharedWindows(w.count(), {"m": w.measured(metres, wide, slide)})
                windows.restore(state)
            results += [(one.bounds, one.value) for one in windows.add({"m": record})]
        return results

    assert told(points) == told(list(accumulate(points, max)))


@settings(max_examples=some_of(40), deadline=None)
@given(st.lists(st.tuples(st.sampled_from((0.1, 1e17, -1e17, -2.5, 3.7)), st.booleans()), min_size=20, max_size=60))
def test_views_that_are_restored_go_on_to_the_last_bit(steps):
    aggregate = w.sum_of(lambda record: record)
    queries = {"view": w.viewed(lambda _state, _moment, held: (max(held - 7, 0), True, None))}
    through, restored = w.SharedWindows(aggregate, queries), w.SharedWindows(aggregate, queries)
    for time, (value, restart) in enumerate(steps):
        if restart:
            state, restored = restored.export(), w.SharedWindows(aggregate, queries)
            restored.restore(state)
        assert repr(restored.add(value, time)) == repr(through.add(value, time))


CALM = st.one_of(st.builds(sliding, SMALL, SMALL), st.builds(counted, SMALL, SMALL), st.builds(session, SMALL))
FLOATS = (0.1, -0.0, 1e17, 0, math.nan, -2.5)
"""Zero is the identity of sums, and none of the others may be taken for it."""


@pytest.mark.parametrize("viewed", [False, True])
def test_records_taken_at_once_leave_the_state_that_they_leave_one_by_one(viewed, monkeypatch):
    at_once = []
    fold_all = w.SharedWindows._fold_all
    monkeypatch.setattr(
        w.SharedWindows, "_fold_all", lambda self, records: (at_once.append(len(records)), fold_all(self, records))
    )

    def number(record):
        return FLOATS[record["n"] % len(FLOATS)]

    alone = w.sum_of(number)
    together = w.several(total=alone, many=w.count(), first=w.first_of(number), all=w.collect(number))

    @settings(max_examples=some_of(500), deadline=None)
    @given(
        STEPS,
        st.one_of(st.lists(CASES, min_size=1, max_size=4), st.lists(CALM, min_size=1, max_size=3)),
        st.sampled_from((alone, together)),
        st.sets(st.integers(0, 60)),
    )
    def check(steps, cases, aggregate, cuts):
        times, values = make_stream(steps)
        queries = {f"{number}": case.window for number, case in enumerate(cases)}
        if viewed:
            queries["view"] = w.viewed(lambda _state, _moment, held: (max(held - 3, 0), True, None))
        one_by_one, runs = w.SharedWindows(aggregate, queries), w.SharedWindows(aggregate, queries)
        rows = list(zip(times, values, strict=True))
        bounds = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
        for low, high in pairwise(bounds):
            results = [one for time, value in rows[low:high] for one in one_by_one.add(value, time)]
            assert repr(runs.add_all(rows[low:high])) == repr(results)
            assert repr(runs.export()) == repr(one_by_one.export())
            assert repr(runs.advance(times[high - 1])) == repr(one_by_one.advance(times[high - 1]))
            state, runs = runs.export(), w.SharedWindows(aggregate, queries)
            runs.restore(state)
            assert repr(runs.export()) == repr(one_by_one.export())

    check()
    assert (sum(at_once) > some_of(100)) == (not viewed)
