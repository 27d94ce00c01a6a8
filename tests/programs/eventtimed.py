"""Event time as the documents say it, in plain Python: what simulated runs must equal."""

from __future__ import annotations

from millpond.engine.time.eventtime import FIRST_US, LAST_US
from millpond.program.semantics.epoch_time import event_time, moment_of
from millpond.program.timers import fire_timers
from tests.programs.timed import Plain


class EventPlain(Plain):
    """A plain run by epochs whose rows have times; watermarks are found by looking at the whole history each time."""

    def __init__(self, program, feeds, *, late):
        super().__init__(program)
        self.feeds, self.diverts = feeds, late
        self.history = []
        self.late, self.bad, self.counted_late = [], [], 0
        self.watermark = self.horizon = None
        self.feeds_itself = any(kind.place.cyclic for kind in self._kinds())

    def _kinds(self):
        return [one.type for one in type(self.program).elements().values() if hasattr(one, "handler")]

    def epoch(self, clock, rows, times, *, ends=False):
        own = []
        for (name, arguments), happened in zip(rows, times, strict=True):
            self.replies.append(self._row(name, arguments, happened))
            own.append((name, happened))
        self.history.append((clock, own))
        self._move(clock, ends=ends)

    def tick(self, clock):
        self.history.append((clock, []))
        self._move(clock)

    def _row(self, name, arguments, happened):
        if happened is None:
            self.bad.append((name, arguments))
            return None
        bounds = [] if self.horizon is None else [self.horizon]
        if self.watermark is not None:
            bounds.append(self.watermark - self.feeds[name].lateness_us)
        if bounds and happened < max(bounds):
            self.counted_late += 1
            if self.diverts:
                self.late.append((name, arguments, happened, self.watermark - happened))
                return None
        with event_time(happened if self.horizon is None else max(happened, self.horizon)):
            return self._call(name, arguments)

    def _move(self, clock, *, ends=False):
        natural = self.natural(clock)
        floor = None if self.horizon is None else moment_of(self.horizon)
        marks = [_greatest(self.watermark, LAST_US if ends else natural)]
        if ends and natural is not None and self.feeds_itself:
            marks.insert(0, natural)
        for self.watermark in marks:
            if self.watermark is not None:
                fired = fire_timers(self.program, moment_of(self.watermark), horizon=floor)
                self.fired += [(one.handler, one.reply) for one in fired]
        if natural is not None:
            lateness = max(feed.lateness_us for feed in self.feeds.values())
            self.horizon = _greatest(self.horizon, min([natural - lateness, *self._timers()]))
        self.now = self.horizon

    def _timers(self):
        elements = type(self.program).elements()
        held = {name: vars(self.program)[name]._entries for name in elements if hasattr(elements[name], "handler")}
        lag = max((kind.place.lag_us for kind in self._kinds()), default=0)
        kept = [(elements[name].type, value) for name, own in held.items() for value in dict.values(own)]
        moments = [(kind, kind.moment(value)) for kind, value in kept]
        return [at + kind.place.lag_us - lag for kind, at in moments if at is not None]

    def natural(self, clock):
        marks, active = {}, []
        for name, feed in self.feeds.items():
            rows = [happened for _, own in self.history for one, happened in own if one == name]
            told = [happened for happened in rows if happened is not None]
            heard = [at for at, own in self.history if any(one == name for one, _ in own)] or [self.history[0][0]]
            marks[name] = max(told) - feed.disorder_us if told else None
            if feed.idle_us is None or clock - heard[-1] < feed.idle_us:
                active.append(name)
        if not active:
            return max((mark for mark in marks.values() if mark is not None), default=None)
        held = [marks[name] for name in active]
        return None if None in held else min(held)

    def state(self):
        # Without a horizon nothing is over.
        self.now = FIRST_US if self.horizon is None else self.horizon
        return super().state()


def _greatest(*found):
    return max((us for us in found if us is not None), default=None)
