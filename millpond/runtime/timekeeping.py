"""The time of epochs, for programs whose state has a time to live or timers.

The driver chooses a moment for each epoch, later than that of the one before, and commits it with the epoch. From what
is committed follows what is over, and whether timers are due: so a driver that starts anew goes on as its predecessor
would have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from millpond.compiler.compiled import CompiledProgram
from millpond.epochs.manifest import Manifest
from millpond.epochs.times import Times
from millpond.epochs.work import EpochWork
from millpond.program.epoch_time import now_us
from millpond.state.timers import TimersType

_SET: Final = "timers.set."
_TOTAL: Final = "total."


def soonest_name(step: int, partition: int, *, gathered: bool) -> str:
    """The counter under which a task tells when the first timer is due that it set."""
    return f"{_SET}{step}.{partition}.{'gathered' if gathered else 'own'}"


class Timekeeper:
    """Chooses the times of a checkpoint's epochs, and notes them in what is committed."""

    def __init__(self, program: CompiledProgram, head: Callable[[], Manifest | None]) -> None:
        self._head = head
        self._ttls = {name: element.ttl for name, element in program.elements.items() if element.ttl is not None}
        self.handlers = tuple(name for name, e in program.elements.items() if isinstance(e.type, TimersType))

    @property
    def timed(self) -> bool:
        """Whether the program has state that time changes."""
        return bool(self._ttls or self.handlers)

    @property
    def last(self) -> Times:
        """The times of the last committed epoch."""
        head = self._head()
        return Times() if head is None else Times.of(head.counters)

    def moment(self) -> int:
        """The time of the next epoch: now, but later than the last one."""
        now, last = now_us(), self.last.now_us
        return now if not self.timed or last is None else max(now, last + 1)

    def going_on(self) -> int:
        """The time of an epoch that belongs to the last one: its own, if it is known."""
        last = self.last.now_us
        return now_us() if not self.timed or last is None else last

    def owed(self) -> int | None:
        """The time at which timers of the last epoch are still to fire: its end is not over before they did."""
        head, last = self._head(), self.last
        if head is None or head.pending or head.offer.ticks or not self.handlers:
            return None
        return last.now_us if _is_due(last.soonest_us, last.now_us) else None

    def ticks(self) -> bool:
        """Whether an epoch without rows is worth its while now: a timer may be due, or a time to live is over."""
        now, last = self.moment(), self.last
        if last.now_us is None:
            return False
        if self.handlers and _is_due(last.soonest_us, now):
            return True
        written = last.fed_us
        return written is not None and any(last.now_us < written + ttl.length_us <= now for ttl in self._ttls.values())

    def noted(
        self,
        work: EpochWork,
        moment: int,
        indexes: Mapping[str, int],
        *,
        left_us: int | None = None,
        fires: bool = False,
    ) -> EpochWork:
        """An epoch's work with its time; of one that `fires`, `left_us` is when the first timer after it is due.

        `indexes` are the elements' in store keys.
        """
        if not self.timed:
            return work
        told = [us for name, us in work.counters.items() if name.startswith(_SET)]
        others = {name: n for name, n in work.counters.items() if not name.startswith((_SET, _TOTAL + _SET))}
        last = self.last
        before = left_us if fires else last.soonest_us
        # What was over stays over, also if entries live longer from now on.
        over = {
            indexes[name]: max(ttl.cutoff(moment), last.over_us.get(indexes[name], ttl.cutoff(moment)))
            for name, ttl in self._ttls.items()
        }
        times = Times(
            now_us=moment,
            fed_us=last.fed_us if fires and not work.parts else moment,
            soonest_us=min([*told, *([] if before is None else [before])], default=None),
            over_us=over,
        )
        return replace(work, counters=times.noted(others))


def _is_due(soonest_us: int | None, now: int | None) -> bool:
    return soonest_us is not None and now is not None and soonest_us <= now
