"""Objects of classes without an equality are compared by their fields, wherever they are held."""

from __future__ import annotations

import dataclasses

import pytest

from millpond import Map, Partitioned, Program, entry
from millpond.testing import assert_equals_plain, simulate


class Hits:
    count: int
    names: list[str]

    def __init__(self, name: str) -> None:
        self.count = 1
        self.names = [name]


class Visits(Program):
    hits = Partitioned(Map[str, Hits])
    lists = Partitioned(Map[str, list[Hits]])

    @entry
    def visit(self, name: str) -> int:
        self.hits[name] = Hits(name)
        self.lists.setdefault(name, []).append(Hits(name))
        return len(self.lists[name])


@pytest.fixture
def run():
    return simulate(Visits, [("visit", "ann"), ("visit", "bob"), ("visit", "ann")], epochs=2)


def test_equal_fields_are_the_same(run):
    assert_equals_plain(run)


@pytest.mark.parametrize("element", ["hits", "lists"])
def test_another_field_is_found(run, element):
    other = Hits("ann")
    other.names.append("cid")
    held = other if element == "hits" else [other, Hits("ann")]
    state = {**run.state, element: {**run.state[element], "ann": held}}
    with pytest.raises(AssertionError, match=f"state {element}"):
        assert_equals_plain(dataclasses.replace(run, state=state))
