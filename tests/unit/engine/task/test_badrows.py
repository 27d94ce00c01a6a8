from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from millpond.engine.arrowtypes import arrow_type
from millpond.engine.publish.deadletters import row_text
from millpond.engine.task.badrows import bad_rows
from millpond.state.containers.vector import Vector


class Point(NamedTuple):
    x: int
    y: int | None


@dataclass(frozen=True)
class Order:
    item: str
    amounts: list[int]


@dataclass(frozen=True)
class Even:
    number: int

    def __post_init__(self):
        if self.number % 2:
            raise ValueError(self.number)


NO_KEYS: frozenset[str] = frozenset()


def bad(values, hint, keys=NO_KEYS):
    """Which rows are bad, and why, for one column `x`."""
    array = values if isinstance(values, pa.Array) else pa.array(values, type=arrow_type(hint))
    mask, reasons = bad_rows({"x": array}, {"x": hint}, keys)
    assert len(reasons) == mask.sum()
    return np.flatnonzero(mask).tolist(), reasons


def garbled_text():
    offsets = pa.py_buffer(np.array([0, 2, 4, 6], dtype=np.int32))
    return pa.StringArray.from_buffers(3, offsets, pa.py_buffer(b"ok\xff\xfeok"))


def test_good_rows_have_no_reasons():
    assert bad([1, 2], int) == ([], [])


def test_a_null_where_a_value_is_required_is_bad():
    assert bad([1, None], int) == ([1], ["`x` is null, and it is a required value"])


def test_a_null_is_good_where_the_hint_allows_it():
    assert bad([1, None], int | None) == ([], [])
    assert bad([[1], None], list[int] | None) == ([], [])


def test_a_null_key_is_bad_even_where_the_hint_allows_it():
    assert bad([1, None], int | None, frozenset("x")) == ([1], ["`x` is null, and it is the key"])


@pytest.mark.parametrize(
    ("limits", "values", "rows"),
    [
        (Meta(ge=1), [0, 1, 2], [0]),
        (Meta(gt=1), [0, 1, 2], [0, 1]),
        (Meta(le=1), [0, 1, 2], [2]),
        (Meta(lt=1), [0, 1, 2], [1, 2]),
        (Meta(ge=1, lt=2), [0, 1, 2], [0, 2]),
        (Meta(ge=0.5), [0, 1, 2], [0]),
        (Meta(multiple_of=2), [0, 1, 2], [1]),
    ],
)
@pytest.mark.parametrize("wrap", [lambda hint: hint, lambda hint: hint | None], ids=["plain", "optional"])
def test_values_outside_their_limits_are_bad(limits, values, rows, wrap):
    found, reasons = bad(values, wrap(Annotated[int, limits]))
    assert found == rows
    for row, reason in zip(rows, reasons, strict=True):
        assert reason.endswith(str(values[row]))


def test_a_null_is_within_any_limits():
    assert bad([None, 0], Annotated[int | None, Meta(ge=1)])[0] == [1]


def test_a_reason_says_what_was_wanted_and_what_was_found():
    assert bad([7], Annotated[int, Meta(le=5)])[1] == ["`x` is out of range: at most 5, found 7"]


def test_nan_is_outside_every_range_and_infinity_only_outside_its_own():
    values = [math.nan, math.inf, -math.inf, 1.0]
    assert bad(values, Annotated[float, Meta(ge=0)])[0] == [0, 2]
    assert bad(values, float) == ([], [])


def test_limits_on_text_are_checked():
    assert bad(["", "ab", "abcd"], Annotated[str, Meta(min_length=1, max_length=3)])[0] == [0, 2]
    assert bad(["a1", "b"], Annotated[str, Meta(pattern="[0-9]")])[0] == [1]


