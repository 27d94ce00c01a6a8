"""Containers over every kind of entries against dict, set and list: what they answer, and what they would save."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from millpond.errors import MillpondError, StateError
from millpond.state.containers.counter import Counter
from millpond.state.containers.element import ElementType
from millpond.state.containers.list import List
from millpond.state.containers.map import Map
from millpond.state.containers.matrix import Matrix
from millpond.state.containers.set import Set
from millpond.state.containers.value import Value
from millpond.state.containers.vector import Vector
from millpond.state.local.storekey import store_key
from millpond.state.overlay import DictBase, KeyedOverlay, OnDemandOverlay
from tests.sizes import some_of

INDEX = 3
GROUP = 0
"""The only key group of the tests' layout."""
KEYS = st.integers(-2, 2)
ITEMS = st.lists(st.integers(0, 3), max_size=3)
CELLS = st.integers(-5, 5).map(float)
QUICK = settings(max_examples=some_of(100), stateful_step_count=20)

LISTS = ElementType.parse(Map[int, list[int]], None)
COUNTS = ElementType.parse(Counter[int], None)


def changes_of(overlay):
    return list(overlay.changes().pairs())


def encoded(element, model, group=GROUP):
    return {
        store_key(INDEX, group, element.keys.encode(key)): element.values.encode(value) for key, value in model.items()
    }


def applied(base, changes):
    """The base after a delta, which names each key once."""
    assert len(dict(changes)) == len(changes)
    after = {**base, **dict(changes)}
    return {key: value for key, value in after.items() if value is not None}


def smallest_changes(before, after):
    """The only delta that changes no more than it must."""
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    return changed | dict.fromkeys(before.keys() - after.keys())


def outcome(call):
    """What a call gives, or which error it raises."""
    try:
        return call()
    except (KeyError, IndexError) as error:
        return type(error)


class MapMachine(RuleBasedStateMachine):
    """A map, loaded in one of three ways from a base, does what a dict does, and saves what differs from the base."""

    @initialize(base=st.dictionaries(KEYS, ITEMS), way=st.sampled_from(("plain", "on_demand", "on_demand", "keyed")))
    def start(self, base, way):
        self.element = LISTS
        self.begin(base, way)

    def begin(self, base, way):
        self.way = way
        self.base = encoded(self.element, base)
        self.model = {key: self.copy(value) for key, value in base.items()}
        self.overlay = None
        if way == "plain":
            self.map = self.element.wrap(self.element.plain())
            self.map.update({key: self.copy(value) for key, value in base.items()})
        elif way == "on_demand":
            self.overlay = OnDemandOverlay(self.element, INDEX, GROUP, DictBase(self.base))
            self.map = self.overlay.container
        else:
            self.overlay = KeyedOverlay(self.element, INDEX, DictBase(self.base), 1, range(1))
            self.overlay.prefetch(list(range(-2, 1)))
            self.overlay.prefetch(list(range(-2, 3)))
            self.map = self.overlay.container

    @staticmethod
    def copy(value):
        return list(value)

    def both(self, call):
        assert outcome(lambda: call(self.map)) == outcome(lambda: call(self.model))

    @rule(key=KEYS)
    def get(self, key):
        self.both(lambda entries: entries[key])

    @rule(key=KEYS)
    def get_or_default(self, key):
        self.both(lambda entries: entries.get(key))
        self.both(lambda entries: entries.get(key, 9))

    @rule(key=KEYS)
    def contains(self, key):
        self.both(lambda entries: key in entries)

    @rule(key=KEYS, value=ITEMS)
    def put(self, key, value):
        self.both(lambda entries: entries.__setitem__(key, list(value)))

    @rule(key=KEYS)
    def delete(self, key):
        self.both(lambda entries: entries.pop(key) and None)

    @rule(key=KEYS)
    def pop(self, key):
        self.both(lambda entries: entries.pop(key))
        self.both(lambda entries: entries.pop(key, None))

    @rule(key=KEYS, value=ITEMS)
    def setdefault(self, key, value):
        self.both(lambda entries: entries.setdefault(key, list(value)))

    @rule(key=KEYS, value=ITEMS)
    def change_in_place(self, key, value):
        self.both(lambda entries: entries[key].extend(value))

    @rule(more=st.dictionaries(KEYS, ITEMS, max_size=3))
    def update(self, more):
        self.both(lambda entries: entries.update({key: list(value) for key, value in more.items()}))

    @rule()
    def clear(self):
        self.both(lambda entries: entries.clear())

    @rule()
    def look_at_all(self):
        ordered = dict(sorted(self.model.items()))
        assert len(self.map) == len(ordered)
        assert bool(self.map) == bool(ordered)
        if self.way == "keyed":
            # A task that touches single keys has a dict; only tasks that see the whole element iterate over it.
            assert dict(self.map) == ordered
            return
        assert list(self.map) == list(ordered)
        assert list(reversed(self.map)) == list(reversed(ordered))
        assert list(self.map.keys()) == list(ordered)
        assert list(self.map.values()) == list(ordered.values())
        assert list(self.map.items()) == list(ordered.items())

    def teardown(self):
        if getattr(self, "overlay", None) is None:
            return
        after = encoded(self.element, self.model)
        changes = changes_of(self.overlay)
        assert dict(changes) == smallest_changes(self.base, after)
        assert applied(self.base, changes) == after
        assert self.overlay.growth == len(after) - len(self.base)


