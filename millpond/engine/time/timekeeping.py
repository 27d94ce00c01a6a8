"""The time of epochs, for programs whose state has a time to live or timers.

The driver chooses a moment for each epoch, later than that of the one before, and commits it with the epoch. From what
is committed follows what is over, and whether timers are due: so a driver that starts anew goes on as its predecessor
would have. If the feeds have event time, what is over and what is due follows from watermarks instead, and the moment
only tells which feeds are idle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from millpond.checkpoint.commit.checkpoint import Checkpoint
from millpond.checkpoint.records.offers import Ticked
from millpond.checkpoint.records.times import EventTimes, Times
from millpond.checkpoint.records.work import EpochWork
from millpond.compiler.compiled import CompiledProgram
from millpond.engine.plan import Level
from millpond.engine.time.eventtime import FeedTime, Heard, ParentWatermark, advanced, natural_us
from millpond.errors import EventTimeError, WindowError
from millpond.program.semantics.epoch_time import FireUntil, now_us
from millpond.state.cascade import Cascade, Round, Turn
from millpond.state.timers import TimersType
from millpond.windowing.element import WindowsType


class Left(NamedTuple):
    """What an epoch of handlers leaves: when the first timer is due after it, and whose turn it is then, if it is."""

    next_us: int | None = None
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class Firing:
    """The calls of all handlers that are due at a time, as far as they have come.

    All up to `told_us` were called before. If it is `closing`, event time has ended. If it has an `end`, that follows
    when no stage is left; `last` is the last stage. `once` is the stage of those that are called now, if they feed
    themselves and event time has ended.
    """

    turn: Turn
    until_us: int | None
    told_us: int | None
    last: int
    closing: bool = False
    end: Firing | None = None
    once: int | None = None

    def watermark(self, watermark: ParentWatermark) -> ParentWatermark:
        """Return the watermark that rows of handlers go by, where other rows go by this one."""
        if self.until_us is None:
            return watermark
        return replace(watermark, firing=FireUntil(self.until_us, self.told_us, self.once))

    @property
    def noted(self) -> int | None:
        """How far it has come, as it is committed; None if all were called."""
        if self.turn.stage <= self.last:
            return 2 * self.turn.number + self.closing
        return None if self.end is None else 2 * self.end.turn.number + self.end.closing

    def then(self, found: Round) -> Firing:
        """Return the same when a round is over."""
        return replace(self, turn=found.turn, once=found.once)

    def done(self) -> Firing:
        """Return the same when nobody is left to be called."""
        return replace(self, turn=Turn(self.last + 1))


class Timekeeper:
    """Chooses the times of a checkpoint's epochs, and notes them in what is committed."""

    def __init__(self, program: CompiledProgram, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._ttls = {name: element.ttl for name, element in program.elements.items() if element.ttl is not None}
        self.handlers = tuple(name for name, e in program.elements.items() if isinstance(e.type, TimersType))
        types = {name: element.type for name, element in program.elements.items()}
        self._windows = {name: kind for name, kind in types.items() if isinstance(kind, WindowsType)}
        self._cascade = Cascade({name: kind for name, kind in types.items() if isinstance(kind, TimersType)})
        self._feeds: Mapping[str, FeedTime] = {}

    def follow(self, feeds: Mapping[str, FeedTime | None], durability: Level) -> None:
        """Go by the event time of feeds: all of them have it, or none, and so it stays for the checkpoint's life."""
        timed = {name: feed for name, feed in feeds.items() if feed is not None}
        if timed and len(timed) < len(feeds):
            raise EventTimeError(
                "MP630",
                "some feeds have event time, and others do not",
                expected="time= for all feeds of a job, or for none",
                found=f"without: {', '.join(name for name in feeds if name not in timed)}",
                hint="rows, timers and entries of one program go by one time: name the column of the others' times too",
            )
        if timed and durability is Level.REPLAY:
            raise EventTimeError(
                "MP637",
                'feeds with event time can\'t have Durability("replay")',
                expected='Durability("exactly_once")',
                hint="which rows are late follows from the watermark of each epoch, and not from the logged rows alone",
            )
        last = self.last
        if feeds and (last.event is not None or last.now_us is not None) and (last.event is not None) != bool(timed):
            raise EventTimeError(
                "MP631",
                "the checkpoint went by another kind of time",
                expected="feeds with event time" if last.event is not None else "feeds without event time",
                found="feeds with event time" if timed else "feeds without event time",
                hint="times of entries and timers would be of two kinds: begin a new checkpoint",
            )
        self._check_lateness(timed)
        self._feeds = timed

    def _check_lateness(self, feeds: Mapping[str, FeedTime]) -> None:
        """Refuse rows that come after all that is known of their windows is gone: they would be told as new ones."""
        rows_come = {name: element for name, element in self._windows.items() if element.direct}
        for name, element in rows_come.items():
            later = [feed for feed, time in feeds.items() if (time.lateness_us or 0) > element.rules.lateness_us]
            if later:
                raise WindowError(
                    "MP649",
                    f"rows may come later than the windows of `{name}` are kept",
                    expected=f"lateness= of a feed up to that of @on_window, {element.rules.lateness_us} microseconds",
                    found=", ".join(f"{feed}: {feeds[feed].lateness_us}" for feed in later),
                    hint="say @on_window(..., lateness=...), to have windows corrected; or give feeds more disorder",
                )

    @property
    def by_event(self) -> bool:
        """Whether the feeds have event time."""
        return bool(self._feeds)

    @property
    def timed(self) -> bool:
        """Whether the program has state that time changes, or feeds with event time."""
        return bool(self._ttls or self.handlers or self._feeds)

    def watermark(self) -> ParentWatermark:
        """Return the watermark by which rows of the next epoch are late: the one that holds after the last one."""
        return ParentWatermark.by(self.last.event) if self.by_event else ParentWatermark()

    def check_open(self) -> None:
        """Refuse rows after the end of event time."""
        event = self.last.event
        if self.by_event and event is not None and event.ended:
            raise EventTimeError(
                "MP632",
                "the watermark of this checkpoint is at the end of time, so all rows would be late",
                expected="a run that left it open: run(name, close=False)",
                found="a run that ended it, and new rows",
                hint="a bounded run fires all timers at its end: let only the last do so, or begin a new checkpoint",
            )

    @property
    def ended(self) -> bool:
        """Whether a bounded run has moved the watermark to the end of time."""
        event = self.last.event
        return event is not None and event.ended

    @property
    def last(self) -> Times:
        """The times of the last committed epoch."""
        head = self._checkpoint.head
        return Times() if head is None else head.times

    @property
    def goes_on(self) -> bool:
        """Whether event time has ended, and some handlers may have more to do."""
        last = self.last
        return self.ended and last.turn is None and last.soonest_us is not None and bool(self._cascade.going_on)

    def moment(self) -> int:
        """Return the time of the next epoch: now, but later than the last one."""
        now, last = now_us(), self.last.now_us if self.timed else None
        return now if last is None else max(now, last + 1)

    def going_on(self) -> int:
        """Return the time of an epoch that belongs to the last one: its own, if it is known."""
        last = self.last.now_us if self.timed else None
        return now_us() if last is None else last

    def owed(self) -> int | None:
        """Return the time at which timers of the last epoch are still to fire: its end is not over before they did."""
        head = self._checkpoint.head if self.handlers else None
        if head is None or head.pending:
            return None
        last = self.last
        if isinstance(head.offer, Ticked) and last.turn is None:
            return None
        return last.now_us if _is_due(last.soonest_us, last.reached_us) else None

    def reached(self, moment: int, *, ends: bool = False) -> int | None:
        """Return the time up to which timers are due in an epoch without rows: its moment, or its watermark."""
        return moment if not self.by_event else self._advanced(moment, ends=ends).watermark_us

    def _advanced(self, moment: int, *, ends: bool) -> EventTimes:
        return advanced(self.last.event, self._feeds, moment, Heard({}, (), ends=ends))

    def firing(self, moment: int, *, ends: bool = False) -> Firing:
        """Say how far the handlers of what is due at a moment have been called; it may `end` event time."""
        last = self.last
        until, end = self.reached(moment, ends=ends), None
        event = self._advanced(moment, ends=ends) if self.by_event else None
        closing = event is not None and event.ended
        whole = Firing(Turn(), until, self._told(moment), self._cascade.last, closing)
        if event is not None and event.ended and self._cascade.cyclic:
            # What feeds itself goes as far as rows say, and then once more: so a stream and a bounded run agree.
            end = whole
            whole = replace(whole, until_us=natural_us(event, self._feeds, moment), closing=False, end=end)
        head = self._checkpoint.head
        if moment != last.now_us or last.turn is None or head is None or not isinstance(head.offer, Ticked):
            return whole
        ending, number = last.turn % 2, last.turn // 2
        return replace(whole if end is None or not ending else end, turn=Turn.of(number))

    def _told(self, moment: int) -> int | None:
        """Up to when handlers were called before the rows or the tick of a moment."""
        last = self.last
        return last.told_us if moment == last.now_us else last.reached_us

    def ticks(self) -> bool:
        """Say whether an epoch without rows is worth its while now: a timer may be due, or a time to live is over."""
        now, last = self.moment(), self.last
        if last.now_us is None:
            return False
        reached = self.reached(now)
        if self.handlers and _is_due(last.soonest_us, reached):
            return True
        if self.by_event:
            return reached != last.reached_us
        written = last.fed_us
        return written is not None and any(last.now_us < written + ttl.length_us <= now for ttl in self._ttls.values())

    def noted(
        self,
        work: EpochWork,
        moment: int,
        indexes: Mapping[str, int],
        *,
        left: Left | None = None,
        ends: bool = False,
    ) -> EpochWork:
        """Return an epoch's work with its time; of one that calls handlers, also what is `left` to do.

        `indexes` are the elements' in store keys. The epoch of a bounded run may end event time.
        """
        if not self.timed:
            return work
        last = self.last
        before = last.soonest_us if left is None else left.next_us
        soonest = min((us for us in (work.observed.soonest_us, before) if us is not None), default=None)
        event: EventTimes | None = None
        reached: int | None = moment
        if self.by_event:
            held = None if soonest is None else soonest - self._cascade.lag_us
            heard = Heard(work.observed.highest_us, work.observed.heard, held, goes_on=bool(work.pending), ends=ends)
            event = advanced(last.event, self._feeds, moment, heard)
            reached = event.horizon_us
        times = Times(
            now_us=moment,
            fed_us=last.fed_us if left is not None and not work.changed else moment,
            soonest_us=soonest,
            over=self._over(last, reached, indexes),
            event=event,
            told_us=self._told(moment),
            turn=None if left is None else left.turn,
        )
        return replace(work, times=times)

    def _over(self, last: Times, reached: int | None, indexes: Mapping[str, int]) -> tuple[tuple[int, int], ...]:
        """Return what is over by element; what was over stays over, also if entries live longer from now on."""
        over, before_us = dict[int, int](), last.over_us
        for name, ttl in self._ttls.items():
            index = indexes[name]
            before = before_us.get(index)
            found = [us for us in (before, None if reached is None else ttl.cutoff(reached)) if us is not None]
            if found:
                over[index] = max(found)
        return tuple(sorted(over.items()))


def _is_due(soonest_us: int | None, now: int | None) -> bool:
    return soonest_us is not None and now is not None and soonest_us <= now
