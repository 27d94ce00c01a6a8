from __future__ import annotations

import datetime
import decimal
import math
import subprocess
import sys
import uuid
import zoneinfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.errors import RowError
from millpond.state.vector import Vector
from millpond.state.wire import decode_values, encode_values

TEXT = st.text(st.characters(exclude_categories=("Cs",)))
ZONES = (
    st.none()
    | st.just(datetime.UTC)
    | st.sampled_from([zoneinfo.ZoneInfo("UTC"), zoneinfo.ZoneInfo("Europe/Berlin")])
    | st.integers(-1439, 1439).map(lambda minutes: datetime.timezone(datetime.timedelta(minutes=minutes)))
)
ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | TEXT
    | st.binary()
    | st.dates()
    | st.datetimes(timezones=ZONES)
    | st.times(timezones=st.none() | st.just(datetime.UTC))
    | st.decimals(allow_nan=False)
    | st.uuids()
)
MEMBERS = st.integers() | TEXT | st.tuples(st.integers(), TEXT) | st.frozensets(st.integers(), max_size=3)
VALUES = st.recursive(
    ATOMS
    | st.sets(MEMBERS, max_size=4)
    | st.frozensets(MEMBERS, max_size=4)
    | st.dictionaries(st.integers(), st.floats(allow_nan=False), max_size=4).map(Vector),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(MEMBERS, inner, max_size=4)
    ),
    max_leaves=12,
)


def shape(value):
    """A value with the types of all its parts, in their order."""
    if isinstance(value, dict):
        return type(value), [(shape(key), shape(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [shape(item) for item in value]
    if isinstance(value, set | frozenset):
        return type(value), sorted(repr(shape(item)) for item in value)
    return type(value), repr(value)


@given(st.lists(VALUES, max_size=4).map(tuple))
def test_variables_are_after_a_cut_what_they_were_before_it(values):
    assert shape(decode_values(encode_values(values))) == shape(list(values))


@given(VALUES)
def test_the_same_value_has_the_same_bytes(value):
    (back,) = decode_values(encode_values((value,)))
    assert encode_values((back,)) == encode_values((value,))


def test_nan_and_negative_zero_keep_their_nature():
    nan, zero, nested = decode_values(encode_values((math.nan, -0.0, [math.nan])))
    assert math.isnan(nan)
    assert math.isnan(nested[0])
    assert math.copysign(1, zero) == -1
    assert decode_values(encode_values((decimal.Decimal("NaN"),)))[0].is_nan()


def test_a_moment_keeps_its_zone_so_that_sums_come_out_the_same():
    before = datetime.datetime(2026, 3, 28, 12, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
    (after,) = decode_values(encode_values((before,)))
    day = datetime.timedelta(days=1)
    assert (after + day).isoformat() == (before + day).isoformat()


def test_a_repeated_hour_stays_the_second_one():
    second = datetime.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
    (after,) = decode_values(encode_values((second,)))
    assert after.fold == 1
    assert after.utcoffset() == second.utcoffset()


def test_dicts_keep_the_order_of_their_entries():
    (back,) = decode_values(encode_values(({"b": 1, "a": 2},)))
    assert list(back) == ["b", "a"]


def test_vectors_travel_with_whatever_numbers_they_hold():
    vector = Vector({2: 2**70, 1: decimal.Decimal(1)})
    (back,) = decode_values(encode_values((vector,)))
    assert type(back) is Vector
    assert dict(back.items()) == {1: decimal.Decimal(1), 2: 2**70}


class Own:
    pass


class OwnZone(datetime.tzinfo):
    def utcoffset(self, when):
        return datetime.timedelta(0)


ENDLESS: list[object] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    "value",
    [
        Own(),
        [Own()],
        {"a": Own()},
        {Own()},
        Vector({1: Own()}),
        np.float64(1),
        np.int64(1),
        np.zeros(2),
        1j,
        bytearray(b"a"),
        datetime.timedelta(1),
        datetime.datetime(2026, 1, 1, tzinfo=OwnZone()),
        "\ud800",
        ["\ud800"],
        ENDLESS,
        uuid,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_can_not_travel_is_refused(value):
    with pytest.raises(RowError) as caught:
        encode_values((1, value))
    assert caught.value.code == "MP601"


def test_sets_have_the_same_bytes_under_every_hash_seed():
    code = "from millpond.state.wire import encode_values; print(encode_values(({f'w{n}' for n in range(50)},)).hex())"
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1
