"""Windows of a key have the same value, to the last bit, however they are told."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.state.codec.valuecodec import ValueCodec
from millpond.windowing import count, days, max_of, mean_of, min_of, session, several, sliding, sum_of, tumbling
from millpond.windowing.keyed.keyslices import KeySlices
from tests.lengths import us
from tests.property.test_eventtime import many

pytestmark = pytest.mark.slow

DAY = 86_400_000_000
KINDS = {
    "overlapping": {"a": sliding("7 us", "1 us")},
    "ends inside": {"a": sliding("13 us", "5 us", origin="2 us")},
    "apart": {"a": sliding("3 us", "10 us")},
    "several": {
        "a": sliding("12 us", "3 us"),
        "b": tumbling("10 us", origin="1 us"),
        "c": sliding("5 us", "9 us"),
        "d": session("4 us"),
    },
    "days": {"a": days("Europe/Berlin", span=3, every=1), "b": sliding(us(2 * DAY), us(DAY // 4))},
}
AGGREGATE = several(total=sum_of("v"), many=count(), mean=mean_of("v"), low=min_of("v"), high=max_of("v"))
VALUES = st.one_of(
    st.floats(-1e-9, 1e-9), st.floats(-1e3, 1e3), st.floats(-1e17, 1e17), st.sampled_from((0.1, 0.2, -0.0, 0.0, 1e300))
)
LATE = 10**15


def scale(kind):
    return DAY // 5 if kind == "days" else 1


def rows_of(kind):
    return st.lists(st.tuples(st.integers(-40, 60).map(lambda at: at * scale(kind)), VALUES), min_size=1, max_size=60)


def bits(value):
    return {name: one.hex() if isinstance(one, float) else one for name, one in value.items()}


def slices_of(rows, times):
    """The sums of rows between cuts, in the order of arrival."""
    found = {}
    for at, value in rows:
        cut = max(time for time in times if time <= at)
        found[cut] = found[cut] + value if cut in found else value
    return dict(sorted(found.items()))


class Told:
    """A key whose windows are told and corrected; the last that is told of each counts."""

    def __init__(self, windows, lateness=LATE):
        self.keys = KeySlices(windows, AGGREGATE, lateness)
        self.codec = ValueCodec(KeySlices.stored_type(AGGREGATE))
        self.held, self.moment, self.last = None, None, {}

    def add(self, at, value):
        held = self.keys.start() if self.held is None else self.held
        self.held, self.moment = self.keys.add(held, at, {"v": value}, self.moment)

    def close(self, until):
        if self.held is not None:
            told, self.held, self.moment = self.keys.close(self.held, until)
            fresh = {(one.window, one.begin, one.end): bits(one.value) for one in told}
            assert len(fresh) == len(told)
            # A session that was corrected may have had other bounds.
            spans = [one for one in told if one.window != "d"]
            assert all(one.corrected == ((one.window, one.begin, one.end) in self.last) for one in spans)
            self.last |= fresh

    def restart(self):
        if self.held is not None:
            self.held = self.codec.decode(self.codec.encode(self.held))


@pytest.mark.parametrize("kind", KINDS)
def test_a_window_has_the_same_bits_told_alone_with_others_or_again(kind):
    told_again = []

    @many(150)
    @given(rows_of(kind), st.data())
    def check(rows, data):
        windows = {name: one for name, one in KINDS[kind].items() if name != "d"}
        once, often = Told(windows), Told(windows)
        for at, value in rows:
            once.add(at, value)
        once.close(LATE)
        until = -LATE
        for at, value in rows:
            often.add(at, value)
            if data.draw(st.integers(0, 3)) == 0:
                until = max(until, data.draw(st.integers(-40, 75)) * scale(kind))
                often.close(until)
                told_again.append(len(often.last))
            if data.draw(st.integers(0, 5)) == 0:
                often.restart()
        often.close(LATE)
        assert often.last == once.last
        alone = Told(windows)
        for at, value in rows:
            alone.add(at, value)
        for end in sorted({end for _, _, end in once.last}):
            alone.close(end)
        assert alone.last == once.last

    check()
    assert sum(told_again) > 50


@pytest.mark.parametrize("kind", ["overlapping", "ends inside", "apart"])
def test_a_window_is_what_its_block_rule_says(kind):
    """The end of a block from its last slice back, the beginning of the next from its first slice on."""

    @many(150)
    @given(rows_of(kind))
    def check(rows):
        grid = KINDS[kind]["a"].grid
        once = Told({"a": KINDS[kind]["a"]})
        for at, value in rows:
            once.add(at, value)
        once.close(LATE)
        cuts = [point for number in range(-60, 90) for point in (grid.begin(number), grid.end(number))]
        slices = slices_of(rows, cuts)
        length = math.ceil(grid.range / grid.slide)
        for (_, begin, end), value in once.last.items():
            number = (begin - grid.origin) // grid.slide
            middle = grid.begin(math.ceil(number / length) * length)
            back = [one for at, one in slices.items() if begin <= at < middle][::-1]
            ahead = [one for at, one in slices.items() if middle <= at < end]
            parts = []
            for side in (back, ahead):
                if side:
                    whole = side[0]
                    for one in side[1:]:
                        whole = whole + one
                    parts.append(whole)
            assert value["total"] == (parts[0] if len(parts) == 1 else parts[0] + parts[1]).hex()
            exact = math.fsum(one for at, one in rows if begin <= at < end)
            inside = [abs(one) for at, one in rows if begin <= at < end]
            assert abs(float.fromhex(value["total"]) - exact) <= len(inside) * 2**-53 * math.fsum(inside)
            assert value["many"] == len(inside)

    check()


def test_several_windows_beside_sessions_are_told_as_alone():
    @many(60)
    @given(rows_of("several"), st.lists(st.integers(-40, 75), max_size=6))
    def check(rows, closes):
        windows = KINDS["several"]
        once, often = Told(windows), Told(windows)
        for at, value in rows:
            once.add(at, value)
            often.add(at, value)
        for until in sorted(closes):
            often.close(until)
            often.restart()
        once.close(LATE)
        often.close(LATE)
        assert often.last == once.last

    check()
