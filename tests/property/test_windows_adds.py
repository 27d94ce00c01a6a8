"""Rows that are added to windows by columns: what is held and told is as if they were added one by one, bit by bit."""

from __future__ import annotations

import math
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond import Program, entry, on_window
from millpond.compiler.compile import compile_program
from millpond.program.epoch_time import epoch_time, moment_of
from millpond.runtime import windowadds
from millpond.runtime.eventtime import FeedTime
from millpond.runtime.plan import BadRows
from millpond.runtime.simulated import Simulated
from millpond.state.map import Map
from millpond.state.valuecodec import ValueCodec
from millpond.windowing import (
    ClosedWindow,
    count,
    days,
    max_of,
    mean_of,
    min_of,
    several,
    sliding,
    sum_of,
    tumbling,
    variance_of,
)
from millpond.windowing.element import WindowRules, Windows
from tests.property.test_eventtime import fresh, many, run_both, with_times  # noqa: F401
from tests.property.test_windows_element import EPOCHS, feeds
from tests.property.timed import SECOND, committed_state, fired_by, live_state
from tests.property.windowed import Corrected, lines

pytestmark = pytest.mark.slow

DAY = 86_400_000_000
KINDS = {
    "overlapping": {"a": sliding(7, 1)},
    "ends inside": {"a": sliding(13, 5, origin=2)},
    "apart": {"a": sliding(3, 10)},
    "several": {"a": sliding(12, 3), "b": tumbling(10, origin=1), "c": sliding(5, 9)},
    "days": {"a": days("Europe/Berlin", span=3, every=1), "b": sliding(2 * DAY, DAY // 4)},
}
NUMBERS = {
    "plain": (st.integers(-9, 9), st.floats(-1e3, 1e3)),
    "far apart": (
        st.integers(-(2**40), 2**40),
        st.one_of(st.floats(-1e-9, 1e-9), st.floats(-1e17, 1e17), st.sampled_from((0.1, 1e300, -0.0))),
    ),
    "odd": (
        st.sampled_from((2**63 - 1, -(2**63), 2**62, 1, -1)),
        st.sampled_from((math.nan, math.inf, -math.inf, 1e308, -0.0, 0.0, 0.1)),
    ),
}
SUMS = several(total=sum_of("f"), whole=sum_of("n", integers=True), many=count(), mean=mean_of("f"), means=mean_of("n"))
EXTREMES = several(low=min_of("f"), high=max_of("f"), least=min_of("n"), most=max_of("n"))


def batches(kind, numbers):
    whole, real = NUMBERS[numbers]
    scale = DAY // 5 if kind == "days" else 1
    times = st.integers(-30, 30).map(lambda at: at * scale + at % 3)
    row = st.tuples(st.sampled_from("abc"), times, whole, real)
    return st.lists(st.tuples(st.lists(row, min_size=1, max_size=25), st.integers(-30, 45)), min_size=1, max_size=5)


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
            times, whole, real = (
                np.array([row[at] for row in rows], kind) for at, kind in ((1, "q"), (2, "q"), (3, "d"))
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


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("kind", KINDS)
def test_slices_hold_the_same_bits(kind, numbers):
    taken, told = [], []

    @many(60)
    @given(
        batches(kind, numbers),
        st.sampled_from((SUMS, EXTREMES)),
        st.sampled_from((0, 5, 10**12)),
        st.dictionaries(st.sampled_from(tuple(KINDS[kind])), st.integers(-20, 20), max_size=1),
    )
    def check(given_batches, aggregate, lateness, since):
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
        taken.extend(by_columns.taken)

    check()
    assert told
    assert taken.count(True) > (0 if numbers == "odd" else len(taken) // 4)
    assert numbers != "odd" or False in taken


class Floats(Program):
    """Windows whose rows may be added by columns, by names and without, and some that may not."""

    @entry
    def read(self, key: str, f: float) -> None:
        """Add a row."""
        self.spans.add(key, f=f)

    @entry
    def pair(self, key: str, f: float, n: int) -> None:
        self.pairs.add((key, n), f)

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


FLOATS = st.one_of(st.floats(-1e3, 1e3), st.sampled_from((1e17, -1e17, 1e-12, 0.1, 0.2, -0.0, math.nan)))
READ = st.tuples(st.just("read"), st.tuples(st.sampled_from("abc"), FLOATS))
PAIR = st.tuples(st.just("pair"), st.tuples(st.sampled_from("ab"), FLOATS, st.integers(0, 1)))
FLOAT_EPOCHS = st.lists(
    st.tuples(
        st.integers(0, 4), st.lists(st.tuples(st.one_of(READ, READ, PAIR), st.integers(-5, 9)), min_size=1, max_size=40)
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
        monkeypatch.setattr(windowadds, "ROWS_MIN", rows)
        return taken

    return least


def test_a_run_by_columns_writes_the_same_bytes_and_tells_the_same(fresh, spied):  # noqa: F811
    compiled = compile_program(Floats)
    taken, seen = spied(0), []

    @many(25)
    @given(FLOAT_EPOCHS, TIMES, st.integers(1, 3), st.dictionaries(st.integers(1, 4), st.integers(1, 3)), st.booleans())
    def check(epochs, times, partitions, restarts, timed):
        runs = []
        for least in (0, 10**9):
            spied(least)
            directory, replies = fresh(), []

            def make(count, directory=directory):
                event_time = {"read": times, "pair": times} if timed else None
                return Simulated(compiled, directory, count, key_groups=8, bad_rows=BadRows.SKIP, event_time=event_time)

            simulated = make(partitions)
            for number, (clock, rows, happened) in enumerate(with_times(epochs)):
                with epoch_time(clock):
                    if number in restarts:
                        replies.append(repr(fired_by(simulated, ("spans", "pairs"))))
                        simulated = make(restarts[number])
                    simulated.epoch(rows, happened if timed else None)
            replies.append(repr(fired_by(simulated, ("spans", "pairs"))))
            runs.append((live_state(simulated.storage), replies, simulated.fed))
        assert runs[0] == runs[1]
        seen.append(sum(map(len, fired_by(simulated, ("spans", "pairs")).values())))

    check()
    assert taken.count(True) > 50
    assert False in taken
    assert sum(seen) > 20


def test_a_run_by_columns_equals_plain_python(fresh, spied):  # noqa: F811
    taken = spied(0)

    @many(15)
    @given(
        EPOCHS, feeds(Corrected), st.integers(1, 3), st.dictionaries(st.integers(1, 8), st.integers(1, 4), max_size=3)
    )
    def check(epochs, times, partitions, restarts):
        plain, simulated = run_both(
            Corrected, epochs, fresh(), times, late=False, partitions=partitions, restarts=restarts
        )
        assert committed_state(Corrected, simulated.storage) == plain.state()

    check()
    assert taken.count(True) > 10


def test_moments_of_a_variance_go_one_by_one():
    entries = Entries(WindowRules({"": sliding(7, 1)}, several(spread=variance_of("f")), 0), {}, columns=True)
    entries.add([("a", 1, 0, 0.5), ("a", 2, 0, 1.5)])
    assert entries.taken == [False]
