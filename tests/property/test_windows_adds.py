"""Rows that are added to windows by columns: what is held and told is as if they were added one by one, bit by bit."""

from __future__ import annotations

import math
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millpond import Program, entry, on_window
from millpond.engine.plan import BadRows
from millpond.engine.simulated import Simulated
from millpond.engine.task import inorder
from millpond.engine.time.eventtime import FeedTime
from millpond.program.semantics.epoch_time import epoch_time, moment_of
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.containers.map import Map
from millpond.windowing import (
    ClosedWindow,
    argmax,
    argmin,
    collect,
    count,
    count_sliding,
    days,
    distinct_count,
    first_of,
    last_of,
    max_of,
    mean_of,
    min_of,
    quantiles_of,
    session,
    several,
    sliding,
    sum_of,
    top_k,
    tumbling,
    variance_of,
)
from millpond.windowing.element import WindowRules, Windows
from millpond.windowing.keyed import keycells, keysessions
from tests.lengths import us
from tests.programs.timed import SECOND, committed_state, fired_by, live_state
from tests.programs.windowed import Corrected, Ordered, lines
from tests.property.test_eventtime import fresh, many, run_both, with_times  # noqa: F401
from tests.property.test_windows_element import EPOCHS, feeds
from tests.sizes import compile_once

pytestmark = pytest.mark.slow

