from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millpond.engine.task.ordering import Places, content_tie, join_places, source_ranks

SMALL = st.integers(-1, 1)
ROWS = st.lists(st.tuples(*[SMALL] * 8))
SOURCES = st.lists(st.sampled_from(["b", "a", "", "é", "a/10", "a/2"]) | st.none())


def places_of(rows):
    columns = list(zip(*rows, strict=True)) or [()] * 8
    return Places(*(np.array(column, dtype=np.int64) for column in columns))


def rows_of(places):
    return list(zip(*(column.tolist() for column in places.columns()), strict=True))


@given(ROWS)
def test_rows_are_sorted_by_their_places_and_equal_ones_stay_as_they_came(rows):
    sorting = places_of(rows).sorting()
    wanted = sorted(range(len(rows)), key=lambda row: rows[row])
    assert (list(range(len(rows))) if sorting is None else sorting.tolist()) == wanted


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_the_order_column_alone_decides_where_all_else_is_equal(order):
    zeros = np.zeros(len(order), dtype=np.int64)
    sorting = Places(np.array(order, dtype=np.int64), *[zeros] * 7).sorting()
    if order == sorted(order):
        assert sorting is None
    else:
        assert [order[row] for row in sorting] == sorted(order)


@given(ROWS.map(sorted))
def test_tied_rows_are_those_whose_place_another_row_has(rows):
    assert places_of(rows).tied().tolist() == [at for at, row in enumerate(rows) if rows.count(row) > 1]


@given(ROWS, ROWS)
def test_joined_places_are_one_after_the_other(one, other):
    assert rows_of(join_places([places_of(one), places_of(other)])) == one + other
    assert rows_of(join_places([places_of(one)])) == one


@given(ROWS, st.data())
def test_places_of_some_rows_are_taken(rows, data):
    picked = data.draw(st.lists(st.integers(0, len(rows) - 1))) if rows else []
    assert rows_of(places_of(rows).take(np.array(picked, dtype=np.intp))) == [rows[at] for at in picked]


@given(SOURCES)
def test_sources_rank_by_name_and_no_source_comes_first(sources):
    ranks = source_ranks(pa.array(sources, type=pa.string())).tolist()
    keys = [(source is not None, source or "") for source in sources]
    for at in range(len(sources)):
        for other in range(len(sources)):
            assert (ranks[at] < ranks[other]) == (keys[at] < keys[other])


@given(SOURCES)
def test_coded_sources_rank_like_plain_ones(sources):
    array = pa.array(sources, type=pa.string())
    assert source_ranks(array.dictionary_encode()).tolist() == source_ranks(array).tolist()


def test_the_tie_of_a_row_is_a_function_of_its_content():
    assert content_tie((1, "a", {"x", "y"})) == content_tie((1, "a", {"y", "x"}))
    assert content_tie((1, "a")) != content_tie(("a", 1))
    assert content_tie((1,)) != content_tie((1.0,))
    assert -(2**63) <= content_tie(("mill",)) < 2**63


def test_the_tie_is_the_same_under_every_hash_seed():
    code = (
        "from millpond.engine.task.ordering import content_tie; print(content_tie(({f'w{n}' for n in range(50)}, 1)))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1
