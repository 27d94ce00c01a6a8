"""Slices that no open window tells apart any more become one, and no window is told other bits by that."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.state.codec.valuecodec import ValueCodec
from millpond.windowing import aggregate, count, days, max_of, mean_of, min_of, several, sliding, sum_of, tumbling
from millpond.windowing.keyed.keyslices import KeySlices
from tests.lengths import us
from tests.property.test_eventtime import many
from tests.property.test_windows_blocks import DAY, VALUES, bits

KINDS = {
    "short and long": {"short": tumbling("1 us"), "long": tumbling("50 us")},
    "three lengths": {"short": tumbling("2 us"), "middle": tumbling("10 us"), "long": tumbling("60 us", origin="3 us")},
    "long ones overlap": {"short": tumbling("1 us"), "long": sliding("40 us", "10 us")},
    "both overlap": {"short": sliding("4 us", "1 us"), "long": sliding("30 us", "6 us")},
    "ends inside": {"a": sliding("13 us", "5 us", origin="2 us")},
    "gaps": {"short": sliding("3 us", "10 us"), "long": tumbling("50 us")},
    "apart": {"a": sliding("3 us", "10 us"), "b": sliding("17 us", "11 us")},
    "days": {"hours": tumbling(us(DAY // 6)), "days": days("Europe/Berlin")},
    "three days": {"hours": tumbling(us(DAY // 6)), "days": days("Europe/Berlin", span=3, every=1)},
}
LISTED = aggregate(
    lift=lambda row: [str(row["v"])],
    combine=lambda a, b: sorted(a + b),
    lower=tuple,
    identity=[],
    commutative=True,
    partial_type=list[str],
)
EXACT = several(total=sum_of("v", integers=True), many=count(), low=min_of("v"), high=max_of("v"), all=LISTED)
EXTREMES = several(low=min_of("v"), high=max_of("v"), many=count())
ROUNDED = several(total=sum_of("v"), mean=mean_of("v"), many=count(), low=min_of("v"))
MIXED = VALUES | st.integers(-10, 10)
ODD = MIXED | st.just(math.nan)
END = 10**15

pytestmark = pytest.mark.slow


def scale(kind):
    return DAY // 12 if "days" in kind else 1


class Run:
    """A key whose windows are told as time goes on, and one whose windows are told at the end alone."""

    def __init__(self, kind, aggregate, lateness, since):
        windows = KINDS[kind]
        known = {min(windows): since} if since is not None else None
        self.keys = KeySlices(windows, aggregate, lateness, known)
        self.lateness, self.until = lateness, None
        self.grids = {
            name: (window.grid, since if known and name in known else -END) for name, window in windows.items()
        }
        self.often, self.often_moment, self.told = self.keys.start(), None, {}
        self.once, self.once_moment = self.keys.start(), None
        self.slices = {}

    def add(self, at, value):
        at = at if self.until is None else max(at, self.until - self.lateness)
        if (begin := self.keys._cuts.begin(at)) not in self.slices:
            self.slices[begin] = [
                (name, grid.begin(number), grid.end(number))
                for name, (grid, since) in self.grids.items()
                for number in range(grid.oldest(at), grid.newest(at) + 1)
                if grid.begin(number) > since
            ]
        row = {"v": value}
        self.often, self.often_moment = self.keys.add(self.often or self.keys.start(), at, row, self.often_moment)
        self.once, self.once_moment = self.keys.add(self.once, at, row, self.once_moment)

    def close(self, until):
        if self.often is None:
            return
        told, self.often, self.often_moment = self.keys.close(self.often, until)
        self.told |= {(one.window, one.begin, one.end): bits(one.value) for one in told}
        self.until = until

    def all_at_once(self):
        told, held, moment = self.keys.close(self.once, END)
        assert held is None
        assert moment is None
        return {(one.window, one.begin, one.end): bits(one.value) for one in told}

    @property
    def final(self):
        return self.until - self.lateness

    def over(self):
        """The slices that get no more rows, and all that there were in open windows."""
        running = self.keys._cuts.last(self.final)
        held = [begin for begin, _ in self.often[1] if begin < running]
        return held, [
            begin for begin, inside in self.slices.items() if begin < running and any(map(self.is_open, inside))
        ]

    def open_windows(self):
        """Those that have rows, began, and can still be told."""
        return {window for inside in self.slices.values() for window in inside if self.is_open(window)}

    def is_open(self, window):
        _, begin, end = window
        return begin <= self.final < end


def check(kind, aggregate, values, *, check_held, lateness=0):
    merged = []

    @many(150)
    @given(
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 8), values, st.booleans()), min_size=20, max_size=70),
        st.integers(0, lateness),
        st.none() | st.integers(-10, 60),
    )
    def runs(rows, late, since):
        run = Run(kind, aggregate, late * scale(kind), None if since is None else since * scale(kind))
        now = -20
        for passed, ago, value, closes in rows:
            now += passed
            run.add((now - ago) * scale(kind), value)
            if closes:
                run.close((now - 5) * scale(kind))
                if run.often is None:
                    continue
                held, ever = run.over()
                merged.append(len(ever) - len(held))
                assert merged[-1] >= 0
                if check_held:
                    assert len(held) <= len(run.open_windows())
        run.close(END)
        assert run.told == run.all_at_once()

    runs()
    return sum(merged)


@pytest.mark.parametrize("kind", KINDS)
def test_where_nothing_is_rounded_there_are_never_more_slices_than_open_windows(kind):
    assert check(kind, EXACT, st.integers(-(10**9), 10**9), check_held=True)
    assert check(kind, EXTREMES, ODD, check_held=True)


@pytest.mark.parametrize("kind", KINDS)
def test_floats_have_the_same_bits_whenever_windows_are_told(kind):
    merged = check(kind, ROUNDED, MIXED, check_held=kind in {"short and long", "days"})
    overlapping = any(window.grid.whole + window.grid.rest > 1 for window in KINDS[kind].values())
    assert bool(merged) != overlapping


@pytest.mark.parametrize("kind", KINDS)
def test_windows_that_can_be_corrected_keep_what_they_need(kind):
    check(kind, EXACT, st.integers(-100, 100), check_held=False, lateness=15)


def test_a_day_beside_seconds_is_one_slice():
    keys = KeySlices({"second": tumbling("1 us"), "day": tumbling("86400 us")}, several(total=sum_of("v")), 0)
    held, moment = keys.start(), None
    for second in range(5_000):
        held, moment = keys.add(held, second, {"v": 0.1}, moment)
        told, held, moment = keys.close(held, second + 1)
        assert [one.end for one in told] == [second + 1]
        assert len(held[1]) <= 2
    told, held, moment = keys.close(held, 86_400)
    summed = 0.1
    for _ in range(4_999):
        summed += 0.1
    assert [(one.window, one.value["total"]) for one in told] == [("day", summed)]
    assert held is None


def test_sums_that_state_can_not_hold_stay_in_slices_that_it_can():
    aggregate = several(total=sum_of("v"), mean=mean_of("v"))
    keys = KeySlices({"short": tumbling("1 us"), "long": tumbling("50 us")}, aggregate, 0)
    codec = ValueCodec(KeySlices.stored_type(aggregate))
    held, moment = keys.start(), None
    for at in range(40):
        held, moment = keys.add(held, at, {"v": 2**62}, moment)
        _, held, moment = keys.close(held, at + 1)
        held = codec.decode(codec.encode(held))
    told, held, _ = keys.close(held, 50)
    assert [(one.window, one.value["total"]) for one in told] == [("long", 40 * 2**62)]
    assert held is None
