"""Joins over time equal brute force: every pair of rows that were not late, each told once, and lone left rows."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond import windowing as w
from millpond.errors import WindowError
from millpond.windowing.columns import ordering
from millpond.windowing.joins import IntervalJoin, WindowJoin
from tests.sizes import sized

LEFT, RIGHT = 0, 1

TURNS = st.lists(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(-30, 60)), max_size=16), min_size=1, max_size=6
)
"""Batches of (side, key, time after the batch's base)."""


def number_rows(turns, pace):
    """Rows (side, key, time, number): the number is the arrival over all turns and both sides."""
    count, numbered = 0, []
    for turn, rows in enumerate(turns):
        numbered.append([(side, key, time + turn * pace, count + i) for i, (side, key, time) in enumerate(rows)])
        count += len(rows)
    return numbered


def batch(rows, side):
    mine = [row for row in rows if row[0] == side]
    numbers = np.array([row[3] for row in mine], np.int64)
    texts = pa.array([f"row {row[3]}" if row[3] % 3 else None for row in mine], "string")
    return [row[1] for row in mine], [row[2] for row in mine], {"number": numbers, "text": texts}


def told(found):
    """Pairs as (key, begin, end, left number, right number or None), in the order told."""
    begins = [None] * len(found) if found.begins is None else found.begins.tolist()
    ends = [None] * len(found) if found.ends is None else found.ends.tolist()
    pairs = []
    for i, matched in enumerate(found.matched.tolist()):
        left = int(found.left["number"][i])
        right = int(found.right["number"][i]) if matched else None
        assert found.left["text"][i] == (f"row {left}" if left % 3 else None)
        assert right is None or found.right["text"][i] == (f"row {right}" if right % 3 else None)
        pairs.append((int(found.keys[i]), begins[i], ends[i], left, right))
    return pairs


def moved_through(state):
    """An exported state, split by key and put together again."""
    sides = {}
    for side in ("left", "right"):
        arrays = state[side]["arrays"]
        odd = arrays["keys"] % 2 == 1
        parts = [{name: column[mask] for name, column in arrays.items()} for mask in (odd, ~odd)]
        order = np.argsort(np.concatenate([part["keys"] for part in parts]), kind="stable")
        whole = {name: np.concatenate([part[name] for part in parts])[order] for name in arrays}
        sides[side] = {**state[side], "arrays": whole}
    return {**state, **sides}


def run(make, turns, watermarks, restored):
    """What is told at each turn: pairs, and the numbers of late rows with how late they were."""
    join, story = make(), []
    for turn, (rows, watermark) in enumerate(zip(turns, watermarks, strict=True)):
        if turn in restored:
            state = moved_through(join.export())
            join = make()
            join.restore(state)
        late = join.add(left=batch(rows, LEFT), right=batch(rows, RIGHT))
        missed = []
        for side, found in enumerate(late):
            mine = [row for row in rows if row[0] == side]
            missed += [(mine[i][3], by) for i, by in zip(found.rows.tolist(), found.late_by.tolist(), strict=True)]
        if turn in restored:
            state = moved_through(join.export())
            join = make()
            join.restore(state)
        story.append((told(join.close(watermark)), sorted(missed)))
    return story, join


def by_rows(pairs, rows):
    """Pairs in the order in which they are told: key, window, left time and arrival, right time and arrival."""
    at = {row[3]: row[2] for row in rows}
    return sorted(pairs, key=lambda p: (p[0], p[1] or 0, at[p[3]], p[3], at.get(p[4], 0), -1 if p[4] is None else p[4]))


def brute_interval(low, high, outer, turns, watermarks):
    """At each turn all pairs of rows so far, less those that were told; lone rows when no partner can come."""
    rows, known, before, story = [], set(), None, []
    for batch_, watermark in zip(turns, watermarks, strict=True):
        late = [(row[3], before - row[2]) for row in batch_ if before is not None and row[2] < before]
        rows += [row for row in batch_ if before is None or row[2] >= before]
        pairs = set()
        for left in (row for row in rows if row[0] == LEFT):
            mine = [r for r in rows if r[0] == RIGHT and r[1] == left[1] and low <= r[2] - left[2] <= high]
            pairs |= {(left[1], None, None, left[3], right[3]) for right in mine}
            if outer and not mine and left[2] + high < watermark:
                pairs.add((left[1], None, None, left[3], None))
        story.append((by_rows(pairs - known, rows), sorted(late)))
        known |= pairs
        before = watermark
    return story


@settings(max_examples=sized(60, 12), deadline=None)
@given(
    TURNS,
    st.integers(-20, 20),
    st.integers(0, 25),
    st.booleans(),
    st.integers(0, 40),
    st.integers(0, 40),
    st.sets(st.integers(0, 5)),
)
def test_an_interval_join_equals_brute_force(turns, low, width, outer, pace, lag, restored):
    turns = number_rows(turns, pace)
    watermarks = [turn * pace + 30 - lag for turn in range(len(turns))]
    wanted = brute_interval(low, low + width, outer, turns, watermarks)
    make = lambda: IntervalJoin(low, low + width, how="left" if outer else "inner")  # noqa: E731
    story, join = run(make, turns, watermarks, restored)
    assert story == wanted
    # Rows that can find no partner are gone.
    join.close(10**6)
    assert join.live_rows == (0, 0)


def windows_of(time, range_, slide):
    first = (time - range_) // slide
    return [(n * slide, n * slide + range_) for n in range(first, time // slide + 1) if 0 <= time - n * slide < range_]


def paired(key, bounds, lefts, rights, outer):
    if not rights and outer:
        return [(key, *bounds, left[3], None) for left in lefts]
    return [(key, *bounds, left[3], right[3]) for left in lefts for right in rights]


def brute_windows(range_, slide, outer, turns, watermarks):
    rows, before, story = [], None, []
    for batch_, watermark in zip(turns, watermarks, strict=True):
        late = []
        for row in batch_:
            ends = [end for _, end in windows_of(row[2], range_, slide)]
            if ends and before is not None and max(ends) <= before:
                late.append((row[3], before - row[2]))
            else:
                rows.append(row)
        pairs = []
        for key in {row[1] for row in rows}:
            mine = [row for row in rows if row[1] == key]
            for bounds in {b for row in mine for b in windows_of(row[2], range_, slide)}:
                if bounds[1] <= watermark and (before is None or bounds[1] > before):
                    inside = [row for row in mine if bounds[0] <= row[2] < bounds[1]]
                    sides = ([row for row in inside if row[0] == side] for side in (LEFT, RIGHT))
                    pairs += paired(key, bounds, *sides, outer)
        story.append((by_rows(pairs, rows), sorted(late)))
        before = watermark
    return story


@settings(max_examples=sized(40, 8), deadline=None)
@given(
    TURNS,
    st.integers(1, 25),
    st.integers(1, 25),
    st.booleans(),
    st.integers(0, 40),
    st.integers(0, 40),
    st.sets(st.integers(0, 5)),
)
def test_a_window_join_equals_brute_force(turns, range_, slide, outer, pace, lag, restored):
    turns = number_rows(turns, pace)
    watermarks = [turn * pace + 30 - lag for turn in range(len(turns))]
    wanted = brute_windows(range_, slide, outer, turns, watermarks)
    make = lambda: WindowJoin(w.sliding(range_, slide), how="left" if outer else "inner")  # noqa: E731
    story, join = run(make, turns, watermarks, restored)
    assert story == wanted
    join.close(10**6)
    assert join.live_rows == (0, 0)


def brute_sessions(gap, outer, turns, watermarks):
    held, before, story = [], None, []
    for batch_, watermark in zip(turns, watermarks, strict=True):
        new, late, pairs, keep = {row[3] for row in batch_}, [], [], []
        everything = held + batch_
        for key in {row[1] for row in everything}:
            mine = sorted((row for row in everything if row[1] == key), key=lambda row: (row[2], row[3]))
            runs = [[mine[0]]]
            for row in mine[1:]:
                if row[2] - runs[-1][-1][2] >= gap:
                    runs.append([])
                runs[-1].append(row)
            for each in runs:
                bounds = (each[0][2], each[-1][2] + gap)
                if before is not None and bounds[1] <= before and all(row[3] in new for row in each):
                    late += [(row[3], before - row[2]) for row in each]
                elif bounds[1] <= watermark:
                    sides = ([row for row in each if row[0] == side] for side in (LEFT, RIGHT))
                    pairs += paired(key, bounds, *sides, outer)
                else:
                    keep += each
        story.append((by_rows(pairs, everything), sorted(late)))
        held, before = keep, watermark
    return story


@settings(max_examples=sized(40, 8), deadline=None)
@given(
    TURNS, st.integers(1, 25), st.booleans(), st.integers(0, 40), st.integers(0, 40), st.sets(st.integers(0, 5))
)  # fmt: skip
def test_a_session_join_equals_brute_force(turns, gap, outer, pace, lag, restored):
    turns = number_rows(turns, pace)
    watermarks = [turn * pace + 30 - lag for turn in range(len(turns))]
    wanted = brute_sessions(gap, outer, turns, watermarks)
    make = lambda: WindowJoin(w.session(gap), how="left" if outer else "inner")  # noqa: E731
    story, join = run(make, turns, watermarks, restored)
    assert story == wanted
    join.close(10**6)
    assert join.live_rows == (0, 0)


def test_a_day_is_as_long_as_its_time_zone_says():
    hour = 3_600_000_000
    join = WindowJoin(w.days("Europe/Berlin"))
    # Midnight in Berlin, and clocks go forward that night.
    spring = int(datetime(2024, 3, 30, 23, tzinfo=UTC).timestamp()) * 1_000_000
    join.add(left=([0], [spring + 1], {}), right=([0, 0], [spring + 23 * hour - 1, spring + 23 * hour], {}))
    found = join.close(spring + 24 * hour)
    assert (found.ends - found.begins).tolist() == [23 * hour]


@pytest.mark.parametrize("distance", [-7, 0, 7])
def test_the_ends_of_the_interval_and_the_watermark_itself_belong_to_it(distance):
    """A row at the watermark is not late, so its partner must still be there, on either side."""
    for first, then in (("left", "right"), ("right", "left")):
        join = IntervalJoin(distance, distance)
        at = {"left": 100, "right": 100 + distance}
        join.add(**{first: ([0], [at[first]], {})})
        assert len(join.close(at[then])) == 0
        assert not len(join.add(**{then: ([0], [at[then]], {})})[then == "right"].rows)
        assert len(join.close(at[then])) == 1


def test_pairs_are_found_where_keys_and_times_do_not_fit_one_number(monkeypatch):
    rng = np.random.default_rng(7)
    left, right = ((rng.integers(0, 5, 200), rng.integers(0, 500, 200)) for _ in range(2))
    results = []
    for factor in (1, 2**59):
        if factor > 1:
            monkeypatch.setattr(ordering, "pack", lambda *_: None)
        join = IntervalJoin(-3, 9, how="left")
        join.add(left=(left[0] * factor, left[1], {}), right=(right[0] * factor, right[1], {}))
        found = join.close(10**4)
        results.append([found.keys // factor, found.left_times, found.right_times, found.matched])
    assert len(results[0][0]) > 200
    assert all(np.array_equal(mine, other) for mine, other in zip(*results, strict=True))


def test_a_table_has_nulls_on_the_right_of_a_left_row_alone():
    join = IntervalJoin(0, 10, how="left")
    join.add(left=([0, 1], [5, 6], {"ad": ["a", "b"]}), right=([1], [8], {"click": [7]}))
    table = join.close(100).to_arrow()
    assert table.column("left").to_pylist() == [{"ad": "a"}, {"ad": "b"}]
    assert table.column("right").to_pylist() == [None, {"click": 7}]
    assert [at and at.microsecond for at in table.column("right_time").to_pylist()] == [None, 8]


def test_nulls_may_come_later_and_other_columns_are_refused():
    join = IntervalJoin(0, 10)
    join.add(left=([0], [1], {"v": [1]}))
    join.add(left=([0], [2], {"v": pa.array([None], "int64")}), right=([0], [3], {"u": [0.5]}))
    assert join.close(3).left["v"].tolist() == [1, None]
    for bad in ({"w": [1]}, {"v": [1, 2]}):
        with pytest.raises(WindowError, match="MP628"):
            join.add(left=([0], [4], bad))
    for other in (["text"], [1j]):
        with pytest.raises(WindowError, match="MP628"):
            join.add(right=([0], [4], {"u": other}))


@pytest.mark.parametrize(
    "make",
    [
        lambda: IntervalJoin(3, 2),
        lambda: IntervalJoin(0, 1.5),
        lambda: IntervalJoin(0, 2**62),
        lambda: IntervalJoin(0, 1, how="right"),
        lambda: WindowJoin(w.count_tumbling(3)),
        lambda: WindowJoin(w.tumbling(3), how="outer"),
    ],
)
def test_a_join_that_makes_no_sense_is_refused(make):
    with pytest.raises(WindowError, match="MP651"):
        make()


def test_a_watermark_does_not_go_back():
    for join in (IntervalJoin(0, 1), WindowJoin(w.tumbling(3))):
        join.close(5)
        with pytest.raises(WindowError, match="MP618"):
            join.close(4)
