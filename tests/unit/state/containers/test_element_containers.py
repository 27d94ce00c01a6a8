from __future__ import annotations

import decimal

import numpy as np
import pytest

from millpond.errors import StateError
from millpond.state.codec.typenames import type_text
from millpond.state.containers.counter import Counter
from millpond.state.containers.element import ElementType
from millpond.state.containers.list import List
from millpond.state.containers.map import Map
from millpond.state.containers.matrix import Matrix
from millpond.state.containers.set import Set
from millpond.state.containers.value import Value
from millpond.state.containers.vector import Vector
from millpond.state.local.storekey import element_of, group_of, store_key, store_prefix, unit_of

DECLARED = [
    Map[int, str],
    Set[str],
    Counter[str],
    Value[float],
    List[int],
    Vector[int],
    Matrix[int, str, float],
]


def plain(declared, by=None):
    element = ElementType.parse(declared, by)
    return element.wrap(element.plain())


def refused(call, *args):
    with pytest.raises(StateError) as caught:
        call(*args)
    return caught.value.code


@pytest.mark.parametrize("declared", DECLARED, ids=type_text)
def test_every_operation_that_the_compiler_allows_exists(declared):
    element = ElementType.parse(declared, None)
    for name in element.operations:
        assert callable(getattr(plain(declared), name)), name


@pytest.mark.parametrize("declared", DECLARED, ids=type_text)
def test_the_text_of_a_type_is_what_was_written(declared):
    assert ElementType.parse(declared, None).text == type_text(declared)


