"""What is no window and no aggregate is refused with a code, wherever it is given."""

from __future__ import annotations

import pytest

from millpond import windowing as w
from millpond.errors import WindowError
from millpond.joining import IntervalJoin, WindowJoin
from millpond.windowing.columnsessions import ColumnSessions
from millpond.windowing.vectorised import ColumnWindows

TEN = w.tumbling(10)
ODD = (None, 0, "x", 1.5, [], {}, (), object(), w.count, w.tumbling)
"""Among it a function that was not called, which happens most."""


@pytest.mark.parametrize("odd", ODD, ids=repr)
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
        ("MP651", WindowJoin),
        ("MP651", lambda odd: WindowJoin(TEN, how=odd)),
        ("MP651", lambda odd: IntervalJoin(0, 1, how=odd)),
    ],
)
def test_what_is_no_window_or_aggregate_is_refused(code, call, odd):
    with pytest.raises(WindowError, match=code):
        call(odd)


@pytest.mark.parametrize("odd", [0, "x", 1.5, [1], w.count])
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
