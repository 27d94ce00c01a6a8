from __future__ import annotations

import dataclasses
import datetime
import enum
import uuid
from collections import Counter, defaultdict, deque, namedtuple
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypedDict, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from millpond.compiler.analysis.mutability import can_travel, field_of, is_frozen, items_of
from millpond.state.containers.vector import Vector

T = TypeVar("T")


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    name: str
    size: int | None


@dataclasses.dataclass(frozen=True)
class Half:
    names: list[str]


@dataclasses.dataclass
class Open:
    name: str
    rows: list[int]


class Record(msgspec.Struct, frozen=True):
    name: str


class Pair(NamedTuple):
    one: int
    other: str


class Held(NamedTuple):
    items: list[int]


Loose = namedtuple("Loose", "a b")  # noqa: PYI024


@dataclasses.dataclass(frozen=True)
class Chain:
    after: Chain | None


@dataclasses.dataclass
class Box(Generic[T]):
    inside: T


class Table(TypedDict):
    rows: list[int]


class Loud(msgspec.Struct):
    x: int

    def __post_init__(self) -> None:
        pass


@dataclasses.dataclass
class Opaque:
    x: int
    thing: bytearray


@pytest.mark.parametrize(
    "hint",
    [Pair, Chain, np.float64, range, complex, datetime.timedelta, Annotated[int, msgspec.Meta(ge=0)]],
)
def test_named_tuples_numbers_and_classes_that_name_themselves_are_frozen(hint):
    assert is_frozen(hint)


@pytest.mark.parametrize("hint", [Held, Loose, np.ndarray, Annotated[list[int], "x"], Box[int]])
def test_what_may_hold_something_open_is_not_frozen(hint):
    assert not is_frozen(hint)


TRAVELLING = [
    *(int, None, str | None, complex, datetime.timedelta, Decimal, uuid.UUID),
    *(list, list[int], tuple[int, ...], tuple[()]),
    *(dict[str, set[int]], frozenset[Pair], Vector[int], deque[int], Counter[str], defaultdict[str, int], range),
    *(Colour, Frozen, Half, Open, Record, Pair, Loose, Chain, Box[int], Box, Table, Literal["a"], Annotated[int, "x"]),
    *(np.float64, np.ndarray, npt.NDArray[np.float64], Any, object, T),
]  # fmt: skip


@pytest.mark.parametrize("hint", TRAVELLING, ids=str)
def test_values_of_these_types_can_travel(hint):
    assert can_travel(hint)


@pytest.mark.parametrize(
    "hint",
    [
        bytearray,
        memoryview,
        type,
        Loud,
        Opaque,
        list[bytearray],
        dict[str, Opaque],
        Opaque | None,
        npt.NDArray[np.object_],
    ],
    ids=str,
)
def test_values_of_these_types_can_not(hint):
    assert not can_travel(hint)


@pytest.mark.parametrize(
    "hint",
    [int, None, str | None, tuple[int, ...], datetime.date, Colour, Frozen, Record, Literal["a"], frozenset[int]],
)
def test_these_types_are_frozen(hint):
    assert is_frozen(hint)


@pytest.mark.parametrize("hint", [list[int], dict[str, int], set[int], tuple[list[int], int], Half, Open, Any, object])
def test_these_types_are_not_frozen(hint):
    assert not is_frozen(hint)


@pytest.mark.parametrize(
    ("hint", "items"),
    [
        (list[int], (int,)),
        (dict[str, list[int]], (list[int],)),
        (tuple[int, ...], (int,)),
        (list[int] | None, (int,)),
        (Open, (Any,)),
        (int, ()),
    ],
)
def test_a_container_tells_what_it_holds(hint, items):
    assert items_of(hint) == items


def test_a_record_tells_the_types_of_its_fields():
    assert field_of(Open, "rows") == list[int]
    assert field_of(Open | None, "name") is str
    assert field_of(Open, "other") is Any
