"""How users describe the event time of a feed: when its rows happened, and how they come."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from millpond.errors import EventTimeError
from millpond.lengths import Length, length_us
from millpond.sinks.protocol import Sink

_NO_TIME = timedelta()


class Expression(Protocol):
    """An expression over the columns of a DataFrame: a `Column` of PySpark, which this room does not know."""

    def cast(self, dataType: Any) -> Any:  # noqa: N803 - as PySpark calls it
        """Return the expression as another type."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class EventTime:
    """When rows of a feed happened, and how they come: `job.feed(..., time=EventTime("at", disorder="10 s"))`.

    With it `self.now`, timers and times to live go by the time of rows. docs/TIME.md tells all of it.
    """

    column: str | Expression
    """The column, or the expression over columns, that says when a row happened: a timestamp."""

    disorder: Length = _NO_TIME
    """By how much rows come out of order at most: the watermark stays so far behind the latest row."""

    lateness: Length = _NO_TIME
    """Rows that happened more than this before the watermark are late."""

    idle: Length | None = None
    """A feed without rows for so long holds no other feed back; None waits for its rows for ever."""

    late: Sink | None = None
    """Where late rows go; without one they are counted, and worked on."""

    def __post_init__(self) -> None:
        # What is no length of time is refused here already.
        _ = self.disorder_us, self.lateness_us, self.idle_us

    @property
    def disorder_us(self) -> int:
        """The disorder in microseconds."""
        return length_us(self.disorder, "disorder", _bad)

    @property
    def lateness_us(self) -> int:
        """The lateness in microseconds."""
        return length_us(self.lateness, "lateness", _bad)

    @property
    def idle_us(self) -> int | None:
        """How long a feed may be without rows, in microseconds."""
        return None if self.idle is None else length_us(self.idle, "idle", _bad, least=1)


def _bad(expected: str, found: str) -> EventTimeError:
    return EventTimeError(
        "MP635", "an EventTime has something that is not a length of time", expected=expected, found=found
    )