@pytest.mark.parametrize(
    ("declared", "by", "code"),
    [
        (dict[int, int], None, "MP211"),
        (int, None, "MP211"),
        (Map, None, "MP212"),
        (Matrix, None, "MP212"),
        (Map[int, int], "row", "MP213"),
        (Matrix[int, int, float], "diagonal", "MP213"),
        (Matrix[int, int, str], None, "MP214"),
        (Matrix[int, int, float | None], None, "MP214"),
        (Map[float, int], None, "MP202"),
        (Set[list[int]], None, "MP202"),
        (Map[int, complex], None, "MP208"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused_at_once(declared, by, code):
    assert refused(ElementType.parse, declared, by) == code


def test_a_matrix_is_keyed_by_the_direction_it_is_stored_in():
    by_row = ElementType.parse(Matrix[int, str, float], None)
    by_column = ElementType.parse(Matrix[int, str, float], "column")
    assert (by_row.key_hint, by_row.value_hint) == (int, dict[str, float])
    assert (by_column.key_hint, by_column.value_hint) == (str, dict[int, float])


@pytest.mark.parametrize(("cells", "zero"), [(int, 0), (float, 0.0), (decimal.Decimal, decimal.Decimal(0))])
def test_an_empty_cell_reads_as_zero_of_its_type(cells, zero):
    value = plain(Matrix[int, int, cells])[1, 2]
    assert value == zero
    assert type(value) is cells


@pytest.mark.parametrize(
    ("write", "code"),
    [
        (lambda: plain(Map[int, float]).__setitem__(1, 1), "MP209"),
        (lambda: plain(Map[int, float]).__setitem__("1", 1.0), "MP207"),
        (lambda: plain(Map[str, float]).__setitem__("\ud800", 1.0), "MP203"),
        (lambda: plain(Map[int, float]).setdefault(1, None), "MP209"),
        (lambda: plain(Map[int, float]).update({1: 1.0, 2: 2}), "MP209"),
        (lambda: plain(Map[int, float]).__ior__({1: 1}), "MP209"),
        (lambda: plain(Counter[str]).__setitem__("a", 1.5), "MP209"),
        (lambda: plain(Vector[int]).__setitem__(1, np.float64(1)), "MP209"),
        (lambda: plain(Set[int]).add("a"), "MP207"),
        (lambda: plain(List[int]).append("a"), "MP209"),
        (lambda: plain(Value[int]).set(2**64), "MP209"),
        (lambda: plain(Matrix[int, int, float]).__setitem__((1, 2), 1), "MP209"),
        (lambda: plain(Matrix[int, int, float]).__setitem__((1, "2"), 1.0), "MP209"),
        (lambda: plain(Matrix[int, int, float]).__setitem__(("1", 2), 1.0), "MP207"),
    ],
)
def test_plain_python_refuses_what_a_checkpoint_could_not_hold(write, code):
    assert refused(write) == code


@pytest.mark.parametrize("key", [True, 1.0, 2**63, None])
@pytest.mark.parametrize(
    "ask",
    [
        lambda entries, key: entries[key],
        lambda entries, key: key in entries,
        lambda entries, key: entries.get(key, 0),
        lambda entries, key: entries.pop(key, 0),
        lambda entries, key: entries.__delitem__(key),
        lambda entries, key: entries.setdefault(key, 1),
    ],
    ids=["[]", "in", "get", "pop", "del", "setdefault"],
)
def test_plain_python_refuses_to_ask_for_a_key_that_no_checkpoint_could_hold(ask, key):
    for kind in (Map[int, int], Counter[int]):
        entries = plain(kind)
        entries[1] = 1
        assert refused(ask, entries, key) in ("MP201", "MP207"), kind
        assert dict(entries) == {1: 1}


def test_a_set_is_asked_for_what_it_could_hold():
    members = plain(Set[int])
    members.add(1)
    assert refused(members.__contains__, True) == "MP207"
    assert refused(members.discard, True) == "MP207"
    assert list(members) == [1]


def test_a_second_cell_of_a_line_is_checked_like_the_first():
    matrix = plain(Matrix[int, int, float])
    matrix[1, 1] = 1.0
    assert refused(matrix.__setitem__, (1, 2), np.float64(2)) == "MP209"
    assert dict(matrix.items()) == {(1, 1): 1.0}


def test_a_refused_write_leaves_the_map_as_it_was():
    entries = plain(Map[int, float])
    entries[1] = 1.0
    assert refused(entries.__setitem__, 1, "x") == "MP209"
    assert entries == {1: 1.0}


def test_which_item_is_last_has_no_meaning_on_state():
    assert refused(plain(Map[int, int]).popitem) == "MP210"


def test_rows_and_columns_are_copies():
    matrix = plain(Matrix[int, int, float])
    matrix[1, 2] = 3.0
    matrix.row(1)[2] = 9.0
    matrix.column(2)[1] = 9.0
    assert matrix[1, 2] == 3.0


def test_containers_show_what_they_hold_in_order():
    entries = plain(Map[int, str])
    entries.update({2: "b", 1: "a"})
    assert repr(entries) == "Map({1: 'a', 2: 'b'})"
    assert repr(Set([2, 1])) == "Set([1, 2])"
    assert repr(List([2, 1])) == "List([2, 1])"
    assert repr(Counter({"a": 1})) == "Counter({'a': 1})"
    matrix = plain(Matrix[int, int, float], "column")
    matrix[1, 2] = 3.0
    assert repr(matrix) == "Matrix({(1, 2): 3.0})"


@pytest.mark.parametrize(("element", "group", "unit"), [(0, 0, b""), (254, 32_767, b"\x00\xff"), (3, 256, b"unit")])
def test_a_store_key_can_be_taken_apart(element, group, unit):
    key = store_key(element, group, unit)
    assert (element_of(key), group_of(key), unit_of(key)) == (element, group, unit)
    assert key.startswith(store_prefix(element, group))


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (int, "int"),
        (None, "None"),
        (int | None, "int | None"),
        (dict[int, list[str]], "dict[int, list[str]]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (Vector[int], "Vector[int]"),
    ],
)
def test_a_type_has_one_text(hint, text):
    assert type_text(hint) == text


def test_a_class_within_a_function_is_known_by_its_own_name():
    class Basket:
        pass

    assert type_text(list[Basket]) == "list[Basket]"
