from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.engine.task.columns import ArrowColumn, ListColumn, NumberColumn, TextColumn, TupleColumn, column_of

KINDS = {
    int: st.integers(-5, 5),
    str: st.sampled_from(["", "a", "b", "é", "a\x00"]),
    bool: st.booleans(),
    datetime.date: st.dates(datetime.date(2026, 1, 1), datetime.date(2026, 1, 5)),
}


@given(st.data(), st.sampled_from(list(KINDS)))
def test_rows_of_a_column_are_taken_as_from_a_list(data, kind):
    values = data.draw(st.lists(KINDS[kind], min_size=1))
    rows = np.array(data.draw(st.lists(st.integers(0, len(values) - 1))), dtype=np.intp)
    for column in (column_of(pa.array(values), kind), ListColumn(values), column_of(pa.array(values), kind | None)):
        assert column.take(None) == values
        assert column.take(rows) == [values[row] for row in rows]
        assert all(type(value) is kind for value in column.take(None))


@given(st.data(), st.sampled_from(list(KINDS)))
def test_each_distinct_value_comes_once_and_rows_say_which_they_have(data, kind):
    values = data.draw(st.lists(KINDS[kind]))
    array = pa.array(values, type=pa.array([data.draw(KINDS[kind])]).type)
    for column in (column_of(array, kind), ListColumn(values)):
        units, codes = column.distinct()
        assert len(units) == len(set(units))
        assert [units[code] for code in codes] == values


@given(st.lists(st.tuples(KINDS[int], KINDS[str])))
def test_a_key_of_two_columns_is_a_column_of_tuples(pairs):
    parts = [ListColumn([pair[0] for pair in pairs]), ListColumn([pair[1] for pair in pairs])]
    column = TupleColumn(parts)
    assert column.take(None) == pairs
    units, codes = column.distinct()
    assert len(units) == len(set(units))
    assert [units[code] for code in codes] == pairs


@pytest.mark.parametrize(
    ("array", "hint", "kind"),
    [
        (pa.array([1, 2]), int, NumberColumn),
        (pa.array([1.5]), float | None, NumberColumn),
        (pa.array([1, None]), int | None, ArrowColumn),
        (pa.array(["a"]), str, TextColumn),
        (pa.array(["a", None]), str | None, ArrowColumn),
        (pa.array([[1]]), list[int], ArrowColumn),
    ],
)
def test_a_column_is_kept_in_the_cheapest_form(array, hint, kind):
    column = column_of(array, hint)
    assert type(column) is kind
    assert column.take(None) == array.to_pylist()


def test_a_slice_of_an_array_is_a_column_of_its_own():
    for array, hint in ((pa.array([1, 2, 3]), int), (pa.array(["a", "b", "a"]), str)):
        column = column_of(array.slice(1), hint)
        assert column.take(None) == array.to_pylist()[1:]
        assert column.take(np.array([1])) == array.to_pylist()[2:]


def test_the_largest_integers_stay_exact():
    values = [2**63 - 1, -(2**63), 2**53 + 1]
    assert column_of(pa.array(values), int).take(None) == values
