"""Rows of entry points that only add to windows: when they are added at once, and what happens when they can't be."""

from __future__ import annotations

import math
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

from millpond import Program, entry, on_window
from millpond import windowing as w
from millpond.compiler.compiled import Added
from millpond.engine.plan import BadRows
from millpond.engine.simulated import Simulated
from millpond.engine.task import inorder
from millpond.engine.task.columns import ListColumn, column_of, numbers_of
from millpond.engine.time.eventtime import FeedTime
from millpond.errors import MillpondError
from millpond.spark.frames.windowstreams import _program
from millpond.testing import epoch_time
from millpond.windowing import ClosedWindow
from millpond.windowing.element import Windows
from tests.programs.timed import START, fired_by, live_state
from tests.sizes import compile_once
from tests.unit.spark.frames.test_windowplan import plan_of

SECOND = 1_000_000
TEN = timedelta(seconds=10)
NAMES = ("f", "n")


class Meters(Program):
    @entry
    def read(self, key: str, f: float | None) -> None:
        self.spans.add(key, f=f)

    @entry
    def other(self, key: str, f: float) -> None:
        self.spans.add(key, wrong=f)

    @entry
    def parts(self, key: str, row: tuple[float, int]) -> None:
        self.both.add(key, **dict(zip(NAMES, row, strict=False)))

    @entry
    def visit(self, key: str, f: float) -> None:
        self.visits.add(key, f=f)

    @entry
    def wait(self, key: str, f: float) -> None:
        self.waits.add(key, f)

    @on_window(w.session(TEN), spread=w.variance_of("f"), high=w.max_of("f"))
    def visits(self, key: str, closed: list[ClosedWindow]) -> str:
        return repr([key, *closed])

    @on_window({"counted": w.count_sliding(4, 3), "timed": w.tumbling(TEN)}, first=w.first_of(), all=w.collect())
    def waits(self, key: str, closed: list[ClosedWindow]) -> str:
        return repr([key, *closed])

    @on_window(w.sliding(TEN, timedelta(seconds=2)), total=w.sum_of("f"), many=w.count())
    def spans(self, key: str, closed: list[ClosedWindow]) -> str:
        return repr([key, *closed])

    @on_window(w.tumbling(TEN), total=w.sum_of("f"), most=w.max_of("n"))
    def both(self, key: str, closed: list[ClosedWindow]) -> str:
        return repr([key, *closed])


COMPILED = compile_once(Meters)


@pytest.fixture
def taken(monkeypatch):
    """Whether rows were added at once, call by call."""
    found = []
    add = Windows.add_columns

    def spy(self, *given):
        found.append(add(self, *given))
        return found[-1]

    monkeypatch.setattr(Windows, "add_columns", spy)
    return found


def run(directory, rows, *, least=0, policy=BadRows.SKIP, partitions=2):
    """What is held and told, with and without rows that are added at once."""
    inorder.ROWS_MIN, usual = least, inorder.ROWS_MIN
    times = FeedTime(disorder_us=SECOND, idle_us=1)
    try:
        simulated = Simulated(COMPILED, directory, partitions, key_groups=8, bad_rows=policy, event_time=times)
        with epoch_time(START):
            simulated.epoch(rows, [at % 40 * SECOND for at in range(len(rows))])
        held, counters = live_state(simulated.storage), simulated._checkpoint.head.counters
        with epoch_time(START + SECOND):
            simulated.epoch([("read", ("z", 1.0))], [10_000 * SECOND])
    finally:
        inorder.ROWS_MIN = usual
    told = fired_by(simulated, ("spans", "both", "visits", "waits"))
    assert any(told.values())
    return held, told, dict(counters), {name: sink.rows() for name, sink in simulated.dead_letters.items()}


def rows_of(name, values):
    return [(name, ("abc"[at % 3], value)) for at, value in enumerate(values)]


FLOATS = [at * 0.1 for at in range(200)]


@pytest.mark.parametrize("name", ["read", "visit", "wait"])
def test_rows_are_added_at_once(tmp_path, taken, name):
    many = run(tmp_path / "columns", rows_of(name, FLOATS), least=inorder.ROWS_MIN, partitions=1)
    assert taken == [True]
    assert run(tmp_path / "rows", rows_of(name, FLOATS), least=10**9, partitions=1) == many
    assert len(taken) == 1