class CounterMachine(MapMachine):
    """A counter does what a dict with a default does, but that its update adds; and reading stores nothing."""

    @initialize(
        base=st.dictionaries(KEYS, st.integers(-2, 2)),
        way=st.sampled_from(("plain", "on_demand", "on_demand", "keyed")),
    )
    def start(self, base, way):
        self.element = COUNTS
        self.begin(base, way)

    @staticmethod
    def copy(value):
        return value

    @rule(key=KEYS)
    def get(self, key):
        assert self.map[key] == self.model.get(key, 0)

    @rule(key=KEYS, value=st.integers(-2, 2))
    def put(self, key, value):
        self.both(lambda entries: entries.__setitem__(key, value))

    @rule(key=KEYS, value=st.integers(-2, 2))
    def setdefault(self, key, value):
        self.both(lambda entries: entries.setdefault(key, value))

    @rule(key=KEYS, value=st.integers(-2, 2))
    def change_in_place(self, key, value):
        self.map[key] += value
        self.model[key] = self.model.get(key, 0) + value

    @rule(more=st.dictionaries(KEYS, st.integers(-2, 2), max_size=3))
    def update(self, more):
        self.map.update(more)
        for key, value in more.items():
            self.model[key] = self.model.get(key, 0) + value


class SetMachine(RuleBasedStateMachine):
    """A set over entries on demand does what a set does."""

    ELEMENT = ElementType.parse(Set[str], None)
    MEMBERS = st.sampled_from(["", "a", "a\x00", "é", "\U00010000"])

    @initialize(base=st.sets(MEMBERS))
    def start(self, base):
        self.model = set(base)
        self.base = encoded(self.ELEMENT, dict.fromkeys(base))
        self.overlay = OnDemandOverlay(self.ELEMENT, INDEX, GROUP, DictBase(self.base))
        self.set = self.overlay.container

    @rule(member=MEMBERS)
    def add(self, member):
        self.set.add(member)
        self.model.add(member)

    @rule(member=MEMBERS)
    def discard(self, member):
        self.set.discard(member)
        self.model.discard(member)

    @rule(member=MEMBERS)
    def remove(self, member):
        assert outcome(lambda: self.set.remove(member)) == outcome(lambda: self.model.remove(member))

    @rule(member=MEMBERS)
    def contains(self, member):
        assert (member in self.set) == (member in self.model)

    @rule()
    def clear(self):
        self.set.clear()
        self.model.clear()

    @rule()
    def look_at_all(self):
        assert len(self.set) == len(self.model)
        assert list(self.set) == sorted(self.model)
        assert self.set == self.model

    def teardown(self):
        if hasattr(self, "overlay"):
            after = encoded(self.ELEMENT, dict.fromkeys(self.model))
            assert dict(changes_of(self.overlay)) == smallest_changes(self.base, after)