@pytest.mark.parametrize(
    ("hint", "values", "rows"),
    [
        (list[int], [[1], [None], [], None], [1, 3]),
        (list[int | None], [[None]], []),
        (list[list[int]], [[[1]], [[1], [None]]], [1]),
        (set[int], [[1], [None]], [1]),
        (tuple[int, ...], [[1], [1, None]], [1]),
        (dict[str, int], [[("a", 1)], [("a", None)]], [1]),
        (dict[str, int | None], [[("a", None)]], []),
        (Vector[str], [[("a", 1.0)], [("a", None)]], [1]),
        (tuple[int, str], [{"_1": 1, "_2": "a"}, {"_1": 1, "_2": None}], [1]),
        (Point, [{"x": 1, "y": None}, {"x": None, "y": 1}], [1]),
        (
            Order,
            [{"item": "a", "amounts": [1]}, {"item": None, "amounts": []}, {"item": "a", "amounts": [None]}],
            [1, 2],
        ),
        (list[Order], [[{"item": "a", "amounts": []}], [{"item": "a", "amounts": None}]], [1]),
        (list[Annotated[int, Meta(ge=0)]], [[0], [1, -1]], [1]),
        (dict[str, Annotated[int, Meta(ge=0)]], [[("a", 0)], [("a", -1)]], [1]),
        (Annotated[list[int], Meta(min_length=1)], [[], [1]], [0]),
    ],
)
def test_faults_inside_nested_values_are_found(hint, values, rows):
    found, reasons = bad(values, hint)
    assert found == rows
    assert all("`x` is" in reason for reason in reasons)


def test_a_row_that_a_class_of_the_program_refuses_is_bad_and_its_neighbours_are_not():
    assert bad([{"number": 2}, {"number": 3}, None], Even | None)[0] == [1]


def test_text_that_is_not_utf8_is_bad_and_can_be_shown():
    found, reasons = bad(garbled_text(), str)
    assert found == [1]
    assert reasons == [r"`x` is not UTF-8: '\\xff\\xfe'"]
    assert json.loads(row_text({"x": garbled_text()}, 1)) == {"x": r"\xff\xfe"}


def test_text_that_is_not_utf8_is_found_inside_lists():
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], type=pa.int32()), garbled_text())
    found, reasons = bad(lists, list[str])
    assert found == [1]
    assert "not UTF-8" in reasons[0]
    assert "not UTF-8" in row_text({"x": lists}, 1)


def test_a_row_with_several_faults_has_the_first_as_its_reason():
    columns = {"a": pa.array([None, 1]), "b": pa.array([9, 9])}
    mask, reasons = bad_rows(columns, {"a": int, "b": Annotated[int, Meta(le=5)]}, frozenset("a"))
    assert mask.tolist() == [True, True]
    assert reasons == ["`a` is null, and it is the key", "`b` is out of range: at most 5, found 9"]


def test_braces_in_a_value_do_not_disturb_the_reason():
    assert bad(["{}", "{x}"], Annotated[str, Meta(min_length=3)])[1] == ["`x` is not of its type: '{}'"]


def test_an_entry_point_without_parameters_has_no_bad_rows():
    assert bad_rows({}, {}, NO_KEYS)[1] == []


def test_a_long_value_is_cut_in_the_reason():
    (reason,) = bad(["x" * 10_000], Annotated[str, Meta(max_length=5)])[1]
    assert len(reason) < 200


@given(st.lists(st.integers(-5, 5) | st.none()), st.booleans())
def test_bad_rows_are_exactly_those_that_a_loop_would_find(values, is_key):
    hint = Annotated[int | None, Meta(ge=-2, lt=3)]
    wanted = [
        at
        for at, value in enumerate(values)
        if (value is None and is_key) or (value is not None and not -2 <= value < 3)
    ]
    assert bad(pa.array(values, type=pa.int64()), hint, frozenset("x") if is_key else NO_KEYS)[0] == wanted


def test_a_row_is_written_as_json():
    columns = {
        "n": pa.array([1]),
        "t": pa.array(["é"]),
        "d": pa.array([0], type=pa.date32()),
        "l": pa.array([[1, None]]),
        "b": pa.array([b"\xff"]),
    }
    assert json.loads(row_text(columns, 0)) == {"n": 1, "t": "é", "d": "1970-01-01", "l": [1, None], "b": "/w=="}
