"""Lengths of time in one way: a timedelta, or a number with a unit; all else is refused with what it lacks."""

from __future__ import annotations

from datetime import timedelta

import pytest

from millpond import BoundedLoss, EventTime, Keep, Map, Partitioned, on_window
from millpond import windowing as w
from millpond.engine.elastic.options import Elastic
from millpond.errors import FeedError, MillpondError
from millpond.lengths import length_us
from millpond.spark.streaming.ticks import tick_seconds
from millpond.windowing.columns.corrections import Allowed
from millpond.windowing.joins import key_intervals

SECOND = 1_000_000


def refuse(expected, found):
    return FeedError("MP500", "no length of time", expected=expected, found=found)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("10 minutes", 600 * SECOND),
        ("1 minute", 60 * SECOND),
        ("1.5 s", 1_500_000),
        ("1 day", 86_400 * SECOND),
        ("2 weeks", 2 * 7 * 86_400 * SECOND),
        ("250ms", 250_000),
        (" 3  h ", 3 * 3600 * SECOND),
        ("0 s", 0),
        ("1 us", 1),
        ("0.000001 s", 1),
        ("0.1 s", 100_000),
        (timedelta(minutes=1, microseconds=7), 60 * SECOND + 7),
        (timedelta.max, timedelta.max // timedelta(microseconds=1)),
    ],
)
def test_lengths_are_whole_microseconds(given, wanted):
    assert length_us(given, "tick", refuse) == wanted


UNITS = {"us": "microsecond", "ms": "millisecond", "s": "second", "min": "minute", "h": "hour", "d": "day", "w": "week"}


@pytest.mark.parametrize(("short", "word"), UNITS.items())
def test_each_unit_has_a_short_name_and_a_word(short, word):
    assert len({length_us(f"2 {name}", "tick", refuse) for name in (short, word, f"{word}s")}) == 1


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("", "no number with a unit"),
        ("10", "no number with a unit"),
        ("minutes", "no number with a unit"),
        ("nan s", "no number with a unit"),
        ("1e3 s", "no number with a unit"),
        ("1 h 30 min", "no number with a unit"),
        ("5 fortnights", "no such unit"),
        ("5 Minutes", "no number with a unit"),
        ("0.5 us", "no whole number of microseconds"),
        ("9999999999 d", "longer than 999,999,999 days"),
        (10, "a number without a unit"),
        (float("nan"), "a number without a unit"),
        (True, "a number without a unit"),
        (None, "NoneType"),
        ("-1 s", "'-1 s'"),
        (timedelta(seconds=-1), "timedelta(days=-1"),
    ],
)
def test_what_is_no_length_says_why(given, found):
    with pytest.raises(FeedError) as caught:
        length_us(given, "tick", refuse)
    assert found in str(caught.value)
    assert "tick as a length of time, not below 0" in str(caught.value)


def test_a_length_may_have_to_be_above_zero_and_may_lie_below():
    assert length_us("-1.5 s", "origin", refuse, least=None) == -1_500_000
    with pytest.raises(FeedError, match="idle as a length of time, above 0"):
        length_us("0 s", "idle", refuse, least=1)


HOUR = timedelta(hours=1)


def time_to_live(given):
    # None is for none.
    return Partitioned(Map[str, int], ttl=0 if given is None else given).ttl


def handler_lateness(given):
    return on_window(w.tumbling("1 s"), lateness=given, n=w.count())(lambda self, key, closed: None).lateness_us


@pytest.mark.parametrize(
    "make",
    [
        lambda given: EventTime("at", disorder=given, idle="1 s").disorder_us,
        lambda given: EventTime("at", lateness=given).lateness_us,
        lambda given: EventTime("at", idle=0 if given is None else given).idle_us,
        lambda given: BoundedLoss(within=given).within_us,
        lambda given: Keep(grace=given).grace_ms,
        lambda given: Elastic(ignored=given).ignored_s,
        time_to_live,
        handler_lateness,
        lambda given: [w.tumbling(given), w.sliding(given, given, origin=given), w.session(given)],
        lambda given: [w.landmark(bool, length=given), w.measured(len, given)],
        lambda given: w.last_every(3, given).describe(),
        lambda given: Allowed.of(given, "replace").lateness,
        tick_seconds,
    ],
)
def test_every_place_takes_both_and_refuses_the_rest(make):
    assert make("1 hour") == make(HOUR)
    for wrong in ("1 houre", "-1 s", "", 1.5, None):
        with pytest.raises(MillpondError, match=r"length of time|above zero"):
            make(wrong)


@pytest.mark.parametrize(
    "make",
    [
        w.tumbling,
        w.session,
        lambda given: w.sliding("1 s", given),
        lambda given: w.tumbling("1 s", origin=given),
        lambda given: w.landmark(bool, length=given),
        lambda given: w.last_every(3, given),
        lambda given: Allowed.of(given, "replace"),
        lambda given: key_intervals("0 s", given, (False, False)),
    ],
)
def test_windows_take_no_microseconds_without_a_unit_and_show_how_they_are_written(make):
    with pytest.raises(FeedError, match="MP526") as caught:
        make(250)
    assert caught.value.expected == '"250 us", or a timedelta'
    make("250 us")