def test_parts_of_tuples_are_added_at_once(tmp_path, taken):
    rows = rows_of("parts", [(value, at) for at, value in enumerate(FLOATS)])
    assert run(tmp_path / "columns", rows, least=20) == run(tmp_path / "rows", rows, least=10**9)
    assert taken == [True, True]


def test_few_rows_of_a_key_go_one_by_one(tmp_path, taken):
    run(tmp_path, rows_of("read", FLOATS[:20]), least=inorder.ROWS_MIN)
    run(tmp_path / "keys", [("read", (f"k{at}", 1.0)) for at in range(300)], least=inorder.ROWS_MIN)
    assert taken == []


def test_rows_of_two_entry_points_are_added_in_their_order(tmp_path, taken):
    rows = [row for pair in zip(rows_of("read", FLOATS), rows_of("parts", [(v, 1) for v in FLOATS])) for row in pair]  # noqa: B905
    assert run(tmp_path / "columns", rows) == run(tmp_path / "rows", rows, least=10**9)
    assert len(taken) > 300


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none_hold_no_other_rows_back(tmp_path, taken, odd):
    rows = rows_of("read", [*FLOATS, odd])
    assert repr(run(tmp_path / "columns", rows, partitions=1)) == repr(
        run(tmp_path / "rows", rows, least=10**9, partitions=1)
    )
    assert taken == [True, True]


@pytest.mark.parametrize("policy", [BadRows.SKIP, BadRows.DEAD_LETTER])
@pytest.mark.parametrize(
    "rows",
    [
        rows_of("read", [*FLOATS[:100], None, *FLOATS[100:]]),
        [*rows_of("read", FLOATS), *rows_of("other", FLOATS[:40])],
    ],
)
def test_rows_that_raise_are_left_out_as_always(tmp_path, taken, rows, policy):
    ours = run(tmp_path / "columns", rows, policy=policy)
    assert run(tmp_path / "rows", rows, least=10**9, policy=policy) == ours
    assert sum(told for name, told in ours[2].items() if name.startswith("total.bad")) in {1, 40}


def test_a_row_that_raises_is_told_as_always(tmp_path):
    rows = rows_of("read", [*FLOATS[:100], None, *FLOATS[100:]])
    told = []
    for least in (0, 10**9):
        with pytest.raises(MillpondError) as caught:
            run(tmp_path / str(least), rows, least=least, policy=BadRows.FAIL)
        told.append(str(caught.value))
    assert told[0] == told[1]
    assert "MP608" in told[0]


def test_a_streaming_frame_is_a_program_whose_rows_are_added_at_once():
    plan = plan_of(w.tumbling("10 us"), {"f": pa.float64(), "n": pa.int64()}, total=w.sum_of("f"), most=w.max_of("n"))
    program = compile_once(_program(plan, [("bigint", int)], [("double", float), ("bigint", int)], timedelta()))
    (task,) = program.entries["add"].tasks
    assert task.adds is not None
    assert task.adds.values == (Added("f", "window_row", 0), Added("n", "window_row", 1))


@pytest.mark.parametrize(
    ("column", "part", "numbers"),
    [
        (column_of(pa.array([1, 2]), int), None, [1, 2]),
        (column_of(pa.array([1.5, 2]), float), None, [1.5, 2.0]),
        (column_of(pa.array([1, None]), int | None), None, None),
        (column_of(pa.array(["a", "b"]), str), None, None),
        (ListColumn([1, 2]), None, None),
        (ListColumn([(1,), (2,)]), 0, None),
        (column_of(pa.array([{"_1": 1, "_2": "a"}, {"_1": 2, "_2": "b"}]), tuple[int, str]), 0, [1, 2]),
        (column_of(pa.array([{"_1": 1, "_2": "a"}, {"_1": 2, "_2": "b"}]), tuple[int, str]), 1, None),
        (column_of(pa.array([{"_1": 1}, {"_1": None}]), tuple[int]), 0, None),
        (column_of(pa.array([{"_1": 1}, None]), tuple[int] | None), 0, None),
        (column_of(pa.array([{"_1": 1}, {"_1": 2}, {"_1": 3}])[1:], tuple[int]), 0, [2, 3]),
    ],
)
def test_columns_are_numbers_where_none_is_missing(column, part, numbers):
    found = numbers_of(column, part)
    assert (None if found is None else np.asarray(found).tolist()) == numbers
