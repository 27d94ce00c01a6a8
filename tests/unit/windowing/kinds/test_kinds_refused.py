"""What is no window and no aggregate is refused with a code, wherever it is given."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from millpond import windowing as w
from millpond.errors import WindowError
from millpond.windowing.columns.columnsessions import ColumnSessions
from millpond.windowing.columns.vectorised import ColumnWindows
from millpond.windowing.joins import key_windows

TEN = w.tumbling("10 us")
ODD = (None, 0, "x", 1.5, [], {}, (), object(), w.count, w.tumbling)
"""Among it a function that was not called, which happens most."""
NAMES = [getattr(odd, "__name__", type(odd).__name__) for odd in ODD]


@pytest.mark.parametrize("odd", ODD, ids=NAMES)
@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("MP610", lambda odd: w.several(n=odd)),
        ("MP610", lambda odd: w.several({"n": odd})),
        ("MP610", w.quantiles_of),
        ("MP610", lambda odd: w.SharedWindows(odd, {"w": TEN})),
        ("MP617", lambda odd: w.SharedWindows(w.count(), {"w": odd})),
        ("MP610", lambda odd: ColumnWindows(TEN, {"n": odd})),
        ("MP629", lambda odd: ColumnWindows(odd, {"n": w.count()})),
        ("MP629", lambda odd: ColumnSessions(odd, {"n": w.count()})),
        ("MP650", lambda odd: ColumnWindows(TEN, {"n": w.count()}, corrections=odd)),
        ("MP651", lambda odd: key_windows(odd, (False, False))),
    ],
)
def test_what_is_no_window_or_aggregate_is_refused(code, call, odd):
    with pytest.raises(WindowError, match=code):
        call(odd)


@pytest.mark.parametrize("odd", [0, "x", 1.5, [1], w.count], ids=["int", "str", "float", "list", "function"])
def test_windows_and_aggregates_have_names(odd):
    for code, call in (
        ("MP610", lambda: w.several(odd)),
        ("MP617", lambda: w.SharedWindows(w.count(), odd)),
        ("MP610", lambda: ColumnWindows(TEN, odd)),
    ):
        with pytest.raises(WindowError, match=code):
            call()


@pytest.mark.parametrize("odd", [None, 0, "x", 1.5, []])
def test_there_is_no_such_store(odd):
    with pytest.raises(WindowError, match="MP615"):
        w.SharedWindows(w.count(), {"w": TEN}, store=odd)


@pytest.mark.parametrize("odd", [3, None, [[1]], np.array(["NaT"], "M8[us]")], ids=repr)
def test_times_are_a_column_of_moments(odd):
    with pytest.raises(WindowError, match="MP628"):
        ColumnWindows(TEN, {"n": w.count()}).add([0], odd, {})


@pytest.mark.parametrize(
    "made", [lambda times: pa.array(times, pa.timestamp("ns")), lambda times: np.array(times, "M8[ns]")]
)
def test_parts_of_a_microsecond_are_cut_off_towards_the_past(made):
    windows = ColumnWindows(TEN, {"n": w.count()})
    windows.add([0, 0, 0], made([-1, 1, 10_001]), {})
    assert windows.close(100).begins.tolist() == [-10, 0, 10]


def test_the_largest_of_nothing_but_numbers_says_nothing_about_nan(recwarn):
    windows = ColumnWindows(TEN, {"best": w.argmax("v", "v")})
    windows.add([0, 0], [1, 2], {"v": [1.0, float("nan")]})
    assert str(windows.close(100).values["best"].tolist()) == "[nan]"
    assert not recwarn.list


@pytest.mark.parametrize("answer", [None, (1,), (1, 2, 3, 4), ("a", 0, 0), (0.5, 0, 0), 7], ids=repr)
def test_a_function_that_gives_no_answer_is_told(answer):
    windows = {"MP621": w.user_defined(lambda _state, _moment: answer), "MP626": w.viewed(lambda *_: answer)}
    for code, window in windows.items():
        with pytest.raises(WindowError, match=code):
            w.SharedWindows(w.count(), {"w": window}).add(1, 1)


@pytest.mark.parametrize("window", [TEN, w.count_tumbling(3), w.session("5 us")], ids=["time", "count", "session"])
@pytest.mark.parametrize("odd", ["x", 1.5, True, datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)], ids=repr)
def test_times_are_microseconds(window, odd):
    windows = w.SharedWindows(w.count(), {"w": window})
    windows.add(1, 1)
    with pytest.raises(WindowError, match="MP619"):
        windows.add(1, odd)
    with pytest.raises(WindowError, match="MP619"):
        windows.advance(odd)
