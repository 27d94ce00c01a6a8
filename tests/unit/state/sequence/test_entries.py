"""Entries that are read on demand do what the loaded container does, in every operation, also from C."""

from __future__ import annotations

import copy
import json
import math
import random
from functools import partial

import pytest

from millpond.errors import StateError
from millpond.state.containers.counter import Counter
from millpond.state.containers.element import ElementType
from millpond.state.containers.map import Map
from millpond.state.containers.set import Set
from millpond.state.containers.vector import Vector
from millpond.state.overlay import DictBase
from millpond.state.sequence.overlay import SequenceOverlay

GROUPS = 4
TYPES = [Map[str, int], Map[str, list[int]], Counter[str], Map[str, tuple[int, int]]]


def stored(declared, entries):
    """A base that holds some entries of an element."""
    element = ElementType.parse(declared, None)
    empty = SequenceOverlay(element, 3, DictBase(), GROUPS)
    empty.container.update(entries)
    keys, values = empty.changes()
    return element, DictBase(dict(zip(keys, values, strict=True)))


def overlay(declared, entries, *, small=False):
    element, base = stored(declared, entries)
    return SequenceOverlay(element, 3, base, GROUPS, held=0 if small else math.inf)


def value_of(declared, rng):
    n = rng.randrange(9)
    return {TYPES[1]: [n, n], TYPES[3]: (n, -n)}.get(declared, n)


OPERATIONS = {
    "get": lambda m, k, v: m.get(k),
    "item": lambda m, k, v: m[k],
    "set": lambda m, k, v: m.__setitem__(k, copy.deepcopy(v)),
    "delete": lambda m, k, v: m.__delitem__(k),
    "pop": lambda m, k, v: m.pop(k, "none"),
    "take": lambda m, k, v: m.pop(k),
    "in": lambda m, k, v: k in m,
    "default": lambda m, k, v: m.setdefault(k, copy.deepcopy(v)),
    "len": lambda m, k, v: (len(m), bool(m)),
    "walk": lambda m, k, v: (list(m), list(reversed(m)), sorted(m)),
    "views": lambda m, k, v: (list(m.keys()), list(m.values()), list(m.items())),
    "dict": lambda m, k, v: (dict(m), {**m}, m.copy(), m | {"z": 1}, {"z": 1} | m, list(dict(m))),
    "equal": lambda m, k, v: (m == dict(m), dict(m) == m, m != {k: v}, m == {k: v}),
    "json": lambda m, k, v: (json.dumps(m), json.dumps([m]), repr(m)),
    "copies": lambda m, k, v: (copy.copy(m), copy.deepcopy(m)),
    "update": lambda m, k, v: m.update({k: copy.deepcopy(v)}),
    "unite": lambda m, k, v: m.__ior__({k: copy.deepcopy(v)}) is m,
    "clear": lambda m, k, v: m.clear(),
    "max": lambda m, k, v: max(m, key=lambda key: (m[key], key), default=None),
}


def done(operation, container, key, value):
    try:
        return repr(OPERATIONS[operation](container, key, value))
    except KeyError as error:
        return f"KeyError {error}"


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("declared", TYPES, ids=str)
@pytest.mark.parametrize("seed", range(12))
def test_every_operation_gives_what_the_loaded_container_gives(declared, seed, small):
    rng = random.Random(seed)
    first = {key: value_of(declared, rng) for key in rng.sample("abcdef", rng.randrange(7))}
    element, base = stored(declared, first)
    demanded = SequenceOverlay(element, 3, base, GROUPS, held=0 if small else math.inf)
    loaded = element.bare()
    loaded.update(copy.deepcopy(first))
    for _ in range(60):
        # A walk reads everything: it comes seldom enough for single reads to be tried.
        operation = rng.choice([*OPERATIONS, *["get", "item", "set", "pop", "in", "delete", "default"] * 4])
        key, value = rng.choice("abcdefgh"), value_of(declared, rng)
        assert done(operation, demanded.container, key, value) == done(operation, loaded, key, value), operation
    after = SequenceOverlay(element, 3, DictBase(changed(base, demanded)), GROUPS)
    assert dict(after.container) == dict(loaded)


def changed(base, demanded):
    held = dict(base.scan(b""))
    for key, value in zip(*demanded.changes(), strict=True):
        if value is None:
            del held[key]
        else:
            assert held.get(key) != value
            held[key] = value
    return held


