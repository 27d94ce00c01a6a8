"""Types from their text, values without their classes, keys from text, and all of it as JSON."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import math
import uuid
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.checkpoint.read.elements import ElementReader
from millpond.checkpoint.read.keytexts import parse_key
from millpond.checkpoint.read.loose import decode_loosely
from millpond.checkpoint.read.plain import as_json, as_text, json_text, printable
from millpond.checkpoint.read.typetexts import UNKNOWN, TypeText, read_type
from millpond.checkpoint.records.manifest import ElementSchema
from millpond.errors import StateError
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.typenames import type_text
from millpond.state.codec.valuecodec import ValueCodec


@dataclass(frozen=True)
class Spot:
    x: int
    tags: frozenset[str] = frozenset()


class Colour(enum.Enum):
    RED = "red"


class Pair(NamedTuple):
    left: int
    right: float


class Box(msgspec.Struct):
    inside: list[int]


@dataclass
class date:  # noqa: N801 - that a class of a program may bear this name is the point
    year: int


def reader_of(key: str = "int", value: str = "int", kind: str = "map", partial: bool = False) -> ElementReader:
    schema = ElementSchema("things", kind, "partial" if partial else "partitioned", "", key, value)
    return ElementReader(0, schema, key_groups=8, instances=2)


KNOWN = [
    *(int, float, str, bytes, bool, None),
    *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, decimal.Decimal, uuid.UUID),
    *(list[int], dict[str, list[float]], set[tuple[int, str]], frozenset[bytes], tuple[int, ...], tuple[()]),
    *(int | None, int | str | None, dict[tuple[int, str], datetime.date | None], list[dict[str, tuple[float, ...]]]),
    *(list, dict, set, tuple),
]


@pytest.mark.parametrize("hint", KNOWN, ids=type_text)
def test_a_type_of_known_names_comes_back_from_its_text(hint):
    found = read_type(type_text(hint))
    assert found.known
    assert found.hint == hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("Spot", Any),
        ("Spot | None", Any),
        ("list[Spot]", list[Any]),
        ("set[Spot]", list[Any]),
        ("dict[str, Spot]", dict[str, Any]),
        ("dict[Spot, int]", Any),
        ("Box[int]", Any),
        ("some.where.Spot", Any),
        (type_text(Literal["a", "b"]), Any),
        (type_text(Annotated[int, msgspec.Meta(ge=0)]), int),
    ],
)
def test_what_is_unknown_reads_as_anything(text, hint):
    found = read_type(text)
    assert found.hint == hint
    assert not found.certain


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "[", "]", "int]", "int[", "list[int", "list[int]]", "list[int, str]", "dict[int]", "int |", "| int"),
        *("list[...]", "tuple[..., int]", "tuple[int, str, ...]", "1", "int int", "f(x)", "'int'", "int, str", "\0"),
        "Annotated[int, 'a]'",
        "list[" * 1000 + "int" + "]" * 1000,
        "[" * 100_000,
    ],
)
def test_text_that_is_no_type_is_unknown_and_no_more(text):
    assert read_type(text) == UNKNOWN


@given(st.text() | st.text(alphabet="intls[],| .").map(lambda text: f"list[{text}"))
def test_no_text_breaks_the_reader(text):
    assert isinstance(read_type(text), TypeText)


VALUES = [
    (Spot, Spot(1, frozenset({"b", "a"})), {"x": 1, "tags": ["a", "b"]}),
    (Colour, Colour.RED, "red"),
    (Pair, Pair(1, 2.0), [1, 2.0]),
    (Box, Box([1]), {"inside": [1]}),
    (list[Spot], [Spot(1)], [{"x": 1, "tags": []}]),
    (set[Spot], {Spot(1)}, [{"x": 1, "tags": []}]),
    (dict[str, Colour], {"a": Colour.RED}, {"a": "red"}),
    (dict[Spot, int], {Spot(1): 2}, [[{"x": 1, "tags": []}, 2]]),
    (list[dict[Spot, int]], [{Spot(1): 2}], [[[{"x": 1, "tags": []}, 2]]]),
    (dict[frozenset[int], int], {frozenset({2, 1}): 3}, {frozenset({1, 2}): 3}),
    (dict[tuple[int, Colour], int], {(1, Colour.RED): 3}, {(1, "red"): 3}),
    (date, date(5), {"year": 5}),
    (int | Spot, Spot(1), {"x": 1, "tags": []}),
    (Annotated[int, msgspec.Meta(ge=0)], 4, 4),
    (datetime.datetime, datetime.datetime(2024, 1, 2), datetime.datetime(2024, 1, 2)),  # noqa: DTZ001
    (list[decimal.Decimal], [decimal.Decimal("1.50")], [decimal.Decimal("1.50")]),
    (dict[datetime.date, uuid.UUID | None], {datetime.date(1, 1, 1): uuid.UUID(int=1)}, None),
]


@pytest.mark.parametrize(("hint", "value", "shown"), VALUES, ids=[type_text(hint) for hint, _, _ in VALUES])
def test_values_of_any_class_show_as_what_they_are_made_of(hint, value, shown):
    data = ValueCodec(hint).encode(value)
    reader = reader_of(value=type_text(hint))
    wanted = value if shown is None else shown
    assert reader.decode_value(data) == wanted
    assert reader.decode_values([data, data]) == [wanted, wanted]
    reader.check_value(data)


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
    | st.binary(max_size=300)
    | st.datetimes(timezones=st.just(datetime.UTC)),
    lambda inner: (
        st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=20)
    ),
    max_leaves=30,
)


@given(plain_values)
def test_the_loose_reader_reads_what_msgspec_reads(value):
    try:
        data = msgspec.msgpack.encode(value)
    except OverflowError:
        return
    assert decode_loosely(data) == msgspec.msgpack.decode(data)


@pytest.mark.parametrize("size", [15, 16, 31, 32, 255, 256, 65535, 65536])
def test_the_loose_reader_reads_every_length(size):
    for value in ("x" * size, b"x" * size, [1] * size, dict.fromkeys(range(size)), [1.5, -1, -200]):
        assert decode_loosely(msgspec.msgpack.encode(value)) == value


@given(st.binary(max_size=40))
def test_no_bytes_break_the_loose_reader(data):
    try:
        decode_loosely(data)
    except ValueError:
        with pytest.raises((msgspec.MsgspecError, ValueError)):
            msgspec.msgpack.decode(data)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x01\x02", b"\x92\x01", b"\xdb\xff\xff\xff\xff", b"\xa2\xff\xfe"])
def test_bytes_that_are_no_value_are_told(data):
    with pytest.raises(StateError) as caught:
        reader_of().decode_value(data)
    assert caught.value.code == "MP244"


def test_a_value_of_another_type_is_seen_where_the_type_is_certain():
    text = msgspec.msgpack.encode("text")
    for certain in ("int", "dict[str, int] | None"):
        with pytest.raises(StateError) as caught:
            reader_of(value=certain).check_value(text)
        assert caught.value.code == "MP244"
    for uncertain in ("date", "Spot"):
        reader_of(value=uncertain).check_value(text)


KEYS = [
    (
        int,
        ["0", "-7", "+7", "9223372036854775807"],
        [0, -7, 7, 2**63 - 1],
        ["", "1.0", "x", f"{2**63}", "\u0661", "1" * 5000],
    ),
    (str, ["", "a b", "ä", "-x"], ["", "a b", "ä", "-x"], ["\udc80"]),
    (bytes, ["", "00ff", "DE AD"], [b"", b"\0\xff", b"\xde\xad"], ["0", "xx"]),
    (bool, ["true", "False"], [True, False], ["1", "yes", ""]),
    (datetime.date, ["2024-02-29"], [datetime.date(2024, 2, 29)], ["2023-02-29", "20240229", "2024-1-1", ""]),
    (
        tuple[str, int, bytes, bool, datetime.date],
        ['["a", -1, "ff", true, "2024-01-01"]'],
        [("a", -1, b"\xff", True, datetime.date(2024, 1, 1))],
        [
            "a",
            "[]",
            '["a", -1, "ff", true]',
            '["a", true, "ff", true, "2024-01-01"]',
            '{"a": 1}',
            "[1, 1, 1, 1, 1]",
            "[",
        ],
    ),
]


@pytest.mark.parametrize(("hint", "texts", "keys", "wrong"), KEYS, ids=[type_text(hint) for hint, *_ in KEYS])
def test_keys_are_read_by_their_type(hint, texts, keys, wrong):
    reader = reader_of(key=type_text(hint))
    assert [parse_key(reader, text) for text in texts] == keys
    for text in (*wrong, None):
        with pytest.raises(StateError) as caught:
            parse_key(reader, text)
        assert caught.value.code == "MP241"


def test_a_value_has_no_key():
    reader = reader_of(key="tuple[]", kind="value")
    assert parse_key(reader, None) == ()
    with pytest.raises(StateError) as caught:
        parse_key(reader, "x")
    assert caught.value.code == "MP241"


def test_keys_of_an_unknown_type_are_told():
    with pytest.raises(StateError) as caught:
        parse_key(reader_of(key="Spot"), "1")
    assert caught.value.code == "MP245"


HINTS = [int, str, bytes, bool, datetime.date, tuple[str, int], tuple[int, bytes, str], tuple[bool, datetime.date]]


@given(st.sampled_from(HINTS), st.data())
def test_keys_come_back_and_cut_ones_are_told_without_end(hint, data):
    key = data.draw(st.from_type(hint))
    try:
        unit = KeyCodec(hint).encode(key)
    except StateError:
        return
    reader = reader_of(key=type_text(hint))
    assert reader.decode_key(unit) == key
    if hint not in (str, bytes) and unit:
        for wrong in (unit[:-1], unit + b"x", b""):
            with pytest.raises(StateError):
                reader.decode_key(wrong)


def test_json_has_a_form_for_everything():
    value = {
        "bytes": b"\0\xff",
        "day": datetime.date(2024, 1, 2),
        "moment": datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC),
        "time": datetime.time(1, 2),
        "span": datetime.timedelta(days=1, seconds=1),
        "decimal": decimal.Decimal("1.50"),
        "id": uuid.UUID(int=1),
        "numbers": [1, 2**64 - 1, 1.5, math.nan, math.inf, -math.inf, True, None],
        "set": {3, 1, 2},
        "words": frozenset({"b", "a"}),
        "tuple": (1, "a"),
        "keys": {1: "a", True + 1: "b", (1, "x"): "c", None: "d", datetime.date(2024, 1, 2): "e", b"\1": "f"},
        "clash": {1: "a", "1": "b"},
    }
    assert json.loads(json_text(as_json(value))) == {
        "bytes": "00ff",
        "day": "2024-01-02",
        "moment": "2024-01-02T00:00:00+00:00",
        "time": "01:02:00",
        "span": "P1DT1S",
        "decimal": "1.50",
        "id": "00000000-0000-0000-0000-000000000001",
        "numbers": [1, 2**64 - 1, 1.5, "NaN", "Infinity", "-Infinity", True, None],
        "set": [1, 2, 3],
        "words": ["a", "b"],
        "tuple": [1, "a"],
        "keys": {"1": "a", "2": "b", '[1,"x"]': "c", "null": "d", "2024-01-02": "e", "01": "f"},
        "clash": [[1, "a"], ["1", "b"]],
    }


def test_text_for_people_does_not_depend_on_the_run():
    value = {"a": {"x", "y", "z"}, "b": (1,), "c": [datetime.date(2024, 1, 2)], "d": set(), "e": "\x1b[31m"}
    shown = r"{'a': {'x', 'y', 'z'}, 'b': (1,), 'c': [2024-01-02], 'd': set(), 'e': '\x1b[31m'}"
    assert as_text(value) == shown
    assert printable("a\x1b[31m\n\u202eb\udc80") == r"a\x1b[31m\n\u202eb\udc80"
