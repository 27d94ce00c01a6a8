from __future__ import annotations

import datetime
import os
import random
import subprocess
import sys
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.errors import StateError
from millpond.state.codec.canonical import canonical_set, encode_canonical
from millpond.state.codec.valuecodec import ValueCodec
from millpond.state.codec.wire import decode_values, encode_message

ROOT = Path(__file__).parents[4]
WORDS = [f"w{number}" for number in range(40)]
NUMBERS = [number * 8 for number in range(-20, 20)]  # they fall into few places of a small table


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Spot(NamedTuple):
    at: int
    tags: frozenset[str]


@dataclass(frozen=True)
class Tag:
    name: str
    marks: frozenset[int] = frozenset()


@dataclass
class Basket:
    tags: set[str] = field(default_factory=set)
    spots: list[Spot] = field(default_factory=list)


class Packed(msgspec.Struct, omit_defaults=True, tag="packed", rename="upper"):
    tags: set[str] = msgspec.field(default_factory=set)
    fixed: frozenset[int] = frozenset((5, 7))
    by_name: dict[str, int] = msgspec.field(default_factory=dict)


class Row(msgspec.Struct, array_like=True, frozen=True):
    groups: frozenset[frozenset[int]]
    maybe: frozenset[int | None] = frozenset()


def made(members, dice, kind=set):
    """A set of these members with a history: they came in any order, others came and went, some were popped."""
    found = set(dice.sample(members, len(members)))
    for _ in range(dice.randrange(60)):
        found.add(f"gone{dice.randrange(500)}")
        found.discard(f"gone{dice.randrange(500)}")
    for other in [each for each in found if each not in members]:
        found.remove(other)
    for _ in range(dice.randrange(3)):
        found.add(found.pop())
    return kind(found)


@pytest.mark.parametrize("members", [WORDS, NUMBERS, WORDS[:3], [1.5, 2.5, -0.0], [b"a", b"bb"]], ids=repr)
def test_sets_of_equal_members_are_walked_alike_whatever_their_history(members):
    dice = random.Random(7)
    assert len({tuple(canonical_set(made(members, dice))) for _ in range(50)}) == 1


def test_sets_go_on_alike_under_the_same_changes():
    dice = random.Random(8)

    def seen(found):
        told = [found.pop() for _ in range(3)]
        found |= {f"more{number}" for number in range(30)}
        return told, list(found)

    assert all(seen(canonical_set(made(WORDS, dice))) == seen(canonical_set(set(WORDS))) for _ in range(50))


@given(st.sets(st.integers(-(2**60), 2**60) | st.text(max_size=5)))
def test_a_canonical_set_is_what_a_decoder_makes(members):
    codec = ValueCodec(set[int | str])
    assert list(codec.renew(members)) == list(codec.decode(codec.encode(members)))
    assert codec.renew(members) == members


def values(dice):
    """Values of each type with the same content, whose sets have another history each time."""
    words, groups = made(WORDS, dice), [frozenset((3, 1)), frozenset((2,)), frozenset((3, 11, 19, 27))]
    spots = [Spot(1, frozenset(made(WORDS, dice)))]
    return [
        (set[str], words),
        (frozenset[int], made(NUMBERS, dice, frozenset)),
        (set[frozenset[int]], made([made(list(each), dice, frozenset) for each in groups], dice)),
        (set[tuple[str, int | None]], made([("a", None), ("a", 1), ("b", 2)], dice)),
        (set[Colour], made(list(Colour), dice)),
        (set[datetime.date], made([datetime.date(2020, 1, day) for day in range(1, 9)], dice)),
        (frozenset[Tag], made([Tag("b", made([3, 11, 19], dice, frozenset)), Tag("a")], dice, frozenset)),
        (
            dict[frozenset[int], set[str]],
            {frozenset((9, 1)): words, made([8, 0, 16], dice, frozenset): made(["x"], dice)},
        ),
        (dict[tuple[frozenset[int], int], int], {(made([8, 0, 16], dice, frozenset), 2): 1}),
        (dict[str, dict[str, set[int]]], {"b": {"z": made(NUMBERS, dice)}, "a": {}}),
        (Basket, Basket(words, spots)),
        (Packed, Packed(words, by_name={"b": 1, "a": 2})),
        (Packed, Packed(made(["x"], dice), made(NUMBERS, dice, frozenset))),
        (Row, Row(made([made(list(each), dice, frozenset) for each in groups], dice, frozenset), frozenset((1, None)))),
    ]


def look(value):
    """All orders that can be seen in a value."""
    if isinstance(value, dict):
        return [(look(key), look(item)) for key, item in value.items()]
    if isinstance(value, set | frozenset | list | tuple):
        return [type(value), *map(look, value)]
    names = getattr(value, "__struct_fields__", None) or getattr(value, "__dataclass_fields__", ())
    return [(name, look(getattr(value, name))) for name in names] or value


@pytest.mark.parametrize("place", range(len(values(random.Random(0)))))
def test_values_of_every_type_come_back_alike_and_go_out_as_equal_bytes(place):
    hint, first = values(random.Random(0))[place]
    codec = ValueCodec(hint)
    assert codec.holds_sets
    for seed in range(30):
        value = values(random.Random(seed))[place][1]
        assert codec.encode(value) == codec.encode(first)
        assert codec.renew(value) == value
        assert look(codec.renew(value)) == look(codec.decode(codec.encode(first)))
        assert msgspec.msgpack.decode(encode_canonical(value), type=hint) == value


@pytest.mark.parametrize("place", range(len(values(random.Random(0)))))
def test_what_comes_over_a_cut_is_walked_like_what_comes_out_of_state(place):
    for seed in range(10):
        hint, value = values(random.Random(seed))[place]
        (back,) = decode_values(encode_message((value,)))
        assert look(back) == look(ValueCodec(hint).renew(value))


def test_members_without_a_stored_form_have_an_order_over_a_cut():
    members = [2**70, -(2**90), 3, 1j, 2j, "a", (1, 3j)]
    orders = {tuple(decode_values(encode_message((made(members, random.Random(n)),)))[0]) for n in range(40)}
    assert len(orders) == 1


def test_a_struct_that_holds_sets_keeps_the_order_of_its_dicts():
    value = Packed({"x"}, by_name={"z": 1, "a": 2})
    assert list(ValueCodec(Packed).decode(ValueCodec(Packed).encode(value)).by_name) == ["z", "a"]


def test_defaults_of_a_struct_are_left_out_as_before():
    assert encode_canonical(Packed()) == msgspec.msgpack.encode(Packed())


@pytest.mark.parametrize("value", [{1, "a"}, frozenset((1,)), [1], {float("nan")}, {2**70}], ids=repr)
def test_what_does_not_fit_is_refused_as_when_it_is_stored(value):
    codec = ValueCodec(set[int | float])
    with pytest.raises(StateError) as caught:
        codec.renew(value)
    assert caught.value.code == "MP209"


def test_bytes_do_not_depend_on_the_hash_seed():
    code = (
        "import random; from tests.unit.state.codec.test_canonical import values; "
        "from millpond.state.codec.valuecodec import ValueCodec; "
        "print([ValueCodec(hint).encode(value).hex() for hint, value in values(random.Random(1))])"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(seen) == 1
