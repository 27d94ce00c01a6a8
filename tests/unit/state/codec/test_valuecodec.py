from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import math
import subprocess
import sys
import uuid
import zoneinfo
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.errors import StateError
from millpond.state.codec.valuecodec import ValueCodec


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Basket:
    items: list[str]
    seen: set[int]
    by_day: dict[str, set[str]]


@dataclasses.dataclass
class Branch:
    name: str
    twigs: list[Branch]


class Packed(msgspec.Struct):
    tags: set[str]
    more: list[int]


class NoStoredForm:
    pass


TEXT = st.text(st.characters(exclude_categories=("Cs",)))
INTS = st.integers(-(2**63), 2**64 - 1)
DAYS = (st.datetimes() | st.datetimes(timezones=st.just(datetime.UTC))).map(lambda day: day.replace(fold=0))
VALUES = {
    int: INTS,
    float: st.floats(),
    str: TEXT,
    bytes: st.binary(),
    bool: st.booleans(),
    None: st.none(),
    int | None: INTS | st.none(),
    int | float | str: INTS | st.floats() | TEXT,
    tuple[int, float | None, str]: st.tuples(INTS, st.floats() | st.none(), TEXT),
    list[int]: st.lists(INTS),
    list[float | None]: st.lists(st.floats() | st.none()),
    dict[str, float]: st.dictionaries(TEXT, st.floats()),
    dict[int, list[str]]: st.dictionaries(INTS, st.lists(TEXT)),
    dict[tuple[int, int], bool]: st.dictionaries(st.tuples(INTS, INTS), st.booleans()),
    set[int]: st.sets(INTS),
    frozenset[str]: st.frozensets(TEXT),
    dict[str, set[int]]: st.dictionaries(TEXT, st.sets(INTS)),
    tuple[int, ...]: st.lists(INTS).map(tuple),
    datetime.date: st.dates(),
    datetime.datetime: DAYS,
    datetime.time: st.times().map(lambda time: time.replace(fold=0)),
    datetime.timedelta: st.timedeltas(datetime.timedelta(-1000), datetime.timedelta(1000)),
    decimal.Decimal: st.decimals(allow_nan=False),
    uuid.UUID: st.uuids(),
    Colour: st.just(Colour.RED),
    Point: st.builds(Point, INTS, INTS),
    Basket: st.builds(Basket, st.lists(TEXT), st.sets(INTS), st.dictionaries(TEXT, st.sets(TEXT))),
    Packed: st.builds(Packed, st.sets(TEXT), st.lists(INTS)),
    Branch: st.recursive(
        st.builds(Branch, TEXT, st.builds(list)), lambda twigs: st.builds(Branch, TEXT, st.lists(twigs)), max_leaves=4
    ),
}
HINTS = list(VALUES)


def refused(hint, value):
    with pytest.raises(StateError) as caught:
        ValueCodec(hint).encode(value)
    return caught.value.code


def same(one, other):
    """Equal, of one type, and in one order; NaN is like itself."""
    if isinstance(one, float):
        return type(other) is float and (one == other or (math.isnan(one) and math.isnan(other)))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@given(st.data(), st.sampled_from(range(len(HINTS))))
def test_a_value_comes_back_as_it_was(data, at):
    hint = HINTS[at]
    value = data.draw(VALUES[hint])
    codec = ValueCodec(hint)
    assert same(codec.decode(codec.encode(value)), value)


@given(st.data(), st.sampled_from(range(len(HINTS))))
def test_many_values_are_encoded_and_decoded_like_each(data, at):
    hint = HINTS[at]
    values = data.draw(st.lists(VALUES[hint], max_size=5))
    codec = ValueCodec(hint)
    encoded = codec.encode_many(values)
    assert encoded == [codec.encode(value) for value in values]
    assert same(codec.decode_many(encoded), values)


