"""Programs with any windows and aggregates, generated streams for them, and what a brute force says they tell."""

from __future__ import annotations

import itertools
import random
from ast import literal_eval
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache, partial
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from millpond import Program, entry, on_window
from millpond.compiler.compile import compile_program
from millpond.engine.simulated import Simulated
from millpond.engine.time.eventtime import FeedTime
from millpond.program.semantics.epoch_time import epoch_time
from millpond.state.local.localstore import LocalStore
from millpond.storage.backends.memory import MemoryStorage
from millpond.windowing import ClosedWindow
from tests.programs.timed import SECOND, START
from tests.programs.windowed import lines
from tests.property.windows_oracle import (
    AGGREGATES,
    bursts,
    by_function,
    calendar,
    counted,
    halved,
    landmarks,
    latest,
    long_landmarks,
    measured,
    punctuated,
    same,
    session,
    sliding,
    varying,
)

_PLACES = itertools.count()
"""Numbers of checkpoints in memory."""

UNIT = 5 * 3600 * SECOND
"""Streams go by steps of five hours: so the same one fills days and months, and other windows of some steps."""

EVENTS = int(datetime(2024, 3, 29, 7, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()) * SECOND
"""Two days before clocks go forward, and three before a month ends."""

OVER_TIME = {
    "tumbling": sliding(4 * UNIT, 4 * UNIT, origin=UNIT),
    "sliding": sliding(7 * UNIT, 3 * UNIT),
    "apart": sliding(3 * UNIT, 7 * UNIT),
    "session": session(3 * UNIT),
    "days": calendar("day", "Europe/Berlin", 1, 1),
    "three days": calendar("day", "America/New_York", 3, 1),
    "weeks": calendar("week", "Asia/Kolkata", 1, 1),
    "months": calendar("month", "Europe/Berlin", 1, 1),
}
"""Windows that follow from times alone."""

KINDS = {
    **OVER_TIME,
    "counted": counted(3, 3),
    "counted sliding": counted(5, 2),
    "counted apart": counted(2, 5),
    "punctuation": punctuated(),
    "landmark": landmarks(),
    "long landmark": long_landmarks(6 * UNIT),
    "measured": measured(9, 4),
    "measured in parts": measured(2.5, 2.5),
    "varying": varying(UNIT),
    "by function": by_function(4, 3),
    "bursts": bursts(),
    "latest": latest(4, 3 * UNIT),
    "halved": halved(),
}

TIMED = {*OVER_TIME, "long landmark", "varying"}
"""Windows whose bounds are times."""

ANY_ORDER = [name for name, (aggregate, _) in AGGREGATES.items() if aggregate.commutative]
"""Aggregates that let windows over time be kept as slices."""


def program(kinds, aggregates, lateness=0):
    """A program whose handler has these windows; one alone goes without a name."""
    return _program(tuple(kinds), tuple(aggregates), lateness)


@cache
def _program(kinds, aggregates, lateness):
    windows = {kind: KINDS[kind].window for kind in kinds}

    class Kinds(Program):
        @entry
        def read(self, key: str, n: int, m: int) -> None:
            self.told.add(key, n=n, m=m)

        @on_window(
            windows if len(windows) > 1 else windows[kinds[0]],
            lateness=timedelta(microseconds=lateness),
            **{name: AGGREGATES[name][0] for name in aggregates},
        )
        def told(self, key: str, closed: list[ClosedWindow]) -> str:
            return repr([key, *lines(closed)])

    return compile_program(Kinds)


@dataclass
class Brute:
    """All rows so far; of each key and kind, the windows that were told: their bounds and the numbers of their rows.

    Of sessions also those that stand as they were told: their values by their bounds.
    """

    kinds: list
    aggregates: list
    rows: dict = field(default_factory=dict)
    told: dict = field(default_factory=dict)
    standing: dict = field(default_factory=dict)

    def add(self, key, time, record):
        self.rows.setdefault(key, []).append((time, record))

    def close(self, watermark):
        """By key, the lines that its handler is to be told now: windows over time by their ends, then others."""
        found = {key: self._lines(key, watermark) for key in self.rows}
        return {key: own for key, own in found.items() if own}

    def _lines(self, key, watermark):
        rows = self.rows[key]
        # Of equal times, the row that came first is taken first.
        taken = sorted((place for place, (time, _) in enumerate(rows) if time <= watermark), key=lambda p: rows[p][0])
        times, records = [rows[place][0] for place in taken], [rows[place][1] for place in taken]
        now = min(watermark, max(times, default=0) + 1000 * UNIT)  # No window is so long, and no year so far.
        found = []
        for order, kind in enumerate(self.kinds):
            known = self.told.setdefault((key, kind), [])
            standing = self.standing.setdefault((key, kind), {})
            for begin, end in self._gone(rows, kind, standing):
                name = kind if len(self.kinds) > 1 else ""
                found.append(((-1, end, begin, order), [name, begin, end, *standing.pop((begin, end)), "retract"]))
            for (begin, end), inside in KINDS[kind].find(times, records, now) if taken else ():
                members = {taken[number] for number in inside}
                if ((begin, end), members) in known:
                    continue
                values = [records[number]["n"] for number in inside]
                line = [kind if len(self.kinds) > 1 else "", begin, end]
                line += [AGGREGATES[name][1](values) for name in self.aggregates]
                standing[begin, end] = line[3:]
                # Those without times are told as rows end them; of one kind, that is in the order of their begins.
                place = (0, end, begin, order) if kind in TIMED else (1, order, begin)
                found.append((place, [*line, self._corrects(kind, known, (begin, end), members)]))
                known.append(((begin, end), members))
        return [line for _, line in sorted(found, key=lambda one: one[0])]

    def _gone(self, rows, kind, standing):
        """The sessions that were told, and are none of all rows so far."""
        if not KINDS[kind].merges:
            return set()
        ordered = sorted(rows, key=lambda row: row[0])
        times, records = [time for time, _ in ordered], [record for _, record in ordered]
        return standing.keys() - {bounds for bounds, _ in KINDS[kind].find(times, records, times[-1] + 1000 * UNIT)}

    def _corrects(self, kind, known, bounds, members):
        """Whether something was told before of this window, or of a session that is part of it now."""
        if KINDS[kind].merges:
            return any(members & before for _, before in known)
        return any(bounds == before for before, _ in known)


@dataclass(frozen=True)
class Story:
    """Epochs of rows, each with a key, an event time and a record; and on how many partitions runs begin, by epoch.

    A new run goes on from what the last one committed, with nothing but that: windows are open, and keys move.
    """

    epochs: list
    partitions: dict
    disorder: int
    ends: bool


def story(number, epochs=7, rows=7, keys="abcdef"):
    """Equal times, rows that come twice, disorder, rows that are late, gaps, and keys that are seldom."""
    dice = random.Random(number)
    keys = keys[: dice.choice((1, 2, len(keys)))]
    made, drift = [], EVENTS
    for _ in range(epochs):
        drift += dice.choice((0, 1, 2, 3, 5, 9, 40)) * UNIT
        own = []
        for _ in range(dice.randint(1, rows)):
            at = drift + dice.choice((0, 0, 0, 1, 2, dice.randint(-4, 6))) * UNIT
            record = {"n": dice.randint(-20, 20), "m": (at - EVENTS) // UNIT + dice.randint(0, 3)}
            own += [(dice.choice(keys), at, record)] * dice.choice((1, 1, 1, 2))
        made.append(own)
    starts = {0, *dice.sample(range(1, epochs), dice.randint(0, 3))}
    partitions = {start: dice.randint(1, 4) for start in sorted(starts)}
    return Story(made, partitions, dice.choice((0, 0, 4 * UNIT)), dice.random() < 0.5)


SEEDS = st.integers(0, 2**32 - 1)
STORIES = SEEDS.map(story)
SHORT_STORIES = SEEDS.map(partial(story, epochs=5, rows=5))


def run(fresh, kinds, aggregates, told, *, lateness=0):
    """Run a story and compare each epoch with the brute force; how many windows were told, and told again."""
    compiled, brute = program(kinds, aggregates, lateness), Brute(kinds, aggregates)
    feeds = {"read": FeedTime(disorder_us=told.disorder, lateness_us=lateness)}
    checkpoint, many, again = f"memory://kinds-{next(_PLACES)}", 0, 0
    for number, rows in enumerate(told.epochs):
        with epoch_time(START + number):
            if number in told.partitions:
                folder, seen = fresh(), 0
                LocalStore.close_below(folder.parent)  # Very many stories would have very many files open.
                simulated = Simulated(
                    compiled, folder, told.partitions[number], key_groups=8, event_time=feeds, checkpoint=checkpoint
                )
            before = simulated.times.event
            for key, happened, record in rows:
                floor = happened if before is None or before.horizon_us is None else before.horizon_us
                brute.add(key, max(happened, floor), record)
            entries = [("read", (key, record["n"], record["m"])) for key, _, record in rows]
            simulated.epoch(entries, [at for _, at, _ in rows], ends=told.ends and number == len(told.epochs) - 1)
        found = [literal_eval(row["reply"]) for row in simulated.sinks["told"].rows()]
        wanted = brute.close(simulated.times.event.watermark_us)
        assert len(found) - seen == len(wanted)
        compare({key: own for key, *own in found[seen:]}, wanted, kinds)
        seen = len(found)
        many += sum(map(len, wanted.values()))
        again += sum(line[-1] is True for own in wanted.values() for line in own)
    return many, again


class Crash(BaseException):
    """Nothing catches it."""


class Dying:
    """A process that dies at one of the next writes to its checkpoint, before it or after it; if it is told to."""

    def __init__(self, monkeypatch):
        self.left, self.written, put = None, True, MemoryStorage.put

        def dying(storage, name, data):
            last = self.left == 0
            self.left = None if self.left is None else self.left - 1
            if last and not self.written:
                raise Crash
            outcome = put(storage, name, data)
            if last:
                raise Crash
            return outcome

        monkeypatch.setattr(MemoryStorage, "put", dying)


def run_with_crashes(fresh, dying, kinds, aggregates, number):
    """Run a story whose rows are never late, so that it does not matter when windows are told; how often it crashed."""
    compiled, brute = program(kinds, aggregates), Brute(kinds, aggregates)
    told, dice = story(number), random.Random(number)
    feeds = {"read": FeedTime(disorder_us=12 * UNIT)}
    published, crashes, fed = {}, 0, 0
    start = partial(Simulated, compiled, key_groups=8, event_time=feeds, checkpoint=f"memory://kinds-{next(_PLACES)}")
    simulated = start(fresh(), 2)
    for place, rows in enumerate(told.epochs):
        for key, happened, record in rows:
            brute.add(key, happened, record)
        entries = [("read", (key, record["n"], record["m"])) for key, _, record in rows]
        dying.left, dying.written = dice.randrange(12), dice.random() < 0.5
        while simulated.fed == fed:
            with epoch_time(START + place):
                try:
                    simulated.epoch(entries, [at for _, at, _ in rows], ends=place == len(told.epochs) - 1)
                except Crash:
                    crashes += 1
                    gather(simulated, published)
                    simulated = start(fresh(), dice.randint(1, 4))
        dying.left = None
        fed += len(rows)
    with epoch_time(START + len(told.epochs)):
        simulated.tick()  # Tells what a crash left to tell.
    gather(simulated, published)
    found = {}
    for key, *own in (literal_eval(reply) for replies in published.values() for reply in replies):
        found.setdefault(key, []).extend(own)
    wanted = brute.close(simulated.times.event.watermark_us)
    assert found.keys() == wanted.keys()
    for key, own in found.items():
        same_lines(key, *(sorted(side, key=lambda line: line[:3]) for side in (own, wanted[key])))
    return crashes


def gather(simulated, published):
    """Add what a process published, by epoch; another one may have published the same before it."""
    for epoch, rows in simulated.sinks["told"]._epochs.items():
        replies = sorted(row["reply"] for row in rows)
        assert published.setdefault(epoch, replies) == replies


def compare(found, wanted, kinds):
    """The same keys, and of each the same windows; those over time first, by their ends."""
    assert found.keys() == wanted.keys()
    for key, told in found.items():
        timed = sum(line[0] in TIMED for line in told)
        own = told[:timed] + sorted(told[timed:], key=lambda line: kinds.index(line[0]) if line[0] else 0)
        same_lines(key, own, wanted[key])


def same_lines(key, found, wanted):
    assert [line[:3] for line in found] == [line[:3] for line in wanted], key
    assert [(key, *pair) for pair in zip(found, wanted, strict=True) if not same(*pair)][:1] == []