class ListMachine(RuleBasedStateMachine):
    """A list over entries on demand does what a list does."""

    ELEMENT = ElementType.parse(List[list[int]], None)

    @initialize(base=st.lists(ITEMS, max_size=4))
    def start(self, base):
        self.model = [list(item) for item in base]
        self.base = encoded(self.ELEMENT, dict(enumerate(base)))
        self.overlay = OnDemandOverlay(self.ELEMENT, INDEX, GROUP, DictBase(self.base))
        self.list = self.overlay.container

    @rule(item=ITEMS)
    def append(self, item):
        self.list.append(list(item))
        self.model.append(list(item))

    @rule(items=st.lists(ITEMS, max_size=3))
    def extend(self, items):
        self.list.extend([list(item) for item in items])
        self.model.extend([list(item) for item in items])

    @rule(at=st.integers(-5, 5))
    def get(self, at):
        assert outcome(lambda: self.list[at]) == outcome(lambda: self.model[at])

    @rule(at=st.integers(-5, 5), item=ITEMS)
    def put(self, at, item):
        both = [outcome(lambda kept=kept: kept.__setitem__(at, list(item))) for kept in (self.list, self.model)]
        assert both[0] == both[1]

    @precondition(lambda self: self.model)
    @rule()
    def change_in_place(self):
        self.list[-1].append(7)
        self.model[-1].append(7)

    @rule()
    def clear(self):
        self.list.clear()
        self.model.clear()

    @rule()
    def look_at_all(self):
        assert len(self.list) == len(self.model)
        assert list(self.list) == self.model

    def teardown(self):
        if hasattr(self, "overlay"):
            after = encoded(self.ELEMENT, dict(enumerate(self.model)))
            assert dict(changes_of(self.overlay)) == smallest_changes(self.base, after)


class MatrixMachine(RuleBasedStateMachine):
    """Matrices stored by row and by column, plain and over a base, all do what a dict of cells does."""

    def __init__(self):
        super().__init__()
        self.model = {}
        self.overlays = []
        self.matrices = []
        for by in ("row", "column"):
            element = ElementType.parse(Matrix[int, int, float], by)
            overlay = OnDemandOverlay(element, INDEX, GROUP, DictBase())
            self.overlays.append((element, by, overlay))
            self.matrices += [overlay.container, element.wrap(element.plain()), element.wrap(element.bare())]

    def all_agree(self, call, wanted):
        for matrix in self.matrices:
            assert outcome(lambda kept=matrix: call(kept)) == wanted

    @rule(row=KEYS, column=KEYS, value=CELLS)
    def put(self, row, column, value):
        self.model[row, column] = value
        for matrix in self.matrices:
            matrix[row, column] = value

    @rule(row=KEYS, column=KEYS, value=CELLS)
    def add(self, row, column, value):
        self.model[row, column] = self.model.get((row, column), 0.0) + value
        for matrix in self.matrices:
            matrix[row, column] += value

    @rule(row=KEYS, column=KEYS)
    def delete(self, row, column):
        wanted = outcome(lambda: self.model.__delitem__((row, column)))
        self.all_agree(lambda matrix: matrix.__delitem__((row, column)), wanted)

    @rule(row=KEYS, column=KEYS)
    def get(self, row, column):
        self.all_agree(lambda matrix: matrix[row, column], self.model.get((row, column), 0.0))
        self.all_agree(lambda matrix: (row, column) in matrix, (row, column) in self.model)

    @rule(line=KEYS)
    def lines(self, line):
        self.all_agree(lambda m: dict(m.row(line).items()), {c: v for (r, c), v in self.model.items() if r == line})
        self.all_agree(lambda m: dict(m.column(line).items()), {r: v for (r, c), v in self.model.items() if c == line})

    @rule(vector=st.dictionaries(KEYS, CELLS))
    def multiply(self, vector):
        wanted = {}
        for row, column in sorted(self.model):
            if column in vector:
                wanted[row] = wanted.get(row, 0.0) + self.model[row, column] * vector[column]
        self.all_agree(lambda matrix: dict(matrix.multiply(Vector(vector)).items()), wanted)

    @rule()
    def clear(self):
        self.model.clear()
        for matrix in self.matrices:
            matrix.clear()

    @rule()
    def look_at_all(self):
        self.all_agree(len, len(self.model))
        self.all_agree(lambda matrix: dict(matrix.items()), self.model)

    def teardown(self):
        self.look_at_all()
        for element, by, overlay in self.overlays:
            lines = {}
            for (row, column), value in self.model.items():
                line, at = (row, column) if by == "row" else (column, row)
                lines.setdefault(line, {})[at] = value
            saved = {key: element.values.decode(value) for key, value in changes_of(overlay)}
            assert saved == {store_key(INDEX, GROUP, element.keys.encode(line)): cells for line, cells in lines.items()}