@given(st.dictionaries(TEXT, st.sets(INTS)))
def test_a_dict_that_holds_sets_keeps_its_order(value):
    codec = ValueCodec(dict[str, set[int]])
    assert list(codec.decode(codec.encode(value))) == list(value)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (float, 1),
        (float, True),
        (float, np.float64(1)),
        (int, np.int64(1)),
        (int, True),
        (int, 1.0),
        (int, 2**64),
        (int, -(2**63) - 1),
        (int, None),
        (int, Level.LOW),
        (str, b"a"),
        (str, Colour.RED),
        (str, "\ud800"),
        (bytes, bytearray(b"a")),
        (list[float], [1]),
        (list[float], [np.float64(1)]),
        (list[int], (1,)),
        (list[int], [2**64]),
        (list[int], [Level.LOW]),
        (list[str], [Colour.RED]),
        (list[list[int]], [(1,)]),
        (tuple[int, int], [1, 2]),
        (tuple[int, int], (1, 2, 3)),
        (tuple[int, int], Point(1, 2)),
        (tuple[int, float], (1, 2)),
        (tuple[list[int], int], ([1.0], 1)),
        (Point, (1, 2)),
        (dict[str, int], collections.Counter(a=1)),
        (dict[str, int], collections.OrderedDict(a=1)),
        (dict[str, float], {"a": 1}),
        (dict[str, bytes], {"a": bytearray(b"x")}),
        (dict[str, list[bytes]], {"a": [bytearray(b"x")]}),
        (set[int], frozenset({1})),
        (set[int], [1]),
        (set[str], {Colour.RED}),
        (set[float], {math.nan}),
        (frozenset[int], {1}),
        (Basket, {"items": [], "seen": [], "by_day": {}}),
        (datetime.datetime, datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))),
        (datetime.datetime, datetime.datetime(2026, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/London"))),
        (datetime.datetime, datetime.datetime(2026, 1, 1, fold=1)),  # noqa: DTZ001
        (datetime.date, "2026-01-01"),
        (Any, (1,)),
    ],
)
def test_a_value_that_would_come_back_as_something_else_is_refused(hint, value):
    assert refused(hint, value) == "MP209"


def test_a_moment_in_utc_under_another_name_is_taken():
    codec = ValueCodec(datetime.datetime)
    moment = datetime.datetime(2026, 1, 1, tzinfo=zoneinfo.ZoneInfo("UTC"))
    assert codec.decode(codec.encode(moment)) == moment


def test_a_value_nested_without_end_is_refused():
    endless: list[Any] = []
    endless.append(endless)
    assert refused(list, endless) == "MP209"


def test_the_refused_value_is_shown_and_not_its_neighbours():
    with pytest.raises(StateError) as caught:
        ValueCodec(tuple[int, float]).encode_many([(1, 1.0), (2, 2), (3, 3.0)])
    assert "(2, 2)" in caught.value.found
    with pytest.raises(StateError) as caught:
        ValueCodec(int).encode_many([1, 2**70, 3])
    assert str(2**70) in caught.value.found


def test_negative_zero_and_nan_keep_their_nature():
    codec = ValueCodec(list[float])
    zero, nan = codec.decode(codec.encode([-0.0, math.nan]))
    assert math.copysign(1, zero) == -1
    assert math.isnan(nan)


@pytest.mark.parametrize("hint", [complex, NoStoredForm, list[NoStoredForm], dict[str, NoStoredForm], "Unknown", 3])
def test_a_type_without_a_stored_form_is_refused_when_declared(hint):
    with pytest.raises(StateError) as caught:
        ValueCodec(hint)
    assert caught.value.code == "MP208"


def test_bytes_of_another_type_are_a_coded_error():
    codec = ValueCodec(int)
    data = ValueCodec(str).encode("a")
    for decode in (codec.decode, lambda raw: codec.decode_many([raw])):
        with pytest.raises(StateError) as caught:
            decode(data)
        assert caught.value.code == "MP215"


def test_equal_sets_have_equal_bytes_under_every_hash_seed():
    code = (
        "from millpond.state.codec.valuecodec import ValueCodec\n"
        "words = {f'w{n}' for n in range(50)}\n"
        "value = {'b': words, 'a': words | {'x'}}\n"
        "print(ValueCodec(dict[str, set[str]]).encode(value).hex())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("hint", "immutable"), [(int, True), (tuple[int, str], True), (list[int], False), (dict[str, int], False)]
)
def test_only_values_that_can_not_change_in_place_count_as_immutable(hint, immutable):
    assert ValueCodec(hint).immutable is immutable


@pytest.mark.parametrize(
    ("hint", "make", "parts"),
    [
        (list[list[int]], lambda x: [x, x], lambda value: value),
        (dict[str, list[int]], lambda x: {"a": x, "b": x}, lambda value: list(value.values())),
        (tuple[list[int], list[int]], lambda x: (x, x), list),
    ],
)
def test_an_object_in_two_places_comes_back_as_two(hint, make, parts):
    own = [1]
    first, second = parts(ValueCodec(hint).renew(make(own)))
    assert first == second == own
    assert len({id(first), id(second), id(own)}) == 3


def test_values_that_can_not_be_changed_may_be_in_many_places():
    nan, point = float("nan"), (1, 2)
    assert ValueCodec(list[list[float]]).encode([[nan, nan], [nan]])
    assert ValueCodec(list[tuple[int, int]]).encode_many([[point, point], [point]])
