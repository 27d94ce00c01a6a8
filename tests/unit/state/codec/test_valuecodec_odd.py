"""Values that no checkpoint can hold: nested too deeply, or not equal to anything. All of them are coded errors."""

from __future__ import annotations

import decimal
import sys
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from millpond import Map, Partitioned, Program, entry
from millpond.checkpoint.read.plain import as_json, as_text
from millpond.compiler.compile import compile_program
from millpond.engine.simulated import Simulated
from millpond.errors import MillpondError, StateError
from millpond.state.codec.nesting import NESTED_MAX
from millpond.state.codec.valuecodec import ValueCodec


@dataclass
class Node:
    name: str
    kids: list[Node] = field(default_factory=list)


@dataclass
class Bag:
    tags: set[str]
    inner: Bag | None = None


class Link(msgspec.Struct):
    after: Link | None = None


class Odd(Program):
    trees = Partitioned(Map[str, Node])
    prices = Partitioned(Map[str, Decimal])

    @entry
    def tree(self, name: str, depth: int) -> None:
        self.trees[name] = chain(depth)

    @entry
    def price(self, name: str, text: str) -> None:
        self.prices[name] = Decimal(text)


def chain(depth):
    node = Node("leaf")
    for _ in range(depth):
        node = Node("n", [node])
    return node


def bag(depth):
    inner = None
    for _ in range(depth):
        inner = Bag({"a", "b"}, inner)
    return inner


def link(depth):
    after = None
    for _ in range(depth):
        after = Link(after)
    return after


def lists(depth):
    value = []
    for _ in range(depth - 1):
        value = [value]
    return value


def dicts(depth):
    value = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


def itself():
    value = []
    value += [value, value]
    return value


def deeper(frames, call, *arguments):
    """Call from further down the stack."""
    return call(*arguments) if not frames else deeper(frames - 1, call, *arguments)


def code_of(call, *arguments):
    with pytest.raises(StateError) as caught:
        call(*arguments)
    return caught.value.code


KINDS = [(Node, chain, 2), (Bag, bag, 1), (Link, link, 1), (Any, lists, 1), (dict[str, Any], dicts, 1)]


@pytest.mark.parametrize(("hint", "make", "levels"), KINDS)
def test_a_value_is_refused_above_one_depth_wherever_it_is_stored_from(hint, make, levels):
    codec = ValueCodec(hint)
    good, bad = make((NESTED_MAX - 1) // levels), make(NESTED_MAX // levels + 1)
    for frames in (0, 100, 200):
        data = deeper(frames, codec.encode, good)
        assert deeper(frames, codec.encode, deeper(frames, codec.decode, data)) == data
        assert deeper(frames, code_of, codec.encode, bad) == "MP209"
    read = msgspec.msgpack.decode(data)
    assert as_json(read)
    assert as_text(read)


@pytest.mark.parametrize(("hint", "make"), [(kind[0], kind[1]) for kind in KINDS])
@pytest.mark.parametrize("depth", [321, 400, 1000, 20_000])
def test_whatever_is_too_deep_is_refused_with_a_code(hint, make, depth):
    assert code_of(ValueCodec(hint).encode, make(depth)) == "MP209"


def test_a_value_that_holds_itself_is_refused_and_soon():
    assert code_of(ValueCodec(Any).encode, itself()) == "MP209"


def test_a_value_that_is_wide_is_not_deep():
    codec = ValueCodec(Node)
    wide = Node("top", [Node(str(number), [chain(3), chain(2)]) for number in range(1000)])
    assert codec.decode(codec.encode(wide)) == wide


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Decimal, Decimal("sNaN")),
        (Decimal, Decimal("-sNaN12")),
        (list[Decimal], [Decimal(1), Decimal("sNaN")]),
        (dict[str, Decimal], {"a": Decimal("sNaN")}),
        (Decimal | None, Decimal("sNaN")),
    ],
)
def test_a_signalling_nan_is_refused(hint, value):
    assert code_of(ValueCodec(hint).encode, value) == "MP209"
    with decimal.localcontext() as context:
        context.traps[decimal.InvalidOperation] = False
        assert code_of(ValueCodec(hint).encode, value) == "MP209"


def test_other_decimals_are_kept_as_they_are():
    codec = ValueCodec(list[Decimal])
    values = [Decimal(text) for text in ("NaN", "-NaN7", "Infinity", "1E+999999", "1.50", "-0.00")]
    assert list(map(str, codec.decode(codec.encode(values)))) == list(map(str, values))


@pytest.mark.parametrize(("entry_point", "value"), [("tree", 200), ("tree", 5000), ("price", "sNaN")])
def test_the_plain_run_and_the_simulated_run_refuse_the_same(tmp_path, entry_point, value):
    plain = Odd()
    assert code_of(getattr(plain, entry_point), "a", value) == "MP209"
    simulated = Simulated(compile_program(Odd), tmp_path, partitions=2)
    with pytest.raises(MillpondError, match="MP209"):
        simulated.epoch([(entry_point, ("a", value))])
    simulated.epoch([("tree", ("a", 150)), ("price", ("a", "1.5"))])
    plain.tree("a", 150)


def test_the_limit_leaves_room_on_the_stack():
    assert sys.getrecursionlimit() > 2 * NESTED_MAX
