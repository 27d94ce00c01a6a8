from __future__ import annotations

import dataclasses
import datetime
import enum
from typing import Any, Literal

import msgspec
import pytest

from millpond.compiler.mutability import field_of, is_frozen, items_of


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
