from __future__ import annotations

import dataclasses
import typing

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millpond.state.codec.oldtypes import OldType
from millpond.state.codec.shapes import TypeShape, class_text, described, shape_of, shape_text
from millpond.state.codec.valuecodec import ValueCodec, _alike
from millpond.state.evolution import InexactError, Mismatch, conversion
from tests.sizes import some_of
from tests.unit.state.evolving_types import pairs


def convert(old, new, renamed=None):
    """As a checkpoint does it: the old type is known by its stored shape alone."""
    stored = msgspec.json.decode(msgspec.json.encode(shape_of(old)), type=TypeShape)
    wanted, fillable = described(new)
    return conversion(stored, wanted, fillable, renamed or {})


@settings(max_examples=some_of(100), suppress_health_check=list(HealthCheck), deadline=None)
@given(pairs, st.data())
def test_every_value_becomes_what_it_is_in_the_new_type(pair, data):
    old, new = ValueCodec(pair.old), ValueCodec(pair.new)
    found = convert(pair.old, pair.new, pair.renamed)
    for _ in range(3):
        was, wanted = data.draw(pair.values)
        stored = old.encode(was)
        if not found.rewrites:
            assert new.encode(wanted) == stored
        value = new.decode(found.stored(stored))
        assert value == wanted
        assert _alike(value, wanted)


@settings(max_examples=some_of(60), suppress_health_check=list(HealthCheck), deadline=None)
@given(pairs, st.data())
def test_a_type_is_the_same_as_itself_and_changes_no_byte(pair, data):
    codec = ValueCodec(pair.old)
    found = convert(pair.old, pair.old)
    assert not found.rewrites
    was, _ = data.draw(pair.values)
    assert codec.decode(found.stored(codec.encode(was))) == was


@dataclasses.dataclass
class Item:
    name: str
    price: int


@dataclasses.dataclass
class Priced:
    name: str
    price: float
    currency: str = "EUR"


@dataclasses.dataclass
class Node:
    value: int
    rest: Node | None = None
    others: list[Node] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Grown:
    value: float
    rest: Grown | None = None
    others: list[Grown] = dataclasses.field(default_factory=list)
    note: str = ""


class Sparse(msgspec.Struct, omit_defaults=True):
    a: int = 1
    b: list[int] = msgspec.field(default_factory=list)


class Denser(msgspec.Struct, omit_defaults=True):
    a: int = 2
    b: list[int] = msgspec.field(default_factory=list)
    c: int = 0


class Circle(msgspec.Struct, tag="circle"):
    radius: int


class Square(msgspec.Struct, tag="square"):
    side: int


class Disc(msgspec.Struct, tag="circle"):
    radius: float


class Box(msgspec.Struct, tag="square"):
    side: float
    depth: float = 1.0


def bring(old, new, value, renamed=None):
    found = convert(old, new, renamed)
    return ValueCodec(new).decode(found.stored(ValueCodec(old).encode(value)))


def test_a_class_that_mentions_itself_is_converted_all_the_way_down():
    was = Node(1, Node(2), [Node(3, None, [Node(4)])])
    wanted = Grown(1.0, Grown(2.0), [Grown(3.0, None, [Grown(4.0)])])
    assert bring(Node, Grown, was) == wanted


def test_a_class_that_mentions_itself_is_the_same_as_itself():
    assert not convert(Node, Node).rewrites


def test_what_was_left_out_as_a_default_keeps_the_default_of_its_time():
    assert bring(Sparse, Denser, Sparse()) == Denser(a=1)
    assert bring(Sparse, Denser, Sparse(a=2, b=[3])) == Denser(a=2, b=[3])


def test_members_of_a_union_are_told_apart_by_their_tags():
    assert bring(Circle | Square, Disc | Box, Circle(2)) == Disc(2.0)
    assert bring(Circle | Square, Disc | Box, Square(3)) == Box(3.0)


def test_a_renamed_field_of_one_class_leaves_the_others_alone():
    @dataclasses.dataclass
    class Basket:
        total: int
        item: Item

    @dataclasses.dataclass
    class Cart:
        sum: int
        item: Item

    assert bring(Basket, Cart, Basket(3, Item("a", 1)), {"total": "sum"}) == Cart(3, Item("a", 1))
    assert bring(Basket, Cart, Basket(3, Item("a", 1)), {"Cart.total": "sum"}) == Cart(3, Item("a", 1))
    with pytest.raises(Mismatch, match="`total` is gone"):
        convert(Basket, Cart, {"Item.total": "sum"})


def test_a_field_is_dropped_only_on_request():
    @dataclasses.dataclass
    class Named:
        name: str

    with pytest.raises(Mismatch, match="`price` is gone"):
        convert(Item, Named)
    assert bring(Item, Named, Item("a", 1), {"price": None}) == Named("a")


def test_a_rename_that_was_done_says_nothing_any_more():
    @dataclasses.dataclass
    class Once:
        sum: int

    @dataclasses.dataclass
    class Twice:
        sum: int
        total: int = 5

    assert bring(Once, Twice, Once(1), {"total": "sum"}) == Twice(1)


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**63 - 1])
def test_a_number_that_no_float_is_equal_to_is_refused(number):
    with pytest.raises(InexactError):
        bring(Item, Priced, Item("a", number))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (int, str),
        (float, int),
        (int | None, int),
        (str, bytes),
        (bool, int),
        (int, bool),
        (list[int], set[int]),
        (set[int], list[int]),
        (tuple[int, int], tuple[int, int, int]),
        (list[int], tuple[int, int]),
        (dict[str, int], dict[int, int]),
        (dict[str, int], Item),
        (Item, dict[str, int]),
        (typing.Literal["a", "b"], typing.Literal["a"]),
        (int, typing.Annotated[int, msgspec.Meta(ge=0)]),
        (Priced, Item),
        (list[Priced], list[Item]),
        (Circle | Square, Disc),
    ],
)
def test_what_loses_or_guesses_is_a_mismatch_with_both_sides(old, new):
    with pytest.raises(Mismatch) as caught:
        convert(old, new)
    assert caught.value.old != caught.value.new
    assert caught.value.why


def test_a_mismatch_says_where_it_is():
    @dataclasses.dataclass
    class Shelf:
        items: list[tuple[str, Item]]

    @dataclasses.dataclass
    class Rack:
        items: list[tuple[str, dict[str, int]]]

    with pytest.raises(Mismatch) as caught:
        convert(dict[int, Shelf], dict[int, Rack])
    assert caught.value.path == "[].items[][1]"


def test_plain_values_have_dicts_for_records_and_values_for_members():
    old = OldType(shape_of(dict[str, Node | None]))
    data = ValueCodec(dict[str, Node | None]).encode({"a": Node(1, Node(2)), "b": None})
    one = {"value": 2, "rest": None, "others": []}
    assert old.plain(old.decode(data)) == {"a": {"value": 1, "rest": one, "others": []}, "b": None}


def test_types_and_classes_are_shown_as_they_are_written():
    shape = shape_of(dict[int, list[Item] | None])
    assert shape_text(shape.root) == "dict[int, list[Item] | None]"
    assert class_text(shape.classes[0]) == "Item(name: str, price: int)"


def test_two_classes_of_one_name_are_two():
    first = dataclasses.make_dataclass("Same", [("a", int)])
    second = dataclasses.make_dataclass("Same", [("b", str)])
    shape = shape_of(tuple[first, second])
    assert [known.name for known in shape.classes] == ["Same", "Same (2)"]
