"""The time of a committed epoch: when it was, which entries were over by then, and when the next timer may be due.

Programs whose state has a time to live or timers keep it among the manifest's counters, as running totals: so epochs
that know nothing of time hand it on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from millpond.state.expiry import stamp_of
from millpond.state.storekey import element_of

PREFIX: Final = "total.time."
"""How all names begin that tell of time."""

_NOW: Final = PREFIX + "now"
_FED: Final = PREFIX + "fed"
_SOONEST: Final = PREFIX + "soonest"
_OVER: Final = PREFIX + "over."


@dataclass(frozen=True, slots=True)
class Times:
    """Moments in microseconds since 1970, each None if there was none yet.

    `now_us` is the time of the last epoch, `fed_us` that of the last one with rows. No timer is due before
    `soonest_us`. `over_us` are stamps by the index of an element: entries up to them are over, and stay so.
    """

    now_us: int | None = None
    fed_us: int | None = None
    soonest_us: int | None = None
    over_us: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, counters: Mapping[str, int]) -> Times:
        """The times that a manifest's counters tell."""
        over = {int(name.removeprefix(_OVER)): us for name, us in counters.items() if name.startswith(_OVER)}
        return cls(counters.get(_NOW), counters.get(_FED), counters.get(_SOONEST), over)

    def noted(self, counters: Mapping[str, int]) -> dict[str, int]:
        """Counters that tell these times instead of those that they told."""
        others = {name: count for name, count in counters.items() if not name.startswith(PREFIX)}
        named = {_NOW: self.now_us, _FED: self.fed_us, _SOONEST: self.soonest_us}
        told = {name: us for name, us in named.items() if us is not None}
        told |= {f"{_OVER}{index}": us for index, us in self.over_us.items()}
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
