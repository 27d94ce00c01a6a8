"""The only door to time: a system clock, and a manual one for tests.

>>> clock = ManualClock(1_000)
>>> clock.sleep(2.5)
>>> clock.now_ms(), clock.ticks()
(3500, 3.5)
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time, and how long something took."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970, UTC."""
        ...

    def ticks(self) -> float:
        """Return seconds on a clock that never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's clock."""

    ticks = staticmethod(time.perf_counter)
    sleep = staticmethod(time.sleep)

    def now_ms(self) -> int:
        """Return milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that a test turns by hand; `sleep` returns at once and turns it."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = float(now_ms)

    def now_ms(self) -> int:
        """Return milliseconds as set by the test."""
        return int(self._now_ms)

    def ticks(self) -> float:
        """Return seconds as set by the test."""
        return self._now_ms / 1000

    def sleep(self, seconds: float) -> None:
        """Turn the clock by `seconds`."""
        self.advance(seconds * 1000)

    def advance(self, ms: float) -> None:
        """Turn the clock."""
        self._now_ms += ms
