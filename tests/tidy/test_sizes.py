"""A small run has something of every test, and all of those that are small anyway."""

from __future__ import annotations

from types import SimpleNamespace

from tests.sizes import CASES_MAX, few_of


def cases(test, count):
    return [SimpleNamespace(nodeid=f"{test}[{number}]") for number in range(count)]


def test_of_many_stories_every_third_is_run():
    many = cases("tests/property/test_x.py::test_all", CASES_MAX + 1)
    assert few_of(many) == many[::3]


def test_few_stories_and_the_cases_of_units_are_all_run():
    few = cases("tests/property/test_x.py::test_all", CASES_MAX)
    units = cases("tests/unit/test_x.py::test_all", 50)
    assert few_of([*few, *units]) == [*few, *units]
