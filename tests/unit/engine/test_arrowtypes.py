from __future__ import annotations

import datetime
import decimal
import itertools
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.engine.arrowtypes import arrow_type, bare_hint, optional, reader, struct_fields, to_arrow
from millpond.errors import FeedError
from millpond.state.containers.vector import Vector
from tests.sizes import some_of


class Point(NamedTuple):
    x: int
    y: str | None


@dataclass(frozen=True)
class Order:
    item: str
    amounts: list[float]
    at: Point | None


@dataclass(kw_only=True, frozen=True)
class Named:
    b: int
    a: str


TEXT = st.text(st.characters(exclude_categories=("Cs",)))
INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False)
POINTS = st.builds(Point, INTS, TEXT | st.none())
MOMENTS = st.datetimes(timezones=st.just(datetime.UTC))
VALUES = [
    (int, INTS),
    (float, FLOATS),
    (str, TEXT),
    (bytes, st.binary()),
    (bool, st.booleans()),
    (datetime.date, st.dates()),
    (datetime.datetime, MOMENTS),
    (decimal.Decimal, st.decimals(-(10**18), 10**18, places=18)),
    (Annotated[int, msgspec.Meta(ge=0)], INTS),
    (list[int], st.lists(INTS)),
    (list[str | None], st.lists(TEXT | st.none())),
    (set[int], st.sets(INTS)),
    (frozenset[str], st.frozensets(TEXT)),
    (tuple[int, ...], st.lists(INTS).map(tuple)),
    (tuple[int, str | None, list[bool]], st.tuples(INTS, TEXT | st.none(), st.lists(st.booleans()))),
    (dict[str, int], st.dictionaries(TEXT, INTS)),
    (dict[int, list[str]], st.dictionaries(INTS, st.lists(TEXT))),
    (dict[str, float | None], st.dictionaries(TEXT, FLOATS | st.none())),
    (Vector[int], st.dictionaries(INTS, FLOATS).map(Vector)),
    (Point, POINTS),
    (Order, st.builds(Order, TEXT, st.lists(FLOATS), POINTS | st.none())),
    (Named, st.builds(Named, b=INTS, a=TEXT)),
    (list[Order], st.lists(st.builds(Order, TEXT, st.lists(FLOATS), POINTS | st.none()), max_size=3)),
    (list[list[tuple[int, int]]], st.lists(st.lists(st.tuples(INTS, INTS), max_size=3), max_size=3)),
    (dict[str, dict[str, Point]], st.dictionaries(TEXT, st.dictionaries(TEXT, POINTS, max_size=2), max_size=2)),
]


@given(st.data(), st.integers(0, len(VALUES) - 1))
def test_a_column_comes_back_from_arrow_as_it_went(data, at):
    hint, values = VALUES[at]
    column = data.draw(st.lists(values | st.none(), max_size=5))
    array = to_arrow(column, hint | None if not hasattr(hint, "__metadata__") else hint)
    assert array.type == arrow_type(hint)
    array.validate(full=True)
    back = reader(hint)(array)
    assert back == column
    assert list(map(type, back)) == list(map(type, column))


@settings(max_examples=some_of(50))
@given(st.data(), st.integers(0, len(VALUES) - 1))
def test_a_slice_of_a_column_reads_as_its_rows(data, at):
    hint, values = VALUES[at]
    column = data.draw(st.lists(values | st.none(), min_size=3, max_size=5))
    assert reader(hint)(to_arrow(column, hint).slice(1, 2)) == column[1:3]


def test_the_same_set_gives_the_same_column():
    one = to_arrow([{3, 1, 2}], set[int])
    assert one.to_pylist() == [[1, 2, 3]]


def test_equal_strings_are_one_object():
    first, second, other = reader(str)(pa.array(["ab" * 9, "ab" * 9, "c"]))
    assert first is second
    assert other == "c"


def test_an_empty_column_of_any_type_has_no_values():
    for hint, _ in VALUES:
        assert reader(hint)(to_arrow([], hint)) == []


def test_a_reply_of_nothing_is_a_column_of_nulls():
    assert to_arrow([None, None], None).null_count == 2


@pytest.mark.parametrize(
    "hint",
    [
        object,
        complex,
        list,
        dict,
        tuple,
        tuple[()],
        Vector,
        int | str,
        list[object],
        dict[str, complex],
        datetime.time,
        datetime.timedelta,
    ],
)
def test_a_type_without_a_column_type_is_refused(hint):
    with pytest.raises(FeedError) as caught:
        arrow_type(hint)
    assert caught.value.code == "MP501"


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, "a"),
        (int, 1.5),
        (int, 1.0),
        (int | None, 1.5),
        (list[int], [1, 1.5]),
        (str, b"a"),
        (int, 2**63),
        (str, 1),
        (tuple[int, str], (1,)),
        (tuple[int, str], (1, "a", 2)),
        (Point, (1, "a", 3)),
        (Order, "order"),
        (list[int], ["a"]),
        (list[int], 3),
        (dict[str, int], {"a": "b"}),
        (dict[str, int], {None: 1}),
        (decimal.Decimal, decimal.Decimal("1e-19")),
        (set[int], {1, "a"}),
    ],
)
def test_a_value_that_does_not_fit_raises_what_the_runtime_expects(hint, value):
    with pytest.raises((pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError)):
        to_arrow([value], hint)


@pytest.mark.parametrize(
    ("hint", "bare", "may_be_none"),
    [
        (int, int, False),
        (int | None, int, True),
        (Annotated[int, "x"], int, False),
        (Annotated[int | None, "x"], int, True),
        (Annotated[int, "x"] | None, int, True),
        (None, None, True),
        (int | str, int | str, False),
    ],
)
def test_a_hint_is_stripped_of_what_is_not_its_type(hint, bare, may_be_none):
    assert bare_hint(hint) == bare
    assert optional(hint) is may_be_none


def test_structs_have_named_or_numbered_fields():
    assert struct_fields(Point) == [("x", int), ("y", str | None)]
    assert [name for name, _ in struct_fields(Order)] == ["item", "amounts", "at"]
    assert struct_fields(tuple[int, str]) == [("_1", int), ("_2", str)]
    assert struct_fields(tuple[int, ...]) is None
    assert struct_fields(int) is None


@pytest.mark.parametrize(
    ("hint", "members"),
    [
        (set[frozenset[int]], [frozenset((1, 9)), frozenset((2,)), frozenset((9, 17, 1)), frozenset((33,))]),
        (set[int | None], [3, None, 1, 9]),
        (set[tuple[str, int | None]], [("a", None), ("a", 1), ("b", 2)]),
        (set[float], [1.0, float("nan"), 9.0, 3.0, 17.0]),
    ],
)
def test_members_that_can_not_be_compared_have_one_order_in_a_column(hint, members):
    columns = {str(to_arrow([set(order)], hint).to_pylist()) for order in itertools.permutations(members)}
    assert len(columns) == 1


def test_a_set_is_walked_alike_whatever_the_order_of_its_column():
    members = [0, 8, 16, 24, 32]
    rows = pa.array([list(order) for order in itertools.permutations(members)])
    assert len({tuple(value) for value in reader(set[int])(rows)}) == 1
