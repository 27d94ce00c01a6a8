"""Entries that expire, against a model that keeps the time of every write and looks at nothing else."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.errors import StateError
from millpond.state.containers.counter import Counter
from millpond.state.containers.element import ElementType
from millpond.state.containers.map import Map
from millpond.state.containers.set import Set
from millpond.state.containers.value import Value
from millpond.state.expiry import AgedType, Ttl, expiring_entries, stamp_of

KEYS = st.sampled_from("abc")
OPERATIONS = st.one_of(
    st.tuples(st.just("tick"), st.integers(0, 7)),
    st.tuples(st.just("set"), KEYS, st.lists(st.integers(0, 3), max_size=2)),
    st.tuples(st.just("append"), KEYS, st.integers(0, 3)),
    st.tuples(st.just("revert"), KEYS),
    st.tuples(st.sampled_from(("get", "in", "del", "pop", "setdefault", "getitem")), KEYS),
    st.tuples(st.sampled_from(("list", "len", "items", "clear", "copy", "undo", "keep"))),
)


class Time:
    """A clock in the hand of a test."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now


class Model:
    """What each entry was when its moment began, what it is, and when it was last touched."""

    def __init__(self, ttl):
        self.ttl, self.now = ttl, 0
        self.entries = {}

    def _live(self, key):
        entry = self.entries.get(key)
        return entry is not None and self.now < entry[0] + self.ttl.length_us

    def tick(self, by):
        if by:
            for entry in self.entries.values():
                if entry[1] != entry[2]:
                    entry[0] = self.now
                entry[2] = list(entry[1])
            self.now += by

    def find(self, key):
        if not self._live(key):
            return None
        if self.ttl.on_access:
            self.entries[key][0] = self.now
        return self.entries[key][1]

    def set(self, key, value):
        self.entries[key] = [self.now, value, list(value)]

    def drop(self, key):
        self.entries.pop(key)

    def view(self):
        return {key: entry[1] for key, entry in sorted(self.entries.items()) if self._live(key)}


def made(hint, ttl, clock):
    return expiring_entries(ElementType.parse(hint, None), ttl, clock, checked=True, watched=True)


def play(entries, clock, model, operation, *arguments):  # noqa: C901, PLR0912 - one case for each operation
    match operation, *arguments:
        case "tick", by:
            model.tick(by)
            clock.now += by
        case "set", key, value:
            entries[key] = list(value)
            model.set(key, list(value))
        case "append", key, item:
            held, expected = entries.get(key), model.find(key)
            assert held == expected
            if held is not None:
                held.append(item)
                expected.append(item)
        case "revert", key:
            held, expected = entries.get(key), model.find(key)
            if held:
                held.append(held.pop())
                expected.append(expected.pop())
        case "get", key:
            assert entries.get(key) == model.find(key)
        case "in", key:
            assert (key in entries) == (model.find(key) is not None)
        case "getitem", key:
            expected = model.find(key)
            if expected is None:
                with pytest.raises(KeyError):
                    entries[key]
            else:
                assert entries[key] == expected
        case (("del" | "pop"), key):
            if model.find(key) is None:
                assert entries.pop(key, "nothing") == "nothing"
                with pytest.raises(KeyError):
                    del entries[key]
            else:
                if operation == "del":
                    del entries[key]
                else:
                    assert entries.pop(key) == model.find(key)
                model.drop(key)
        case "setdefault", key:
            expected = model.find(key)
            if expected is None:
                model.set(key, [9])
            assert entries.setdefault(key, [9]) == model.find(key)
        case ("list",):
            assert list(entries) == list(entries.keys()) == list(model.view())
        case ("len",):
            assert len(entries) == len(model.view())
            assert bool(entries) == bool(model.view())
        case ("items",):
            assert dict(entries.items()) == entries.copy() == model.view() == entries
        case ("clear",):
            entries.clear()
            model.entries.clear()


@pytest.mark.parametrize("refresh", ["write", "access"])
@given(st.lists(OPERATIONS, max_size=40))
def test_entries_are_there_as_the_model_says(refresh, operations):
    clock = Time()
    ttl = Ttl(10, refresh)
    entries, model = made(Map[str, list[int]], ttl, clock), Model(ttl)
    for operation, *arguments in operations:
        if operation == "copy":
            entries = copy.deepcopy(entries)
            clock = entries.ages.clock
        elif operation in ("undo", "keep"):
            before = copy.deepcopy(model)
            entries.begin()
            for inner in operations[:5]:
                if inner[0] not in ("tick", "copy", "undo", "keep"):
                    play(entries, clock, model, *inner)
            if operation == "undo":
                entries.undo()
                model = before
            else:
                entries.keep()
        else:
            play(entries, clock, model, operation, *arguments)
        assert {key: dict.__getitem__(entries, key) for key in entries.live(clock.now)} == model.view()
    entries.settle()
    model.tick(1)
    assert entries.ages.stamps == {key: entry[0] for key, entry in model.entries.items()}


def test_an_entry_is_there_until_its_time_is_over_and_not_at_that_moment():
    clock = Time()
    counter = made(Counter[str], Ttl(10), clock)
    counter["a"] += 1
    clock.now = 9
    assert (counter["a"], "a" in counter, len(counter)) == (1, True, 1)
    clock.now = 10
    assert (counter["a"], "a" in counter, len(counter)) == (0, False, 0)
    counter["a"] += 1
    assert counter["a"] == 1


def test_only_access_renews_without_a_write():
    for refresh, there in (("write", False), ("access", True)):
        clock = Time()
        entries = made(Map[str, int], Ttl(10, refresh), clock)
        entries["a"] = 1
        clock.now = 9
        assert entries.get("a") == 1
        clock.now = 12
        assert ("a" in entries) is there


def test_a_write_of_the_same_value_renews():
    clock = Time()
    entries = made(Map[str, list[int]], Ttl(10), clock)
    entries["a"] = [1]
    clock.now = 9
    entries["a"] = [1]
    clock.now = 18
    assert entries["a"] == [1]


def test_sets_and_values_expire_too():
    clock = Time()
    members = ElementType.parse(Set[int], None)
    one = ElementType.parse(Value[int], None)
    seen = members.wrap(expiring_entries(members, Ttl(10), clock, checked=True))
    value = one.wrap(expiring_entries(one, Ttl(10), clock, checked=True))
    seen.add(3)
    value.set(7)
    assert (list(seen), 3 in seen, value.get(0), value.is_set()) == ([3], True, 7, True)
    clock.now = 10
    assert (list(seen), 3 in seen, value.get(0), value.is_set()) == ([], False, 0, False)


def test_what_a_checkpoint_can_not_hold_is_refused_when_it_is_written():
    entries = made(Map[str, int], Ttl(10), Time())
    with pytest.raises(StateError):
        entries["a"] = "text"
    with pytest.raises(StateError):
        entries[1] = 1
    assert len(entries) == 0


@given(st.integers(-(2**62), 2**62), st.lists(st.integers()))
def test_what_is_stored_begins_with_its_stamp(stamp, value):
    element = AgedType.of(ElementType.parse(Map[str, list[int]], None))
    if all(-(2**63) <= item < 2**64 for item in value):
        assert stamp_of(element.values.encode((stamp, value))) == stamp
