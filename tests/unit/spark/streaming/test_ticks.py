"""The thread that ticks: as long as its query is alive, and never silently."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from millpond.errors import EpochError, MillpondError
from millpond.spark.streaming.ticks import TICK, Ticker, tick_seconds

WAIT = 600


class Query:
    """Ticks are counted here, and fail as a test wants."""

    def __init__(self, error=None, lasts=10**9):
        self.error, self.lasts = error, lasts
        self.ticks, self.told = 0, []
        self.told_now, self.ticked = threading.Event(), threading.Event()

    def tick(self, alive):
        assert alive()
        self.ticks += 1
        self.ticked.set()
        if self.error is not None:
            raise self.error

    def alive(self):
        return self.ticks < self.lasts

    def failed(self, error):
        self.told.append(error)
        self.told_now.set()


def started(query):
    ticker = Ticker(0.001, query.tick, query.alive, query.failed)
    ticker.start()
    return ticker


def test_it_ticks_until_it_is_ended():
    query = Query()
    ticker = started(query)
    assert query.ticked.wait(WAIT)
    ticker.end()
    ticks = query.ticks
    assert not threading.Event().wait(0.05)
    assert (query.ticks, query.told) == (ticks, [])


def test_it_ends_with_its_query():
    query = Query(lasts=3)
    ticker = started(query)
    ticker._thread.join(WAIT)
    assert query.ticks == 3


@pytest.mark.parametrize(
    ("error", "code"), [(EpochError("MP408", "fenced"), "MP408"), (ValueError("out of order"), "MP464")]
)
def test_what_goes_wrong_is_told_and_ends_it(error, code):
    query = Query(error)
    ticker = started(query)
    assert query.told_now.wait(WAIT)
    ticker.end()
    (told,) = query.told
    assert (told.code, query.ticks) == (code, 1)
    assert isinstance(told, MillpondError)


def test_what_goes_wrong_because_the_query_ended_is_not_told():
    query = Query(ValueError("the session is gone"), lasts=1)
    ticker = started(query)
    ticker._thread.join(WAIT)
    assert (query.ticks, query.told) == (1, [])


def test_seconds_between_two_looks_at_the_clock():
    assert tick_seconds(TICK) == 1.0
    assert tick_seconds(timedelta(0)) == 0.0
    assert tick_seconds("250 ms") == tick_seconds(timedelta(milliseconds=250)) == 0.25
    for wrong in (timedelta(-1), 1, "a second", None):
        with pytest.raises(MillpondError) as caught:
            tick_seconds(wrong)
        assert caught.value.code == "MP463"
