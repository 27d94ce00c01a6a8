"""A family of aggregates says all of itself: one that is written here runs in every way without a line elsewhere."""

from __future__ import annotations

from operator import mul

import numpy as np
import pyarrow as pa
import pytest

from millpond import windowing as w
from millpond.errors import WindowError
from millpond.spark.frames.windowcolumns import column_results
from millpond.spark.frames.windowplan import WindowPlan, result_type
from millpond.state.containers.map import Map
from millpond.windowing import Aggregate
from millpond.windowing.aggregates.aggregates import read_by, reader
from millpond.windowing.aggregates.forms import FoldedForm, column_of
from millpond.windowing.columns.vectorised import ColumnWindows
from millpond.windowing.element import WindowRules, Windows

TEN = w.tumbling("10 us")
TIMES, VALUES = [1, 2, 12, 5, 19], [2, 3, 5, 7, 4]
WANTED = [2 * 3 * 7, 5 * 4]
STAMP = pa.timestamp("us", "UTC")


class ProductForm(FoldedForm):
    what = "product"

    def result_type(self, name, kinds):
        self.require_number(name, kinds)
        return pa.int64()

    def start(self, size, dtypes):
        return (np.ones(size, dtypes[self.name]),)

    def update(self, state, rows):
        np.multiply.at(state[0], rows.slots, rows.columns[self.name])

    def combine(self, left, right, left_rows, right_rows):
        return (left[0] * right[0],)

    def lower(self, state, rows):
        return state[0]

    def absent(self, rows):
        return rows > 2

    def fold(self, before, cells, values, odd):
        found = np.ones(len(cells.first), values.dtype)
        found[cells.old] = cells.held(before, values.dtype, odd)
        np.multiply.at(found, cells.of_rows, values)
        return found.tolist()


def product_of(of):
    return Aggregate(
        "product", reader(of), mul, int, 1, commutative=True, partial_type=int, columns=ProductForm(column_of(of)),
        reads=read_by(of),
    )  # fmt: skip


def test_by_record_and_by_columns():
    shared = w.SharedWindows(product_of("v"), {"w": TEN})
    found = [one.value for time, v in sorted(zip(TIMES, VALUES, strict=True)) for one in shared.add({"v": v}, time)]
    assert found + [one.value for one in shared.advance(20)] == WANTED
    columns = ColumnWindows(TEN, {"p": product_of("v")})
    columns.add([0] * 5, TIMES, {"v": VALUES})
    assert columns.close(20).values["p"].tolist() == WANTED
    with pytest.raises(WindowError, match="MP613 product over columns"):
        ColumnWindows(TEN, {"p": product_of(lambda record: record["v"])})


def test_over_a_dataframe():
    kinds, aggregates = {"v": pa.int64()}, {"p": product_of("v")}
    results = (result_type("p", aggregates["p"], kinds, None),)
    plan = WindowPlan((("key", pa.int64()),), STAMP, tuple(kinds.items()), {"window": TEN}, True, aggregates, results)
    assert plan.columnar
    rows = [pa.array([1] * 5), pa.array(TIMES, pa.int64()).cast(STAMP), pa.array(VALUES)]
    (found,) = column_results(plan, [pa.RecordBatch.from_arrays(rows, names=["k0", "t", "v0"])])
    assert found["p"].to_pylist() == [None, 20], "of more than two rows it says that there is none"
    with pytest.raises(WindowError, match=r"MP642 `p` can't be computed"):
        result_type("p", aggregates["p"], {"v": pa.string()}, None)


def test_in_a_program_row_by_row_and_by_columns():
    rules = WindowRules({"": TEN}, w.several(p=product_of("v")), 0)
    one, other = Windows(rules, Map()), Windows(rules, Map())
    for time, value in zip(TIMES, VALUES, strict=True):
        one.clock = lambda at=time: at
        one.add("a", v=value)
    for some in (slice(2), slice(2, None)):
        times, values = np.array(TIMES[some]), np.array(VALUES[some])
        assert other.add_columns(["a"], np.zeros(len(times), np.int64), times, {"v": values})
    assert dict(one._entries) == dict(other._entries)
    _, slices, *_ = one._entries["a"][2]
    assert [partial for _, (partial,) in slices] == WANTED