DAY = 86_400_000_000
KINDS = {
    "overlapping": {"a": sliding("7 us", "1 us")},
    "ends inside": {"a": sliding("13 us", "5 us", origin="2 us")},
    "apart": {"a": sliding("3 us", "10 us")},
    "several": {"a": sliding("12 us", "3 us"), "b": tumbling("10 us", origin="1 us"), "c": sliding("5 us", "9 us")},
    "days": {"a": days("Europe/Berlin", span=3, every=1), "b": sliding(us(2 * DAY), us(DAY // 4))},
    "sessions": {"a": session("3 us")},
    "long sessions": {"a": session("9 us")},
    "sessions beside": {
        "a": session("2 us"),
        "b": sliding("7 us", "2 us"),
        "c": session("6 us"),
        "d": sliding("3 us", "8 us"),
    },
}
NUMBERS = {
    "plain": (st.integers(-9, 9), st.floats(-1e3, 1e3).map(lambda f: f + 0.0)),  # No negative zero.
    "far apart": (
        st.integers(-(2**40), 2**40),
        st.one_of(st.floats(-1e-9, 1e-9), st.floats(-1e17, 1e17), st.sampled_from((0.1, 1e300, -0.0))),
    ),
    "odd": (
        st.sampled_from((2**63 - 1, -(2**63), 2**62, 1, -1)),
        st.sampled_from((math.nan, math.inf, -math.inf, 1e308, -0.0, 0.0, 0.1)),
    ),
    "mixed": (st.integers(-9, 9), st.sampled_from((0.1, -0.0, 0.0, 1e17, 2.5))),
}
SUMS = several(total=sum_of("f"), whole=sum_of("n", integers=True), many=count(), mean=mean_of("f"), means=mean_of("n"))
EXTREMES = several(low=min_of("f"), high=max_of("f"), least=min_of("n"), most=max_of("n"))
PICKS = several(first=first_of("f"), last=last_of("n"), low=argmin("f", "n"), high=argmax("n", "f"), total=sum_of("f"))
KEPT = several(all=collect("f"), best=top_k(2, "f", "n"), middle=quantiles_of([0.5], "f"), unlike=distinct_count("f"))
WAITED_FOR = {
    "overlapping": KINDS["overlapping"],
    "sessions beside": KINDS["sessions beside"],
    "counted": {"a": count_sliding(3, 2), "b": sliding("7 us", "3 us")},
}
MOMENTS = several(spread=variance_of("f"), many=count(), sample=variance_of("n", sample=True))


def batches(kind, numbers):
    whole, real = NUMBERS[numbers]
    scale = DAY // 5 if kind == "days" else 1
    places = st.one_of(st.integers(-6, 6), st.integers(-30, 30)) if "sessions" in kind else st.integers(-30, 30)
    times = places.map(lambda at: at * scale + at % 3)
    row = st.tuples(st.sampled_from("abc"), times, whole, real)
    rows = st.lists(row, min_size=1, max_size=40)
    if numbers == "mixed":
        rows = st.one_of(rows, rows.map(lambda given_rows: [(key, time, n, n) for key, time, n, _ in given_rows]))
    return st.lists(st.tuples(rows, st.integers(-30, 45)), min_size=1, max_size=5)


JOINING = (0, 4, 2, 20, 34, 27, -9, -7, -8)
"""Of three, the last joins the other two to one session, by one gap or the other."""


class Entries:
    """The windows of an element, rows of which are added one by one or by columns."""

    def __init__(self, rules, since, *, columns):
        self.windows = Windows(rules, Map())
        self.windows.know(since)
        self.codec = ValueCodec(rules.stored_type)
        self.taken = [] if columns else None

    def add(self, rows):
        if self.taken is not None:
            keys = sorted({key for key, *_ in rows})
            places = np.array([keys.index(key) for key, *_ in rows], np.int64)
            real_kind = "q" if all(type(f) is int for *_, f in rows) else "d"
            times, whole, real = (
                np.array([row[at] for row in rows], kind) for at, kind in ((1, "q"), (2, "q"), (3, real_kind))
            )
            before = repr(sorted(self.windows._entries.items()))
            self.taken.append(self.windows.add_columns(keys, places, times, {"n": whole, "f": real}))
            if self.taken[-1]:
                return
            assert repr(sorted(self.windows._entries.items())) == before
        for key, time, n, f in rows:
            self.windows.clock = lambda time=time: time
            self.windows.add(key, n=n, f=f)

    def told(self, until):
        due = sorted(key for _, key in self.windows.due(until))
        return [(key, repr(self.windows.fired(key, moment_of(until)))) for key in due]

    def held(self):
        """All that is held; the text tells types, zeros, and every bit of a float."""
        return repr(sorted(dict.items(self.windows._entries)))

    def restart(self):
        for key, value in list(dict.items(self.windows._entries)):
            self.windows._entries[key] = self.codec.decode(self.codec.encode(value))


@pytest.fixture
def one_by_one_rows(monkeypatch):
    """How many rows of slices, and of sessions that were joined, went one by one though they came by columns."""
    counted = {"cells": 0, "joined": 0}
    of_cell, of_sessions = keycells._one_by_one, keysessions._one_by_one

    def cell(part, partial, values):
        counted["cells"] += len(values)
        return of_cell(part, partial, values)

    def joined(kept, gap, rows, folding):
        counted["joined"] += len(rows.times)
        of_sessions(kept, gap, rows, folding)

    monkeypatch.setattr(keycells, "_one_by_one", cell)
    monkeypatch.setattr(keysessions, "_one_by_one", joined)
    return counted


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_held_has_the_same_bits(kind, numbers, one_by_one_rows, monkeypatch):
    taken, told, added = [], [], []

    @many(60)
    @example([([("a", time, 1, 1.0) for time in JOINING], 0)], SUMS, 0, {}, 2)
    @given(
        batches(kind, numbers),
        st.sampled_from((SUMS, EXTREMES, MOMENTS)),
        st.sampled_from((0, 5, 10**12)),
        st.dictionaries(st.sampled_from(tuple(KINDS[kind])), st.integers(-20, 20), max_size=1),
        st.sampled_from((2, keysessions.ROWS_MIN)),
    )
    def check(given_batches, aggregate, lateness, since, halved):
        monkeypatch.setattr(keysessions, "ROWS_MIN", halved)
        rules = WindowRules(KINDS[kind], aggregate, lateness)
        one_by_one, by_columns = (Entries(rules, since, columns=columns) for columns in (False, True))
        until = -(10**9)
        scale = DAY // 5 if kind == "days" else 1
        for number, (rows, ends) in enumerate(given_batches):
            for each in (one_by_one, by_columns):
                each.add(rows)
            assert by_columns.held() == one_by_one.held()
            until = max(until, ends * scale)
            # Sums of odd numbers may be too large to be stored.
            for each in (one_by_one, by_columns) if number % 2 and numbers != "odd" else ():
                each.restart()
            found = one_by_one.told(until)
            assert by_columns.told(until) == found
            assert by_columns.held() == one_by_one.held()
            told.extend(found)
            added.extend(rows)
        taken.extend(by_columns.taken)

    check()
    assert told
    assert all(taken)
    assert (one_by_one_rows["cells"] > 0) == (numbers != "plain")
    assert (one_by_one_rows["joined"] > 0) == ("sessions" in kind)
    assert one_by_one_rows["joined"] < len(added)


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("kind", WAITED_FOR)
def test_what_waits_is_the_same(kind, numbers):
    taken, told = [], []

    @many(40)
    @given(
        batches(kind, numbers),
        st.sampled_from((PICKS, KEPT) if kind in KINDS else (SUMS, EXTREMES, MOMENTS, PICKS, KEPT)),
        st.dictionaries(st.sampled_from(tuple(WAITED_FOR[kind])), st.integers(-20, 20), max_size=1),
    )
    def check(given_batches, aggregate, since):
        rules = WindowRules(WAITED_FOR[kind], aggregate, 0)
        assert not rules.any_order
        one_by_one, by_columns = (Entries(rules, since, columns=columns) for columns in (False, True))
        until = -(10**9)
        for number, (rows, ends) in enumerate(given_batches):
            for each in (one_by_one, by_columns):
                each.add(rows)
            assert by_columns.held() == one_by_one.held()
            until = max(until, ends)
            for each in (one_by_one, by_columns) if number % 2 and numbers != "odd" else ():
                each.restart()
            found = one_by_one.told(until)
            assert by_columns.told(until) == found
            assert by_columns.held() == one_by_one.held()
            told.extend(found)
        taken.extend(by_columns.taken)

    check()
    assert told
    assert all(taken)


@many(60)
@given(
    st.integers(0, 2**32),
    st.integers(1, 40),
    st.sampled_from((0, 3, 60)),
    st.sampled_from((SUMS, EXTREMES, MOMENTS)),
    st.sampled_from((0, 50)),
    st.integers(0, 4),
)
def test_sessions_of_many_rows_hold_the_same_bits_in_any_disorder(seed, gap, disorder, aggregate, lateness, halvings):
    """Pieces are joined by the hundred, by rows of one batch and of later ones, and whatever is halved how often."""
    rng = np.random.default_rng(seed)
    rules = WindowRules({"": session(us(gap))}, aggregate, lateness)
    one_by_one, by_columns = (Entries(rules, {}, columns=columns) for columns in (False, True))
    known, keysessions.HALVINGS_MAX = keysessions.HALVINGS_MAX, halvings
    try:
        for batch in range(4):
            size, keys = int(rng.integers(1, 400)), int(rng.integers(1, 30))
            times = np.sort(rng.integers(0, 5000 // keys, size)) + batch * 100 + rng.integers(0, disorder + 1, size)
            floats = rng.normal(size=size) * 10.0 ** rng.integers(-9, 9, size)
            letters = rng.integers(0, keys, size)
            rows = [
                (f"k{letter}", time, n, f)
                for letter, time, n, f in zip(
                    letters.tolist(), times.tolist(), rng.integers(-9, 9, size).tolist(), floats.tolist(), strict=True
                )
            ]
            for each in (one_by_one, by_columns):
                each.add(rows)
            assert by_columns.held() == one_by_one.held()
            for each in (one_by_one, by_columns) if batch % 2 else ():
                each.restart()
            assert by_columns.told(batch * 100) == one_by_one.told(batch * 100)
        assert by_columns.told(10**6) == one_by_one.told(10**6)
    finally:
        keysessions.HALVINGS_MAX = known
    assert all(by_columns.taken)


class Floats(Program):
    """Windows over time and sessions whose rows may be added by columns, by names and without."""

    @entry
    def read(self, key: str, f: float) -> None:
        """Add a row."""
        self.spans.add(key, f=f)

    @entry
    def pair(self, key: str, f: float, n: int) -> None:
        self.pairs.add((key, n), f)

    @entry
    def visit(self, key: str, f: float) -> None:
        self.visits.add(key, f)

    @on_window(
        {"a": sliding(timedelta(seconds=5), timedelta(seconds=2)), "b": tumbling(timedelta(seconds=3))},
        lateness=timedelta(seconds=4),
        total=sum_of("f"),
        mean=mean_of("f"),
        low=min_of("f"),
    )
    def spans(self, key: str, closed: list[ClosedWindow]) -> str:
        return repr([key, *lines(closed)])

    @on_window(
        sliding(timedelta(seconds=4), timedelta(seconds=1)), lateness=timedelta(seconds=4), many=count(), total=sum_of()
    )
    def pairs(self, key: tuple[str, int], closed: list[ClosedWindow]) -> str:
        return repr([key, *lines(closed)])

    @on_window(
        {"a": session(timedelta(seconds=2)), "b": tumbling(timedelta(seconds=3)), "c": session(timedelta(seconds=4))},
        lateness=timedelta(seconds=4),
        spread=variance_of(),
        total=sum_of(),
        high=max_of(),
    )
    def visits(self, key: str, closed: list[ClosedWindow]) -> str:
        return repr([key, *lines(closed)])


FLOATS = st.one_of(st.floats(-1e3, 1e3), st.sampled_from((1e17, -1e17, 1e-12, 0.1, 0.2, -0.0, math.nan)))
READ = st.tuples(st.just("read"), st.tuples(st.sampled_from("abc"), FLOATS))
PAIR = st.tuples(st.just("pair"), st.tuples(st.sampled_from("ab"), FLOATS, st.integers(0, 1)))
VISIT = st.tuples(st.just("visit"), st.tuples(st.sampled_from("abc"), FLOATS))
HANDLERS = ("spans", "pairs", "visits")
FLOAT_EPOCHS = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.lists(st.tuples(st.one_of(READ, VISIT, VISIT, PAIR), st.integers(-5, 9)), min_size=1, max_size=40),
    ),
    min_size=1,
    max_size=5,
)
TIMES = st.builds(
    FeedTime,
    disorder_us=st.sampled_from((0, 2 * SECOND)),
    lateness_us=st.sampled_from((0, 4 * SECOND)),
    idle_us=st.just(1),
)


def event_times(times):
    return dict.fromkeys(("read", "pair", "visit"), times)


@pytest.fixture
def spied(monkeypatch):
    """Which calls added rows at once, once there are so many."""
    taken = []
    add = Windows.add_columns

    def spy(self, *given_columns):
        taken.append(add(self, *given_columns))
        return taken[-1]

    monkeypatch.setattr(Windows, "add_columns", spy)

    def least(rows):
        monkeypatch.setattr(inorder, "ROWS_MIN", rows)
        return taken

    return least


def test_a_run_by_columns_writes_the_same_bytes_and_tells_the_same(fresh, spied):  # noqa: F811
    compiled = compile_once(Floats)
    taken, seen = spied(0), []

    @many(25)
    @given(FLOAT_EPOCHS, TIMES, st.integers(1, 3), st.dictionaries(st.integers(1, 4), st.integers(1, 3)), st.booleans())
    def check(epochs, times, partitions, restarts, timed):
        runs = []
        for least in (0, 10**9):
            spied(least)
            directory, replies = fresh(), []

            def make(count, directory=directory):
                event_time = event_times(times) if timed else None
                return Simulated(compiled, directory, count, key_groups=8, bad_rows=BadRows.SKIP, event_time=event_time)

            simulated = make(partitions)
            for number, (clock, rows, happened) in enumerate(with_times(epochs)):
                with epoch_time(clock):
                    if number in restarts:
                        replies.append(repr(fired_by(simulated, HANDLERS)))
                        simulated = make(restarts[number])
                    simulated.epoch(rows, happened if timed else ())
            replies.append(repr(fired_by(simulated, HANDLERS)))
            runs.append((live_state(simulated.storage), replies, simulated.fed))
        assert runs[0] == runs[1]
        seen.append(sum(map(len, fired_by(simulated, HANDLERS).values())))

    check()
    assert len(taken) > 50
    assert all(taken)
    assert sum(seen) > 20


def as_text(state):
    """State as text, which tells every bit of a float, and to which NaN is like NaN."""
    return {name: sorted(map(repr, entries.items())) for name, entries in state.items()}


@pytest.mark.parametrize(("program", "epochs_of"), [(Corrected, EPOCHS), (Ordered, EPOCHS), (Floats, FLOAT_EPOCHS)])
def test_a_run_by_columns_equals_plain_python(program, epochs_of, fresh, spied):  # noqa: F811
    taken = spied(0)
    feeds_of = TIMES.map(event_times) if program is Floats else feeds(program)

    @many(15)
    @given(epochs_of, feeds_of, st.integers(1, 3), st.dictionaries(st.integers(1, 8), st.integers(1, 4), max_size=3))
    def check(epochs, times, partitions, restarts):
        plain, simulated = run_both(
            program, epochs, fresh(), times, late=False, partitions=partitions, restarts=restarts
        )
        assert as_text(committed_state(program, simulated.storage)) == as_text(plain.state())

    check()
    assert len(taken) > 10
    assert all(taken)


@pytest.mark.parametrize("kind", [sliding("7 us", "1 us"), count_sliding(2, 1), session("3 us")])
@pytest.mark.parametrize("before", [10**400, "text"])
@pytest.mark.parametrize("taken", [False, True])
def test_what_can_not_be_combined_goes_one_by_one_and_changes_nothing(before, kind, taken):
    entries = Entries(WindowRules({"": kind}, several(total=sum_of("f")), 0), {}, columns=True)
    entries.windows.clock = lambda: 1
    entries.windows.add("a", f=before)
    if taken:
        entries.windows.fired("a", moment_of(1))
    with pytest.raises((OverflowError, TypeError)):
        entries.add([("a", 2, 0, 0.5), ("a", 1, 0, 0.5)])
    assert entries.taken == [False]
