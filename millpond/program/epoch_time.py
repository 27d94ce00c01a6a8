"""The time of the epoch: what `self.now` says.

The driver chooses one moment per epoch and hands it to all tasks, so that every row of the epoch, every task, and every
task that runs again sees the same. A row keeps the moment of the epoch that it was fed in. In plain Python it is the
system's clock, read once for each call of an entry point, or what `epoch_time` says.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from millpond.clock import SystemClock

_EPOCH_ZERO: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_SYSTEM: Final = SystemClock()

_chosen: ContextVar[datetime.datetime | None] = ContextVar("epoch_time", default=None)


def epoch_now() -> datetime.datetime:
    """The time of the epoch in UTC; outside an epoch, that of the system's clock."""
    moment = _chosen.get()
    return moment_of(_SYSTEM.now_ms() * 1000) if moment is None else moment


def now_us() -> int:
    """`epoch_now` in microseconds since 1970: what a driver chooses once per epoch, and hands to all tasks."""
    return us_of(epoch_now())


def us_of(moment: datetime.datetime) -> int:
    """A moment with a time zone in microseconds since 1970."""
    return (moment - _EPOCH_ZERO) // _MICROSECOND


def moment_of(us: int) -> datetime.datetime:
    """Microseconds since 1970 as a moment in UTC; exact, unlike a float of seconds."""
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
