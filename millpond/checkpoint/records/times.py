"""The time of a committed epoch: when it was, which entries were over by then, and when the next timer may be due.

Programs whose state has a time to live or timers keep it among the manifest's counters, as running totals: so epochs
that know nothing of time hand it on. Programs whose feeds have event time keep their watermarks there too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from millpond.state.expiry import stamp_of
from millpond.state.local.storekey import element_of

PREFIX: Final = "total.time."
"""How all names begin that tell of time."""

_NOW: Final = PREFIX + "now"
_FED: Final = PREFIX + "fed"
_SOONEST: Final = PREFIX + "soonest"
_OVER: Final = PREFIX + "over."
_WATERMARK: Final = PREFIX + "watermark"
_HORIZON: Final = PREFIX + "horizon"
_ENDED: Final = PREFIX + "ended"
_SEEN: Final = PREFIX + "seen."
_HEARD: Final = PREFIX + "heard."
_TOLD: Final = PREFIX + "told"
_TURN: Final = PREFIX + "turn"


@dataclass(frozen=True, slots=True)
class FeedMark:
    """What is committed of a feed with event time.

    `heard_us` is the time of the last epoch that had rows of it, or of the first that knew it. `seen_us` is the highest
    event time of its rows, None if there was none yet.
    """

    heard_us: int
    seen_us: int | None = None


@dataclass(frozen=True, slots=True)
class EventTimes:
    """How far event time has come, in microseconds since 1970.

    Rows before `watermark_us` are late, and timers up to it are due; None as long as some feed has not told anything.
    No row and no handler has a `self.now` before `horizon_us`. If `ended`, a bounded run has moved the watermark to the
    end of time.
    """

    watermark_us: int | None = None
    horizon_us: int | None = None
    ended: bool = False
    feeds: Mapping[str, FeedMark] = field(default_factory=dict)

    @classmethod
    def of(cls, counters: Mapping[str, int]) -> EventTimes | None:
        """The event times that a manifest's counters tell; None if its feeds had none."""
        heard = {name.removeprefix(_HEARD): us for name, us in counters.items() if name.startswith(_HEARD)}
        if not heard:
            return None
        feeds = {name: FeedMark(us, counters.get(_SEEN + name)) for name, us in heard.items()}
        return cls(counters.get(_WATERMARK), counters.get(_HORIZON), bool(counters.get(_ENDED)), feeds)

    def told(self) -> dict[str, int]:
        """These times as counters."""
        named = {_WATERMARK: self.watermark_us, _HORIZON: self.horizon_us, _ENDED: int(self.ended) or None}
        named |= {_HEARD + name: mark.heard_us for name, mark in self.feeds.items()}
        named |= {_SEEN + name: mark.seen_us for name, mark in self.feeds.items()}
        return {name: us for name, us in named.items() if us is not None}


@dataclass(frozen=True, slots=True)
class Times:
    """Moments in microseconds since 1970, each None if there was none yet.

    `now_us` is the time of the last epoch, `fed_us` that of the last one with rows. No timer is due before
    `soonest_us`. `over_us` are stamps by the index of an element: entries up to them are over, and stay so. `event` is
    there if the feeds have event time: then timers and entries follow it, and `now_us` only tells idle feeds.

    Handlers were called for all that was due at `told_us` before the last rows or the last tick; since then as far as
    `turn` says, None if that is not under way.
    """

    now_us: int | None = None
    fed_us: int | None = None
    soonest_us: int | None = None
    over_us: Mapping[int, int] = field(default_factory=dict)
    event: EventTimes | None = None
    told_us: int | None = None
    turn: int | None = None

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

    @classmethod
    def of(cls, counters: Mapping[str, int]) -> Times:
        """The times that a manifest's counters tell."""
        over = {int(name.removeprefix(_OVER)): us for name, us in counters.items() if name.startswith(_OVER)}
        event = EventTimes.of(counters)
        now, fed, soonest, told, turn = (counters.get(name) for name in (_NOW, _FED, _SOONEST, _TOLD, _TURN))
        return cls(now, fed, soonest, over, event, told, turn)

    def noted(self, counters: Mapping[str, int]) -> dict[str, int]:
        """Counters that tell these times instead of those that they told."""
        others = {name: count for name, count in counters.items() if not name.startswith(PREFIX)}
        named = {_NOW: self.now_us, _FED: self.fed_us, _SOONEST: self.soonest_us, _TOLD: self.told_us, _TURN: self.turn}
        told = {name: us for name, us in named.items() if us is not None}
        told |= {f"{_OVER}{index}": us for index, us in self.over_us.items()}
        told |= {} if self.event is None else self.event.told()
        return dict(sorted({**others, **told}.items()))


def is_over(key: bytes, value: bytes | None, over_us: Mapping[int, int]) -> bool:
    """Whether an entry belongs to an element whose entries expire, and its time is over."""
    until = over_us.get(element_of(key))
    if until is None or value is None:
        return False
    try:
        return stamp_of(value) <= until
    except (msgspec.MsgspecError, ValueError):
        # The element has no time to live any more, so what it holds is no pair.
        return False