for machine in (MapMachine, CounterMachine, SetMachine, ListMachine, MatrixMachine):
    machine.TestCase.settings = QUICK

TestMap = MapMachine.TestCase
TestCounter = CounterMachine.TestCase
TestSet = SetMachine.TestCase
TestList = ListMachine.TestCase
TestMatrix = MatrixMachine.TestCase


@given(st.dictionaries(KEYS, st.floats(allow_nan=False)), st.dictionaries(KEYS, st.floats(allow_nan=False)))
def test_vectors_compute_in_the_order_of_their_indices(one, other):
    base = encoded(ElementType.parse(Vector[int], None), one)
    demanded = OnDemandOverlay(ElementType.parse(Vector[int], None), INDEX, GROUP, DictBase(base)).container
    product = 0.0
    for index in sorted(one.keys() & other.keys()):
        product += one[index] * other[index]
    for vector in (Vector(one), demanded):
        assert repr(vector.dot(other)) == repr(product)
        total = vector.add(other)
        assert dict(total.items()) == {i: one.get(i, 0.0) + other.get(i, 0.0) for i in one.keys() | other.keys()}
        assert dict(vector.scaled(2.0).items()) == {index: value * 2.0 for index, value in one.items()}
        assert dict(vector.items()) == one


@pytest.mark.parametrize("declared", [Counter[int], Vector[int]])
def test_reading_what_is_not_there_stores_nothing(declared):
    element = ElementType.parse(declared, None)
    overlay = OnDemandOverlay(element, INDEX, GROUP, DictBase())
    keyed = KeyedOverlay(element, INDEX, DictBase(), 1, range(1))
    keyed.prefetch([1, 2])
    for entries in (element.plain(), element.bare(), overlay.entries, keyed.entries):
        assert entries[1] == entries.default
        assert 1 not in entries
        assert len(entries) == 0
    assert changes_of(overlay) == changes_of(keyed) == []


def test_a_value_is_one_entry():
    element = ElementType.parse(Value[list[int]], None)
    base = encoded(element, {(): [1]})
    overlay = OnDemandOverlay(element, INDEX, GROUP, DictBase(base))
    value = overlay.container
    assert value.is_set()
    value.get([]).append(2)
    assert changes_of(overlay) == list(encoded(element, {(): [1, 2]}).items())
    value.clear()
    assert not value.is_set()
    assert value.get([0]) == [0]
    assert changes_of(overlay) == [(store_key(INDEX, GROUP, b""), None)]
    value.set([1])
    assert changes_of(overlay) == []


@pytest.mark.parametrize("take_out", [lambda counts: counts.pop(1), lambda counts: counts.pop(1, None)])
def test_an_entry_written_unread_and_taken_out_does_not_come_back_from_the_base(take_out):
    base = encoded(COUNTS, {1: 5})
    overlay = OnDemandOverlay(COUNTS, INDEX, GROUP, DictBase(base))
    overlay.container[1] = 6
    take_out(overlay.container)
    assert 1 not in overlay.container
    assert changes_of(overlay) == [(next(iter(base)), None)]


def test_instances_do_not_see_each_other():
    base = encoded(COUNTS, {1: 5}, group=1) | encoded(COUNTS, {1: 7}, group=2)
    one, other = (OnDemandOverlay(COUNTS, INDEX, group, DictBase(base)) for group in (1, 2))
    assert dict(one.container.items()) == {1: 5}
    assert other.container[1] == 7
    one.container.clear()
    assert dict(other.container.items()) == {1: 7}


def test_a_key_that_was_never_loaded_can_not_be_lost():
    overlay = KeyedOverlay(COUNTS, INDEX, DictBase(), 1, range(1))
    overlay.prefetch([1])
    overlay.container[2] += 1
    with pytest.raises(MillpondError) as caught:
        overlay.changes()
    assert caught.value.code == "MP440"


@pytest.mark.parametrize("way", ["on_demand", "keyed"])
def test_a_value_of_another_type_is_refused_when_it_is_saved(way):
    overlay = (
        OnDemandOverlay(COUNTS, INDEX, GROUP, DictBase())
        if way == "on_demand"
        else KeyedOverlay(COUNTS, INDEX, DictBase(), 1, range(1))
    )
    if way == "keyed":
        overlay.prefetch([1])
    overlay.container[1] += 0.5
    with pytest.raises(StateError) as caught:
        overlay.changes()
    assert caught.value.code == "MP209"
