from __future__ import annotations

import collections
import copy
import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from millpond.errors import RowError
from millpond.state.codec.wire import decode_values, encode_message, encode_values


@dataclass
class Node:
    name: str
    near: list[object] = field(default_factory=list)


@dataclass(eq=False, frozen=True)
class Token:
    name: str


def carried(*values):
    return decode_values(encode_message(values))


def test_what_is_one_object_stays_one():
    x = [1]
    node = Node("a", [x])
    named = collections.defaultdict(list, {"q": x})
    array = np.arange(3)
    values = (x, [x, (x, {2: x})], named, node, [node, node.near], collections.deque([x]), array, [array])
    one, held, by_name, record, records, queue, numbers, kept = carried(*values)
    assert one is held[0] is held[1][0] is held[1][1][2] is by_name["q"] is record.near[0] is queue[0]
    assert records[0] is record
    assert records[1] is record.near
    assert kept[0] is numbers
    assert by_name.default_factory is list


def test_what_is_equal_and_not_one_object_stays_two():
    first, second, both = carried([1], [1], [[1]] * 2)
    assert first is not second
    assert both[0] is both[1]


def test_nan_is_found_where_it_is_the_same_nan():
    nan, other = float("nan"), float("nan")
    one, held = carried(nan, [nan, other, nan])
    assert held.count(one) == 2
    assert carried(nan, nan)[0] is not None
    first, second = carried(nan, nan)
    assert first is second


def test_records_that_are_equal_to_themselves_alone_stay_one():
    token = Token("a")
    one, held = carried(token, [token])
    assert held[0] is one


def test_messages_without_shared_objects_are_as_before():
    for values in ((1, "a", 2.5), ([1, 2], {"a": [3]}, ("b", [4])), (float("nan"), [float("nan")])):
        assert encode_message(values) == encode_values(values)


def test_values_have_the_same_bytes_whatever_they_share():
    x = [1]
    assert encode_values(([x, x],)) == encode_values(([[1], [1]],))


@pytest.mark.parametrize("make", [lambda x: [x], lambda x: {"q": x}, lambda x: Node("a", [x])])
def test_an_object_that_holds_itself_is_refused(make):
    x: list[object] = []
    x.append(make(x))
    with pytest.raises(RowError) as caught:
        encode_message((1, x), ("one", "two"))
    assert caught.value.code == "MP601"
    assert "holds itself" in str(caught.value)


def test_an_object_that_is_a_member_and_elsewhere_is_refused():
    token = Token("a")
    with pytest.raises(RowError) as caught:
        encode_message(({token}, token))
    assert caught.value.code == "MP601"


def shape(value, known):
    """A value with numbers in the place of objects that come again."""
    if id(value) in known and isinstance(value, list | dict):
        return known[id(value)]
    if isinstance(value, list):
        known[id(value)] = len(known)
        return [known[id(value)], *(shape(item, known) for item in value)]
    if isinstance(value, dict):
        known[id(value)] = len(known)
        return [known[id(value)], *((key, shape(item, known)) for key, item in value.items())]
    return [shape(item, known) for item in value] if isinstance(value, tuple) else value


@pytest.mark.parametrize("seed", range(200))
def test_random_graphs_arrive_as_they_are(seed):
    rng = random.Random(seed)
    made: list[object] = [1, "a", (2, 3)]
    for number in range(rng.randrange(1, 12)):
        parts = [rng.choice(made) for _ in range(rng.randrange(4))]
        made.append(rng.choice((parts, dict(enumerate(parts)), tuple(parts), [number, *parts])))
    values = tuple(rng.choice(made) for _ in range(rng.randrange(1, 5)))
    before = copy.deepcopy(values)
    assert shape(tuple(carried(*values)), {}) == shape(values, {}) == shape(before, {})
