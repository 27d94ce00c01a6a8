"""Random numbers that follow from a row: the same everywhere, and as good as others."""

from __future__ import annotations

import collections
import copy
import datetime
import decimal
import statistics
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.program.semantics.row_random import RowRandom, row_random, row_seed
from millpond.state.codec.wire import decode_values, encode_values


def test_the_numbers_are_these_on_every_machine_and_version():
    rng = row_random("go", 1, "mill", [1.5, None])
    drawn = [
        rng.getrandbits(16),
        rng.randrange(1000),
        rng.randint(-5, 5),
        rng.choice("abcdef"),
        rng.sample(range(9), 3),
    ]
    letters = list("abcdef")
    rng.shuffle(letters)
    assert [*drawn, "".join(letters), rng.random().hex()] == GOLDEN


GOLDEN = [42815, 855, 4, "d", [7, 6, 4], "bedafc", "0x1.cae8fded6af2fp-1"]


def test_equal_rows_have_equal_numbers_and_others_do_not():
    seeds = [row_seed("go", 1), row_seed("go", 2), row_seed("gone", 1), row_seed("go", 1, 1), row_seed("go", [1])]
    seeds += [
        row_seed("go", "1"),
        row_seed("go", b"1"),
        row_seed("go", None),
        row_seed("go"),
        row_seed("go", [[1], []]),
    ]
    seeds += [row_seed("go", [[1, []]]), row_seed("go", 1.5), row_seed("go", {1: 2}), row_seed("go", {2: 1})]
    assert len(set(seeds)) == len(seeds)
    assert row_seed("go", 1) == row_seed("go", 1)


@dataclass
class Point:
    x: int
    y: float


UTC = datetime.UTC


@pytest.mark.parametrize(
    ("given_value", "column_value"),
    [
        (1, 1.0),
        (True, 1),
        (-0.0, 0),
        (decimal.Decimal("1.50"), decimal.Decimal("1.500000000000000000")),
        (np.int64(3), 3),
        (np.float64(2.5), 2.5),
        ((1, 2), [1, 2]),
        ({1, 2, 3}, {3, 2, 1}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 1, tzinfo=UTC)),  # noqa: DTZ001
        (
            datetime.datetime(2026, 1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
            datetime.datetime(2026, 1, 1, tzinfo=UTC),
        ),
        (Point(1, 2), Point(1, 2.0)),
        (float("nan"), float("nan")),
    ],
)
def test_a_value_and_what_its_column_makes_of_it_give_one_seed(given_value, column_value):
    assert row_seed("go", given_value) == row_seed("go", column_value)
    assert row_seed("go", [given_value]) == row_seed("go", [column_value])


@pytest.mark.parametrize("value", ["\ud800", 2**5000, -(2**5000), 1e300, float("inf"), datetime.date(2026, 1, 1)])
def test_odd_arguments_have_a_seed_too(value):
    assert 0 <= row_seed("go", value) < 2**128


def test_the_seed_does_not_depend_on_the_hash_seed_of_the_process():
    code = (
        "from millpond.program.semantics.row_random import row_seed; "
        "print(row_seed('go', {f'w{n}' for n in range(50)}))"
    )
    seen = {
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": s}, capture_output=True, check=True).stdout
        for s in ("1", "2")
    }
    assert len(seen) == 1


def calls(rng):
    """One call of everything that `random.Random` has."""
    return [
        rng.random(), rng.getrandbits(0), rng.getrandbits(7), rng.getrandbits(300), rng.randbytes(5), rng.randint(1, 6),
        rng.randrange(10), rng.randrange(-5, 5, 3), rng.randrange(5, -5, -4), rng.randrange(2**70), rng.choice([1, 2]),
        rng.choices("ab", weights=[1, 2], k=3), rng.sample(range(100), 5), rng.sample("ab", 3, counts=[2, 2]),
        rng.uniform(1, 2), rng.triangular(), rng.betavariate(1, 2), rng.expovariate(2.0), rng.gammavariate(2, 1),
        rng.gauss(), rng.gauss(5, 2), rng.lognormvariate(0, 1), rng.normalvariate(), rng.vonmisesvariate(0, 1),
        rng.paretovariate(2), rng.weibullvariate(1, 2),
    ]  # fmt: skip


@given(st.integers(0, 40))
def test_it_goes_on_after_a_cut_where_it_was(drawn):
    rng = row_random("go", drawn)
    for _ in range(drawn):
        rng.random()
    (back,) = decode_values(encode_values((rng,)))
    assert type(back) is RowRandom
    assert calls(back) == calls(rng)
    assert back == rng


def test_copies_and_states_go_their_own_way():
    rng = row_random("go")
    state = rng.getstate()
    twin, deep = copy.copy(rng), copy.deepcopy(rng)
    first = calls(rng)
    assert calls(twin) == first
    assert calls(deep) == first
    rng.setstate(state)
    assert calls(rng) == first


def test_it_is_small_on_the_wire():
    assert len(encode_values((row_random("go", 1),))) < 48


def test_all_numbers_are_equally_likely():
    rng = row_random("fair")
    faces = collections.Counter(rng.randrange(6) for _ in range(12000))
    assert max(abs(count - 2000) for count in faces.values()) < 200
    places = collections.Counter()
    for _ in range(6000):
        letters = list("abc")
        rng.shuffle(letters)
        places["".join(letters)] += 1
    assert len(places) == 6
    assert max(abs(count - 1000) for count in places.values()) < 150
    normal = [rng.gauss(10, 2) for _ in range(8000)]
    assert abs(statistics.mean(normal) - 10) < 0.1
    assert abs(statistics.stdev(normal) - 2) < 0.1
    floats = [rng.random() for _ in range(8000)]
    assert all(0 <= x < 1 for x in floats)
    assert abs(statistics.mean(floats) - 0.5) < 0.02


@pytest.mark.parametrize(
    "call",
    [
        lambda rng: rng.choice([]),
        lambda rng: rng.randrange(0),
        lambda rng: rng.randrange(3, 3),
        lambda rng: rng.sample([1], 2),
        lambda rng: rng.sample({1, 2}, 1),
        lambda rng: rng.getrandbits(-1),
        lambda rng: rng.seed(1),
        lambda rng: rng.randint(1, 0),
    ],
)
def test_what_can_not_be_drawn_is_refused(call):
    with pytest.raises((IndexError, ValueError, TypeError)):
        call(row_random("go"))
