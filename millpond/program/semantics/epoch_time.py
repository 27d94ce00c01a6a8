"""The time of the epoch: what `self.now` says.

The driver chooses one moment per epoch and hands it to all tasks, so that every row of the epoch, every task, and every
task that runs again sees the same. A row keeps the moment of the epoch that it was fed in. In plain Python it is the
system's clock, read once for each call of an entry point, or what `epoch_time` says. Rows of feeds with event time have
each a time of their own instead, which `event_time` sets in plain Python.

>>> with epoch_time(datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)):
...     print(epoch_now(), now_us())
2024-05-01 00:00:00+00:00 1714521600000000
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

from millpond.clock import SystemClock
from millpond.state.cascade import Place
from millpond.state.timers import LAST_US

_EPOCH_ZERO: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_SYSTEM: Final = SystemClock()

_TURNS: Final = itertools.count()
_TURN_BITS: Final = 40


class _RowTimes:
    """The times of rows that run one after the other: the one at work is known by how many are done."""

    __slots__ = ("_done", "_first_turn", "_times")

    def __init__(self, times: Sequence[int], done: Sized) -> None:
        self._times = times
        self._done = done
        self._first_turn = next(_TURNS) << _TURN_BITS

    def now_us(self) -> int:
        return self._times[len(self._done)]

    def turn(self) -> int:
        return self._first_turn + len(self._done)


class FireUntil(NamedTuple):
    """Up to when handlers are called, and were called before; at the end of time, the stage that is called `once`."""

    until_us: int
    before_us: int | None = None
    once: int | None = None


_chosen: ContextVar[datetime.datetime | _RowTimes | None] = ContextVar("epoch_time", default=None)
_firing: ContextVar[FireUntil | None] = ContextVar("firing_until", default=None)


def epoch_now() -> datetime.datetime:
    """Return the time of the row or of its epoch, in UTC; outside an epoch, that of the system's clock."""
    moment = _chosen.get()
    if isinstance(moment, _RowTimes):
        return moment_of(moment.now_us())
    return moment_of(_SYSTEM.now_ms() * 1000) if moment is None else moment


def now_us() -> int:
    """Return `epoch_now` in microseconds since 1970."""
    moment = _chosen.get()
    return moment.now_us() if isinstance(moment, _RowTimes) else us_of(epoch_now())


def adding_now_us(place: Place) -> Callable[[], int]:
    """Return the clock of the windows of a handler: `adding_us` of the row at work."""
    return lambda: adding_us(now_us(), place)


def adding_us(row_us: int, place: Place) -> int:
    """Return the time at which a row is added to windows: its own, but in handlers not before the last firing."""
    first = added_from_us(place)
    return row_us if first is None else max(row_us, first)


def reached_us() -> int:
    """Return how far time has come in handlers: up to then timers fire, maybe later than the one that fired."""
    firing = _firing.get()
    return now_us() if firing is None else firing.until_us


def added_from_us(place: Place) -> int | None:
    """Return the time before which no row is added to the windows of a handler; None if there is none."""
    firing = _firing.get()
    if firing is None:
        return None
    if firing.once is not None and place.cyclic and place.stage == firing.once:
        # Nothing that feeds itself is emitted any more.
        return LAST_US
    return None if firing.before_us is None else firing.before_us - place.lag_us


def row_turn() -> int:
    """Return what tells the moment of a row from others: with event times each is a moment, others share theirs."""
    moment = _chosen.get()
    return moment.turn() if isinstance(moment, _RowTimes) else us_of(epoch_now())


def us_of(moment: datetime.datetime) -> int:
    """Return a moment with a time zone in microseconds since 1970."""
    return (moment - _EPOCH_ZERO) // _MICROSECOND


def moment_of(us: int) -> datetime.datetime:
    """Return microseconds since 1970 as a moment in UTC; exact, unlike a float of seconds."""
    return _EPOCH_ZERO + datetime.timedelta(microseconds=us)


@contextmanager
def epoch_time(moment: datetime.datetime | int) -> Iterator[None]:
    """Let `self.now` be a moment while the block runs: a datetime with a zone, or microseconds since 1970."""
    if isinstance(moment, datetime.datetime):
        if moment.tzinfo is None:
            raise ValueError("a moment without a time zone: give it one, e.g. datetime.UTC")
        chosen = moment.astimezone(datetime.UTC)
    else:
        chosen = moment_of(moment)
    token = _chosen.set(chosen)
    try:
        yield
    finally:
        _chosen.reset(token)


@contextmanager
def event_time(moment: datetime.datetime | int) -> Iterator[None]:
    """Let `self.now` be the event time of one row, which is called inside the block; for tests of plain programs."""
    us = moment if isinstance(moment, int) else us_of(moment)
    with row_times([us], ()):
        yield


@contextmanager
def firing_until(firing: FireUntil | None) -> Iterator[None]:
    """Say up to when the handlers that run inside the block emit windows; None where there are none."""
    token = _firing.set(firing)
    try:
        yield
    finally:
        _firing.reset(token)


@contextmanager
def row_times(times: Sequence[int], done: Sized) -> Iterator[None]:
    """Give each of many rows its own time; `done` grows by one with every row that is over."""
    token = _chosen.set(_RowTimes(times, done))
    try:
        yield
    finally:
        _chosen.reset(token)
