"""The time of a committed epoch: when it was, which entries were over by then, and when the next timer may be due.

Manifests of programs whose state has a time to live or timers tell it, and epochs that know nothing of time hand it on.
If the feeds have event time, their watermarks are there too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from millpond.state.expiry import stamp_of
from millpond.state.local.storekey import element_of


class FeedMark(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is committed of a feed with event time.

    `heard_us` is the time of the last epoch that had rows of it, or of the first that knew it. `seen_us` is the highest
    event time of its rows, None if there was none yet.
    """

    heard_us: int
    seen_us: int | None = None


class EventTimes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How far event time has come, in microseconds since 1970.

    Rows before `watermark_us` are late, and timers up to it are due; None as long as some feed has not told anything.
    No row and no handler has a `self.now` before `horizon_us`. If `ended`, a bounded run has moved the watermark to the
    end of time.
    """

    watermark_us: int | None = None
    horizon_us: int | None = None
    ended: bool = False
    feeds: dict[str, FeedMark] = {}


class Times(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Moments in microseconds since 1970, each None if there was none yet.

    `now_us` is the time of the last epoch, `fed_us` that of the last one with rows. No timer is due before
    `soonest_us`. `over` are indexes of elements, ascending, each with a stamp: entries up to it are over, and stay so.
    `event` is there if the feeds have event time: then timers and entries follow it, and
    `now_us` only tells idle feeds.

    Handlers were called for all that was due at `told_us` before the last rows or the last tick; since then as far as
    `turn` says, None if that is not under way.
    """

    now_us: int | None = None
    fed_us: int | None = None
    soonest_us: int | None = None
    over: tuple[tuple[int, int], ...] = ()
    event: EventTimes | None = None
    told_us: int | None = None
    turn: int | None = None

    @property
    def over_us(self) -> dict[int, int]:
        """The stamps by the index of an element."""
        return dict(self.over)

    @property
    def reached_us(self) -> int | None:
        """The time up to which timers are due: that of the last epoch, or its watermark."""
        return self.now_us if self.event is None else self.event.watermark_us

    @property
    def seen_us(self) -> int | None:
        """No row so far has a later time; None if there was none, or if none can follow."""
        if self.event is None:
            return self.now_us
        if self.event.ended:
            return None
        seen = [self.event.watermark_us, *(mark.seen_us for mark in self.event.feeds.values())]
        return max((us for us in seen if us is not None), default=None)


class TaskTimes(msgspec.Struct, frozen=True):
    """What tasks tell of time: the first moment that a timer was set to, and the highest event time of feeds' rows.

    `heard` are the feeds that had rows of any kind, also bad ones without a time, by name.
    """

    soonest_us: int | None = None
    highest_us: dict[str, int] = {}
    heard: tuple[str, ...] = ()

    @classmethod
    def joined(cls, told: Iterable[TaskTimes]) -> TaskTimes:
        """Return what several tell together: the first of what is due, and the latest of what happened."""
        soonest: int | None = None
        highest: dict[str, int] = {}
        heard: set[str] = set()
        for one in told:
            if one.soonest_us is not None:
                soonest = one.soonest_us if soonest is None else min(soonest, one.soonest_us)
            for feed, us in one.highest_us.items():
                highest[feed] = max(us, highest.get(feed, us))
            heard.update(one.heard)
        return cls(soonest, highest, tuple(sorted(heard)))


def is_over(key: bytes, value: bytes | None, over_us: Mapping[int, int]) -> bool:
    """Say whether an entry belongs to an element whose entries expire, and its time is over."""
    until = over_us.get(element_of(key))
    if until is None or value is None:
        return False
    try:
        return stamp_of(value) <= until
    except (msgspec.MsgspecError, ValueError):
        # The element has no time to live any more, so what it holds is no pair.
        return False
