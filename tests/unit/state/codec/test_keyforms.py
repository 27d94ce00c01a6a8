"""Keys of classes: stored as plain keys, in the order of their bytes, equal to what they were."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import random
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, NamedTuple

import pytest

from millpond.errors import StateError
from millpond.keygroups import stable_hash
from millpond.state.codec.keycodec import KeyCodec
from millpond.state.codec.keyforms import in_key_order


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 9


class Bits(enum.Flag):
    A = 1
    B = 2


class Room(NamedTuple):
    hotel: str
    number: int


@dataclass(frozen=True)
class Sku:
    name: str
    colour: Colour

    def __lt__(self, other: Sku) -> bool:
        return self.name > other.name  # an order of its own, which is not that of the bytes


@dataclass(frozen=True, slots=True)
class Nested:
    room: Room
    day: datetime.date


UTC = datetime.UTC
MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, 678)  # noqa: DTZ001
FIRST, LAST = datetime.datetime.min, datetime.datetime.max  # noqa: DTZ901
KEYS = [
    (Colour, [Colour.BLUE, Colour.RED]),
    (Level, [Level.LOW, Level.HIGH]),
    (Bits, [Bits.A, Bits.B, Bits.A | Bits.B]),
    (Room, [Room("a", -1), Room("a", 2), Room("b", 0), Room("b\0", 0)]),
    (Sku, [Sku("a", Colour.RED), Sku("b", Colour.BLUE), Sku("b", Colour.RED)]),
    (Nested, [Nested(Room("a", 1), datetime.date(1999, 1, 1)), Nested(Room("a", 2), datetime.date(1, 1, 1))]),
    (tuple[tuple[int, str], Colour], [((1, "x"), Colour.RED), ((2, ""), Colour.BLUE)]),
    (datetime.datetime, [FIRST, MOMENT, LAST]),
    (datetime.datetime, [moment.replace(tzinfo=UTC) for moment in (FIRST, MOMENT)]),
    (datetime.timedelta, [datetime.timedelta(days=days, microseconds=7) for days in (-3, 0, 1, 40_000)]),
    (Literal["down", "up"], ["down", "up"]),
    (tuple[Literal[1, 2], datetime.timedelta], [(1, datetime.timedelta(9)), (2, datetime.timedelta(1))]),
    (uuid.UUID, [uuid.UUID(int=0), uuid.UUID(int=1), uuid.UUID(int=2**128 - 1)]),
    (Decimal, [Decimal(text) for text in ("-1E+30", "-100", "-1.5", "-1.25", "0", "1E-9", "0.1", "1.25", "2", "10")]),
]


@pytest.mark.parametrize(("hint", "keys"), KEYS)
def test_a_key_comes_back_as_it_was_and_bytes_have_one_order(hint, keys):
    codec = KeyCodec(hint)
    encoded = [codec.encode(key) for key in keys]
    assert encoded == sorted(encoded)
    assert len(set(encoded)) == len(keys)
    for key, data in zip(keys, encoded, strict=True):
        back = codec.decode(data)
        assert back == key
        assert type(back) is type(key)
    shuffled = random.Random(7).sample(keys, len(keys))
    assert in_key_order(shuffled) == keys


@pytest.mark.parametrize(("hint", "keys"), KEYS)
def test_what_is_stored_can_be_read_without_the_class(hint, keys):
    codec = KeyCodec(hint)
    plain = KeyCodec(codec.stored)
    for key in keys:
        stored = plain.decode(codec.encode(key))
        assert plain.encode(stored) == codec.encode(key)
        assert stable_hash(stored) == stable_hash(key)


def test_moments_without_a_zone_come_before_those_in_utc():
    keys = [MOMENT.replace(tzinfo=UTC), MOMENT]
    assert in_key_order(keys) == [MOMENT, MOMENT.replace(tzinfo=UTC)]


def test_decimals_that_python_takes_for_one_are_one_key():
    codec = KeyCodec(tuple[Decimal, str])
    ways = [Decimal("1.50"), Decimal("1.5"), Decimal("15E-1")]
    assert len({codec.encode((way, "x")) for way in ways}) == 1
    assert len({stable_hash(way) for way in ways}) == 1
    assert str(codec.decode(codec.encode((ways[0], "x")))[0]) == "1.5"
    assert [str(key) for key in in_key_order([Decimal("1E+2"), Decimal("-0"), Decimal("1.50")])] == ["0", "1.5", "100"]


@dataclass
class Changeable:
    name: str


@dataclass(frozen=True)
class Hidden:
    name: str
    note: str = dataclasses.field(default="", compare=False)


@dataclass(frozen=True)
class Folded:
    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Folded) and other.name.lower() == self.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())


@dataclass(frozen=True)
class Weight:
    grams: float


class Mixed(enum.Enum):
    A = 1
    B = "b"


class Plain:
    name: str


@pytest.mark.parametrize("hint", [Changeable, Hidden, Folded, Weight, Mixed, Plain, tuple[Weight, int]])
def test_a_class_whose_keys_could_be_confused_is_refused(hint):
    with pytest.raises(StateError) as caught:
        KeyCodec(hint)
    assert caught.value.code == "MP202"


@pytest.mark.parametrize(
    ("hint", "key"),
    [
        (Colour, "red"),
        (Level, 1),
        (Room, ("a", 1)),
        (Room, Room("a", True)),
        (Sku, Sku("a", "red")),
        (datetime.datetime, MOMENT.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=1)))),
        (datetime.datetime, MOMENT.replace(fold=1)),
        (uuid.UUID, str(uuid.UUID(int=1))),
        (Decimal, Decimal("NaN")),
        (Decimal, Decimal("Infinity")),
        (Decimal, 1),
    ],
)
def test_what_is_equal_but_no_key_of_the_type_is_refused(hint, key):
    with pytest.raises(StateError) as caught:
        KeyCodec(hint).encode(key)
    assert caught.value.code == "MP207"


def test_numbers_inside_of_records_have_64_bits():
    with pytest.raises(StateError) as caught:
        KeyCodec(Room).encode(Room("a", 2**63))
    assert caught.value.code == "MP201"
