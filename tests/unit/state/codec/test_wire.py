from __future__ import annotations

import collections
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
from millpond.state.codec.wire import decode_values, encode_values
from millpond.state.containers.vector import Vector

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
    | st.timedeltas()
    | st.complex_numbers(allow_nan=False)
    | st.builds(range, st.integers(), st.integers(), st.integers(1, 9))
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
        | st.lists(inner, max_size=4).map(collections.deque)
        | st.dictionaries(MEMBERS, inner, max_size=4)
        | st.dictionaries(MEMBERS, inner, max_size=4).map(collections.OrderedDict)
    ),
    max_leaves=12,
)


def shape(value):
    """A value with the types of all its parts, in their order."""
    if isinstance(value, dict):
        return type(value), [(shape(key), shape(item)) for key, item in value.items()]
    if isinstance(value, list | tuple | collections.deque):
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
        bytearray(b"a"),
        memoryview(b"a"),
        np.array([Own()]),
        np.ma.masked_array([1, 2]),
        np.array([(1, Own())], dtype=[("n", "i4"), ("o", "O")])[0],
        collections.defaultdict(lambda: 1),
        collections.UserDict(),
        len,
        iter([1]),
        datetime.datetime(2026, 1, 1, tzinfo=OwnZone()),
        "\ud800",
        ["\ud800"],
        {"\ud800": 1},
        {math.nan: 1},
        {math.nan},
        frozenset({(1, math.nan)}),
        {decimal.Decimal("NaN"): 1},
        ENDLESS,
        uuid,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_can_not_travel_is_refused(value):
    with pytest.raises(RowError) as caught:
        encode_values((1, value))
    assert caught.value.code == "MP601"
    str(caught.value).encode()


@pytest.mark.parametrize("value", [Own(), "\ud800", ENDLESS, {math.nan}], ids=lambda value: type(value).__name__)
def test_a_refusal_names_the_variable(value):
    with pytest.raises(RowError) as caught:
        encode_values((1, value, Own()), ("count", "basket", "rest"))
    assert caught.value.summary.startswith("`basket` is used after the method moves")


def test_a_part_of_an_expression_has_no_name_that_the_user_knows():
    with pytest.raises(RowError) as caught:
        encode_values((Own(),), ("value__3",))
    assert caught.value.summary.startswith("a variable is used after the method moves")


def test_integers_of_any_size_travel():
    values = [n + d for n in (2**63, 2**64, -(2**63), 10**6000, -(10**6000), 256**9, -(256**9)) for d in (-1, 0, 1)]
    assert decode_values(encode_values((*values, values))) == [*values, values]


def test_equal_numbers_of_different_types_stay_apart_in_values_and_keys():
    before = (1, 1.0, True, [1, 1.0, True], {1: "a"}, {1.0: "a"}, {True: "a"}, {1}, {True}, (1, True), -0.0)
    assert shape(decode_values(encode_values(before))) == shape(list(before))


ARRAYS = [
    np.zeros((2, 3)),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(12).reshape(3, 4)[::2, 1::2],
    np.array([], dtype="<U3"),
    np.array(["a\0b", "\u20ac"]),
    np.array(5, dtype=">i2"),
    np.array([(1, 2.5)], dtype=[("n", "i4"), ("x", "f8")]),
    np.array(["2026-08-01", "NaT"], dtype="M8[us]"),
    np.zeros((0, 4), dtype=bool),
    np.array([1 + 2j, complex(math.nan, -0.0)]),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: str(array.dtype))
def test_arrays_keep_their_type_shape_layout_and_bytes(array):
    (back,) = decode_values(encode_values((array,)))
    assert (type(back), back.dtype, back.shape) == (np.ndarray, array.dtype, array.shape)
    assert back.tobytes() == array.tobytes()
    assert back.flags.f_contiguous == (array.flags.f_contiguous or back.ndim < 2)
    assert back.flags.writeable
    back[...] = back  # its memory is its own


def test_an_array_that_is_closed_for_writing_stays_closed():
    closed = np.arange(3)
    closed.flags.writeable = False
    (back,) = decode_values(encode_values((closed,)))
    assert not back.flags.writeable


SCALARS = [
    np.float64(1.5),
    np.float32(-0.0),
    np.int8(-3),
    np.uint64(2**64 - 1),
    np.bool_(True),
    np.complex64(1j),
    np.str_(""),
    np.str_("a\0"),
    np.bytes_(b"a\0"),
    np.datetime64("2026-08-01T01:02:03"),
    np.timedelta64(5, "s"),
    np.array([(1, 2.5)], dtype=[("n", "i4"), ("x", "f8")])[0],
]


@pytest.mark.parametrize("scalar", SCALARS, ids=lambda scalar: str(scalar.dtype))
def test_numpy_scalars_stay_what_they_are(scalar):
    back, nested = decode_values(encode_values((scalar, [scalar])))
    assert (type(back), repr(back), back.dtype) == (type(scalar), repr(scalar), scalar.dtype)
    assert type(nested[0]) is type(scalar)


@pytest.mark.parametrize(
    "value",
    [
        collections.Counter("abca"),
        collections.defaultdict(list, {2: [1], 1: []}),
        collections.defaultdict(None, {1: 2}),
        collections.deque([1, (2,)], maxlen=2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_collections_of_the_library_keep_their_nature(value):
    (back,) = decode_values(encode_values((value,)))
    assert shape(back) == shape(value)
    assert getattr(back, "maxlen", None) == getattr(value, "maxlen", None)
    assert getattr(back, "default_factory", None) is getattr(value, "default_factory", None)


def test_sets_have_the_same_bytes_under_every_hash_seed():
    code = (
        "from millpond.state.codec.wire import encode_values; "
        "print(encode_values(({f'w{n}' for n in range(50)},)).hex())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1
