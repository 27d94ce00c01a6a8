"""Rows that wait for their order: in which order windows are told."""

from __future__ import annotations

from millpond import windowing as w
from millpond.windowing.keyed.keyrows import KeyRows


def told(windows, times, until):
    rules = KeyRows(windows, w.several(all=w.collect()))
    held, moment = rules.start(), None
    for time in times:
        held, moment = rules.add(held, time, time, moment)
    return [(one.window, one.begin, one.end) for one in rules.close(held, until)[0]]


def test_windows_over_time_are_told_by_their_ends_though_one_row_ends_them_all():
    windows = {
        "visit": w.session("8 us"),
        "wide": w.tumbling("10 us"),
        "narrow": w.tumbling("5 us"),
        "again": w.tumbling("5 us"),
    }
    assert told(windows, [1, 30], 30) == [
        ("narrow", 0, 5), ("again", 0, 5), ("visit", 1, 9), ("wide", 0, 10),
    ]  # fmt: skip


def test_windows_without_times_come_behind_those_that_have_them():
    windows = {"pairs": w.count_tumbling(2), "wide": w.tumbling("10 us"), "newest": w.last_every(1, "10 us")}
    assert told(windows, [1, 2, 30], 30) == [("wide", 0, 10), ("pairs", 0, 2), ("newest", 1, 2)]