@pytest.mark.parametrize("declared", TYPES, ids=str)
@pytest.mark.parametrize("seed", range(12))
def test_what_is_undone_was_never_there(declared, seed):
    rng = random.Random(seed)
    first = {key: value_of(declared, rng) for key in "abcd"}
    one = overlay(declared, first)

    def some():
        for _ in range(rng.randrange(12)):
            done(rng.choice(list(OPERATIONS)), one.container, rng.choice("abcdef"), value_of(declared, rng))

    some()
    one.undo()
    assert dict(one.container) == first
    some()
    before = copy.deepcopy(dict(one.container))
    one.entries.end_row()
    one.begin()
    for _ in range(3):
        some()
        one.enter()
        some()
        one.leave(keep=rng.random() < 0.5)
        one.enter()
        inner = copy.deepcopy(dict(one.container))
        some()
        one.leave(keep=False)
        assert dict(one.container) == inner
        some()
        one.undo()
        assert dict(one.container) == before


@pytest.mark.parametrize("declared", TYPES, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_entries_that_are_forgotten_are_read_again(declared, seed):
    rng = random.Random(seed)
    element, base = stored(declared, {key: value_of(declared, rng) for key in "abcd"})
    one, loaded = SequenceOverlay(element, 3, base, GROUPS), element.bare()
    loaded.update(copy.deepcopy(dict(one.container)))
    first = len(loaded)
    for _ in range(40):
        operation, key, value = rng.choice(list(OPERATIONS)), rng.choice("abcdef"), value_of(declared, rng)
        assert done(operation, one.container, key, value) == done(operation, loaded, key, value), operation
        if rng.random() < 0.3:
            one.entries.end_row()
            held = changed(base, one)
            one.forget()
            base._entries = held
    one.changes()
    assert one.growth == len(loaded) - first


def test_an_empty_dict_in_json_is_one_that_is_empty():
    assert json.dumps(overlay(Map[str, int], {"a": 1}).container) == '{"a": 1}'
    assert json.dumps(overlay(Map[str, int], {}).container) == "{}"


def test_keys_of_other_types_are_refused_as_in_plain_python():
    one = overlay(Map[int, int], {1: 10})
    for asked in (True, 1.0, "1", [1], 2**63):
        for operation in ("get", "item", "set", "pop", "in", "delete", "default"):
            with pytest.raises(StateError):
                OPERATIONS[operation](one.container, asked, 5)
    assert one.container[1] == 10


def test_a_value_that_does_not_fit_is_found_when_the_row_ends():
    one = overlay(Map[str, int], {"a": 1})
    one.container["a"] = "text"
    touched, end = one.ending
    assert touched
    with pytest.raises(StateError):
        end()


def test_objects_are_values_when_the_row_ends():
    one = overlay(Map[str, list[int]], {"a": [1]})
    one.container["b"] = one.container["a"]
    one.ending[1]()
    one.container["b"].append(2)
    assert dict(one.container) == {"a": [1], "b": [1, 2]}


def test_other_containers_stand_on_the_same_entries():
    members = overlay_of(Set[int], lambda s: [s.add(one) for one in (3, 1, 2)])
    assert (list(members), 2 in members, len(members), members == {1, 2, 3}) == ([1, 2, 3], True, 3, True)
    numbers = overlay_of(Vector[int], lambda v: v.update({1: 0.5, 2: 1.5}))
    assert (numbers[7], numbers.dot({2: 2.0}), dict(numbers.scaled(2.0))) == (0.0, 3.0, {1: 1.0, 2: 3.0})


def overlay_of(declared, fill):
    element = ElementType.parse(declared, None)
    first = SequenceOverlay(element, 3, DictBase(), GROUPS)
    fill(first.container)
    keys, values = first.changes()
    return SequenceOverlay(element, 3, DictBase(dict(zip(keys, values, strict=True))), GROUPS).container


def by_variable(value):
    kept = value
    return lambda: kept


def by_generator(value):
    def walk(one):
        yield
        yield one

    waiting = walk(value)
    next(waiting)
    return lambda: next(waiting)


def by_iterator(value):
    walked = iter(value)
    return lambda: walked.__reduce__()[1][0]


def by_exception(value):
    error = ValueError(value)
    return lambda: error.args[0]


def by_default(value):
    return lambda kept=value: kept


HOLDERS = {
    "a variable": by_variable,
    "a list": lambda value: [value].pop,
    "a dict": lambda value: partial({"x": value}.get, "x"),
    "a generator": by_generator,
    "an iterator": by_iterator,
    "an exception": by_exception,
    "a default": by_default,
    "a bound method": lambda value: partial(getattr, value.append, "__self__"),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_list_that_somebody_else_has_is_copied_and_one_that_nobody_has_is_not(holder):
    one = overlay(Map[str, list[int]], {})
    entries = one.entries
    # Often, so that what the interpreter makes of code that runs often is tried, too.
    for turn in range(3000):
        one.container["k"] = [turn]
        before = id(one.container["k"])
        entries.end_row()
        assert id(one.container["k"]) == before
        held = HOLDERS[holder](one.container["k"])
        one.container["k"].append(0)
        entries.end_row()
        one.container["k"].append(1)
        assert held() == [turn, 0]
        assert one.container["k"] == [turn, 0, 1]
