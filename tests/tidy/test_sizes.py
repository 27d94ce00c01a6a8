"""A small run has something of every test, and all of those that are small anyway."""

from __future__ import annotations

from types import SimpleNamespace

from tests import sizes
from tests.sizes import CASES_MAX, few_of, some_of, thinned


def cases(test, count):
    return [SimpleNamespace(nodeid=f"{test}[{number}]") for number in range(count)]


def test_of_many_cases_every_fourth_is_run():
    many = cases("tests/property/test_x.py::test_all", 4 * CASES_MAX + 1)
    assert few_of(many) == many[::4]


def test_few_cases_are_all_run_whatever_stands_beside_them():
    few, many = cases("tests/unit/test_x.py::test_all", CASES_MAX), cases("tests/unit/test_x.py::test_more", 50)
    assert few_of([*few, *many]) == [*few, *many[::4]]


def test_cases_that_are_thinned_are_left_to_campaigns_and_all_are_there():
    marked = thinned(["a", ("b", 2), "c", "d"], 3)
    assert [case.values for case in marked] == [("a",), ("b", 2), ("c",), ("d",)]
    assert [len(case.marks) for case in marked] == [0, 1, 1, 0]


def test_a_run_of_all_tests_looks_at_some_drawn_cases_and_a_campaign_at_all(monkeypatch):
    for wide, small, wanted in ((True, False, [1, 5, 100]), (False, False, [1, 3, 40]), (False, True, [1, 1, 10])):
        monkeypatch.setattr(sizes, "WIDE", wide)
        monkeypatch.setattr(sizes, "SMALL", small)
        assert [some_of(many) for many in (1, 5, 100)] == wanted
