"""Deques, the dicts of `collections` and plain classes as values: they come back as they were, or are refused."""

from __future__ import annotations

import collections
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from millpond.errors import StateError
from millpond.state.codec.shapes import shape_of, shape_text
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.codec.wire import decode_values, encode_message


class Point:
    x: int
    tags: set[str]
    made: ClassVar[int] = 0

    def __init__(self, x: int, tags: set[str]) -> None:
        Point.made += 1
        self.x = x
        self.tags = tags

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and (self.x, self.tags) == (other.x, other.tags)

    __hash__ = None  # type: ignore[assignment]


class Slotted:
    __slots__ = ("n",)
    n: int

    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slotted) and self.n == other.n

    def __hash__(self) -> int:
        return hash(self.n)


@dataclass
class Held:
    last: deque[int] = field(default_factory=deque)
    seen: OrderedDict[str, Point] = field(default_factory=OrderedDict)


def reordered() -> OrderedDict[str, int]:
    made = OrderedDict(a=1, b=2)
    made.move_to_end("a")
    return made


VALUES = [
    (deque[int], deque([1, 2])),
    (deque[int], deque([1, 2], maxlen=2)),
    (deque[float], deque([float("inf")])),
    (deque[tuple[str, int]], deque([("a", 1)])),
    (deque[deque[int]], deque([deque([1], 3)])),
    (defaultdict[str, int], defaultdict(int, a=1)),
    (defaultdict[str, list[int]], defaultdict(list, a=[1])),
    (OrderedDict[str, int], reordered()),
    (dict[str, OrderedDict[str, int]], {"x": reordered()}),
    (OrderedDict[tuple[int, int], set[str]], OrderedDict({(1, 2): {"b", "a"}})),
    (Counter[str], Counter("aab")),
    (Point, Point(1, {"a", "b"})),
    (list[Slotted], [Slotted(3)]),
    (Held, Held(deque([1], 4), OrderedDict(p=Point(2, set())))),
    (deque[int] | None, None),
    (deque[int] | None, deque([1])),
]


@pytest.mark.parametrize(("hint", "value"), VALUES)
def test_a_value_comes_back_as_it_was(hint, value):
    codec = ValueCodec(hint)
    back = codec.decode(codec.encode(value))
    assert back == value
    assert type(back) is type(value)
    assert list(back) == list(value) if isinstance(value, dict | deque) else True
    assert getattr(back, "maxlen", None) == getattr(value, "maxlen", None)
    assert codec.decode_many(codec.encode_many([value, value])) == [value, value]
    assert codec.encode(back) == codec.encode(value)


@pytest.mark.parametrize(("hint", "value"), VALUES)
def test_a_value_crosses_a_cut_as_it_is(hint, value):
    (back,) = decode_values(encode_message((value,)))
    assert back == value
    assert type(back) is type(value)


def test_a_renewed_value_shares_nothing():
    inner = deque([1])
    value = [inner, inner]
    first, second = ValueCodec(list[deque[int]]).renew(value)
    assert first == second == inner
    assert first is not second
    assert first is not inner


def test_what_a_defaultdict_makes_follows_from_its_type():
    codec = ValueCodec(defaultdict[str, defaultdict[str, list[int]]])
    value = codec.renew(defaultdict(lambda: defaultdict(list)))
    value["a"]["b"].append(1)
    back = codec.renew(value)
    back["c"]["d"].append(2)
    assert back == {"a": {"b": [1]}, "c": {"d": [2]}}
    (sent,) = decode_values(encode_message((back,)))
    assert sent["e"]["f"] == []


@pytest.mark.parametrize("factory", [lambda: 5, None, list])
def test_a_defaultdict_that_makes_something_else_is_refused(factory):
    with pytest.raises(StateError) as caught:
        ValueCodec(defaultdict[str, int]).encode(defaultdict(factory, a=1))
    assert caught.value.code == "MP209"


def test_objects_are_made_without_their_code_and_without_what_is_not_declared():
    point = Point(1, {"a"})
    point.extra = 7  # type: ignore[attr-defined]
    made = Point.made
    back = ValueCodec(Point).renew(point)
    assert Point.made == made
    assert (back.x, back.tags) == (1, {"a"})
    assert not hasattr(back, "extra")


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (deque[int], [1]),
        (deque[int], deque(["a"])),
        (deque[float], deque([1])),
        (OrderedDict[str, int], {"a": 1}),
        (dict[str, int], OrderedDict(a=1)),
        (Counter[str], Counter({"a": 1.5})),  # type: ignore[dict-item]
        (Point, Point("1", set())),  # type: ignore[arg-type]
        (Point, Slotted(1)),
        (collections.deque[Point], deque([object.__new__(Point)])),
    ],
)
def test_a_value_of_another_type_is_refused(hint, value):
    with pytest.raises(StateError) as caught:
        ValueCodec(hint).encode(value)
    assert caught.value.code == "MP209"


class Empty:
    pass


class Child(list[int]):
    n: int


@pytest.mark.parametrize("hint", [Empty, Child, list[Empty], deque[Empty]])
def test_a_class_without_annotated_fields_of_its_own_can_not_be_kept(hint):
    with pytest.raises(StateError) as caught:
        ValueCodec(hint)
    assert caught.value.code == "MP208"


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (deque[int], "deque[int]"),
        (dict[str, OrderedDict[str, float]], "dict[str, OrderedDict[str, float]]"),
        (Counter[str], "Counter[str, int]"),
        (Point, "Point"),
    ],
)
def test_a_checkpoint_notes_what_such_values_look_like(hint, text):
    assert shape_text(shape_of(hint).root) == text


def test_a_damaged_deque_is_told():
    with pytest.raises(StateError) as caught:
        ValueCodec(deque[int]).decode(ValueCodec(list[int]).encode([1, 2]))
    assert caught.value.code == "MP215"
