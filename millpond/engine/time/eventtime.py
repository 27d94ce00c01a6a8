"""Event time: when rows happened, how far that has come, and which rows are late.

Each feed has a watermark, the highest event time that its rows had, less the bound on disorder. The program's is the
least of them, over feeds that are not idle, and it never goes back. It is committed with an epoch, and rows of the next
one are late by it: so an epoch needs no second look at its rows, and has the same late ones when it runs again.

>>> feeds = {"clicks": FeedTime(disorder_us=10, lateness_us=5)}
>>> event = advanced(None, feeds, 0, Heard(highest_us={"clicks": 100}, fed={"clicks"}))
>>> event.watermark_us, ParentWatermark.by(event).bound_us(feeds["clicks"])
(90, 85)
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from millpond.checkpoint.records.times import EventTimes, FeedMark
from millpond.program.semantics.epoch_time import FireUntil, us_of

FIRST_US: Final = us_of(datetime.datetime.min.replace(tzinfo=datetime.UTC))
LAST_US: Final = us_of(datetime.datetime.max.replace(tzinfo=datetime.UTC))
"""The first and the last moment that a `datetime` can tell; the last one is the end of time."""


@dataclass(frozen=True, slots=True)
class FeedTime:
    """What is known of a feed's event times.

    Rows come at most `disorder_us` after rows that happened later. They are late if they are `lateness_us` before the
    watermark; None for rows that can't be late. A feed without rows for `idle_us` holds no other back; None for never.
    """

    disorder_us: int = 0
    lateness_us: int | None = 0
    idle_us: int | None = None


@dataclass(frozen=True, slots=True)
class ParentWatermark:
    """Says which rows of an epoch are late: the watermark and the horizon of its committed parent.

    `firing` is there if its rows are handlers'.
    """

    watermark_us: int | None = None
    horizon_us: int | None = None
    firing: FireUntil | None = None

    @classmethod
    def by(cls, event: EventTimes | None) -> ParentWatermark:
        """Return what follows from the event times of a parent."""
        return cls() if event is None else cls(event.watermark_us, event.horizon_us)

    @property
    def floor_us(self) -> int:
        """The least time that a row can go by."""
        return FIRST_US if self.horizon_us is None else self.horizon_us

    def bound_us(self, feed: FeedTime) -> int:
        """Rows of a feed that happened before this are late."""
        if self.watermark_us is None or feed.lateness_us is None:
            return self.floor_us
        return max(self.watermark_us - feed.lateness_us, self.floor_us)


def natural_us(event: EventTimes, feeds: Mapping[str, FeedTime], now_us: int) -> int | None:
    """Return the watermark that follows from rows alone, also if event time has ended."""
    return _least({name: mark for name, mark in event.feeds.items() if name in feeds}, feeds, now_us)


@dataclass(frozen=True, slots=True)
class Heard:
    """What an epoch tells of event time: the highest times by feed, and the feeds that had rows of any kind.

    No handler has a time before `soonest_us`. If it leaves messages (`goes_on`), its rows are not done. A
    bounded run `ends` event time.
    """

    highest_us: Mapping[str, int]
    fed: Collection[str]
    soonest_us: int | None = None
    goes_on: bool = False
    ends: bool = False


def advanced(last: EventTimes | None, feeds: Mapping[str, FeedTime], now_us: int, heard: Heard) -> EventTimes:
    """Return the event times after an epoch at a time of the clock; `last` are those of its parent."""
    before = EventTimes() if last is None else last
    marks = {name: _marked(before.feeds.get(name), name, now_us, heard) for name in feeds}
    natural = _least(marks, feeds, now_us)
    lateness = max((feed.lateness_us or 0 for feed in feeds.values()), default=0)
    watermark = LAST_US if heard.ends else natural
    watermark = _later(before.watermark_us, watermark)
    # Rows that go on keep their times. Timers that are due were set to times that state must still be there for.
    held = [us for us in (heard.soonest_us,) if us is not None]
    reached = None if natural is None or heard.goes_on else min([natural - lateness, *held])
    return EventTimes(watermark, _later(before.horizon_us, reached), before.ended or heard.ends, marks)


def _marked(before: FeedMark | None, name: str, now_us: int, heard: Heard) -> FeedMark:
    if before is None:
        return FeedMark(now_us, heard.highest_us.get(name))
    seen = _later(before.seen_us, heard.highest_us.get(name))
    return FeedMark(now_us if name in heard.fed else before.heard_us, seen)


def _least(marks: Mapping[str, FeedMark], feeds: Mapping[str, FeedTime], now_us: int) -> int | None:
    """Get the least watermark of the feeds that are not idle; if all are, the greatest, whichever fell silent first."""
    active: list[int | None] = []
    every: list[int] = []
    for name, mark in marks.items():
        feed = feeds[name]
        own = None if mark.seen_us is None else max(mark.seen_us - feed.disorder_us, FIRST_US)
        if own is not None:
            every.append(own)
        if feed.idle_us is None or now_us - mark.heard_us < feed.idle_us:
            active.append(own)
    if not active:
        return max(every, default=None)
    known = [own for own in active if own is not None]
    return min(known) if len(known) == len(active) else None


def _later(before: int | None, now: int | None) -> int | None:
    known = [us for us in (before, now) if us is not None]
    return max(known, default=None)
