"""Programs with windows, and what a brute force over all rows says that their handlers are told."""

from __future__ import annotations

from ast import literal_eval
from datetime import datetime, timedelta

from millpond import Counter, Partitioned, Program, entry, on_timer, on_window
from millpond.program.semantics.epoch_time import now_us, us_of
from millpond.windowing import (
    ClosedWindow,
    collect,
    count,
    count_sliding,
    first_of,
    max_of,
    session,
    sliding,
    sum_of,
    tumbling,
)
from tests.programs.eventtimed import EventPlain
from tests.programs.timed import SECOND

LATENESS = timedelta(seconds=4)
GAP = 3
SPANS = {"short": (3, 3, 1), "overlapping": (5, 2, 0), "apart": (2, 5, 0)}
"""Range, slide and origin in seconds: windows that touch, that end inside slices of others, and with gaps between."""


def spans():
    """The windows over time, all in one element."""
    made = {}
    for name, lengths in SPANS.items():
        wide, slide, origin = (timedelta(seconds=length) for length in lengths)
        made[name] = sliding(wide, slide, origin=origin)
    return made


def lines(closed):
    """Windows as plain values; the last says whether it is corrected, or that it is taken back."""
    return [
        [
            one.name,
            plain(one.begin),
            plain(one.end),
            *one.values.values(),
            "retract" if one.retracted else one.corrected,
        ]
        for one in closed
    ]


def plain(bound):
    return us_of(bound) if isinstance(bound, datetime) else bound


class Meters(Program):
    """Windows over time, and sessions by two columns."""

    fed = Partitioned(Counter[str])

    @entry
    def read(self, key: str, n: int) -> int:
        self.spans.add(key, n=n)
        self.fed[key] += 1
        return self.fed[key]

    @entry
    def visit(self, key: str, n: int) -> bool:
        known = (key, n) in self.visits
        self.visits.add((key, n), n)
        return known

    @on_window(spans(), total=sum_of("n"), many=count(), top=max_of("n"))
    def spans(self, key: str, closed: list[ClosedWindow]) -> str:
        self.fed[key] += 100
        return repr([key, *lines(closed)])

    @on_window(session(timedelta(seconds=GAP)), total=sum_of(), many=count())
    def visits(self, pair: tuple[str, int], closed: list[ClosedWindow]) -> str:
        return repr([pair, *lines(closed)])


class Corrected(Program):
    """The same windows, which late rows correct."""

    @entry
    def read(self, key: str, n: int) -> None:
        self.spans.add(key, n=n)

    @entry
    def visit(self, key: str, n: int) -> None:
        self.visits.add((key, n), n)

    @on_window(spans(), lateness=LATENESS, total=sum_of("n"), many=count(), top=max_of("n"))
    def spans(self, key: str, closed: list[ClosedWindow]) -> str:
        return repr([key, *lines(closed)])

    @on_window(session(timedelta(seconds=GAP)), lateness=LATENESS, total=sum_of(), many=count())
    def visits(self, pair: tuple[str, int], closed: list[ClosedWindow]) -> str:
        return repr([pair, *lines(closed)])


class Ordered(Program):
    """Windows whose rows must be in order; a handler goes on to another key, and adds to windows itself."""

    told = Partitioned(Counter[int])

    @entry
    def read(self, key: str, n: int) -> None:
        self.counted.add(key, n)

    @entry
    def visit(self, key: str, n: int) -> None:
        self.visits.add((key, n), first=n, at=now_s(self.now))

    @on_window(count_sliding(3, 2), all=collect())
    def counted(self, key: str, closed: list[ClosedWindow]) -> str:
        many = len(closed)
        self.told[many] += 1
        return repr([key, *lines(closed)])

    @on_window(session(timedelta(seconds=GAP)), first=first_of("first"), all=collect("at"))
    def visits(self, pair: tuple[str, int], closed: list[ClosedWindow]) -> str:
        return repr([pair, *lines(closed)])


class Adding(Program):
    """Handlers of timers and of windows add rows to windows, their own included: each counts in one told window."""

    @entry
    def read(self, key: str, n: int) -> None:
        self.spans.add(key, n)
        self.ring.set(key, self.now + timedelta(seconds=n))

    @entry
    def visit(self, key: str, n: int) -> None:
        self.totals.add(key, n)

    @on_timer
    def ring(self, key: str, at: datetime) -> str:
        self.totals.add(key, at.second % 3)
        return repr([key])

    @on_window(tumbling(timedelta(seconds=3)), total=sum_of(), many=count())
    def spans(self, key: str, closed: list[ClosedWindow]) -> str:
        last = int(closed[-1]["total"])
        if last > 1:
            self.spans.add(key, last - 2)
        self.totals.add(key, last)
        return repr([key, *lines(closed)])

    @on_window(sliding(timedelta(seconds=4), timedelta(seconds=4)), total=sum_of(), many=count())
    def totals(self, key: str, closed: list[ClosedWindow]) -> str:
        return repr([key, *lines(closed)])


def now_s(now):
    return us_of(now) // SECOND


class Watched(EventPlain):
    """A plain run that notes which rows were worked on, when, and how far the watermark had come after each epoch."""

    def __init__(self, program, feeds, *, late):
        super().__init__(program, feeds, late=late)
        self.added, self.rounds = [], []

    def _call(self, name, arguments):
        self.added.append((len(self.rounds), name, arguments, now_us()))
        return super()._call(name, arguments)

    def _move(self, clock, *, ends=False):
        before = len(self.fired)
        super()._move(clock, ends=ends)
        told = {}
        for handler, reply in self.fired[before:]:
            key, *windows = literal_eval(reply)
            # A handler that feeds others is called once for each end.
            told.setdefault((handler, key), []).extend(windows)
        self.rounds.append((self.watermark, told))

    def keys(self, name):
        """By key, the rows of an entry point: the round in which each came, its time and its number."""
        found = {}
        for number, entered, (key, n), time in self.added:
            if entered == name:
                found.setdefault(key if name == "read" else (key, n), []).append((number, time, n))
        return found


def wanted_rounds(watched, handler, name, tell):
    """What a handler is to be told, round by round; `tell(rows, number, watermark, before)` says it of one key."""
    found = [{} for _ in watched.rounds]
    for key, rows in watched.keys(name).items():
        said, before = tell(), None
        for number, (watermark, _) in enumerate(watched.rounds):
            if watermark is None:
                continue
            told = said([row for row in rows if row[0] <= number], number, watermark, before)
            before = watermark
            if handler == "spans":
                told.sort(key=lambda one: (one[2], one[1], list(SPANS).index(one[0])))
            if told:
                found[number][handler, key] = told
    return found


def spans_told():
    """Windows over time: those that end in this round, and those that are over and got a row in it."""

    since = [-1]

    def said(rows, number, watermark, before):
        last, since[0] = since[0], number
        fresh = {time for came, time, _ in rows if came > last}
        told = []
        for name, lengths in SPANS.items():
            wide, slide, origin = (length * SECOND for length in lengths)
            begins = {
                begin
                for _, time, _ in rows
                for begin in range((time - origin) // slide * slide + origin - 9 * slide, time + 1, slide)
                if begin <= time < begin + wide
            }
            for begin in begins:
                end = begin + wide
                late = before is not None and end <= before and any(begin <= time < end for time in fresh)
                if late or (end <= watermark and (before is None or end > before)):
                    values = [n for _, time, n in rows if begin <= time < end]
                    again = late and any(begin <= time < end for came, time, _ in rows if came <= last)
                    told.append([name, begin, end, sum(values), len(values), max(values), again])
        return told

    return said


def runs_of(rows):
    """Rows in order of time and arrival, cut where there is a gap."""
    runs = []
    for row in sorted(rows, key=lambda row: row[1]):
        if runs and row[1] - runs[-1][-1][1] < GAP * SECOND:
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


def sessions_told():
    """Sessions of all rows so far: those that are over and were not told as they are, and those that are none now."""
    known, store_version = [], {}

    def said(rows, _number, watermark, _before):
        numbered = [(came, time, (place, n)) for place, (came, time, n) in enumerate(rows)]
        runs = {(run[0][1], run[-1][1] + GAP * SECOND): run for run in runs_of(numbered)}
        gone = sorted(store_version.keys() - runs.keys(), key=lambda bounds: bounds[::-1])
        told = [["", *bounds, *store_version.pop(bounds), "retract"] for bounds in gone]
        for (begin, end), run in runs.items():
            members = {place for _, _, (place, _) in run}
            if end <= watermark and members not in known:
                corrected = any(members & one for one in known)
                store_version[begin, end] = sum(n for _, _, (_, n) in run), len(run)
                told.append(["", begin, end, *store_version[begin, end], corrected])
                known.append(members)
        return told

    return said


def ordered_sessions_told():
    """Sessions whose rows are told in order."""
    known = []

    def said(rows, _number, watermark, _before):
        told = []
        for run in runs_of(rows):
            end = run[-1][1] + GAP * SECOND
            if end <= watermark and run[0][1] not in known:
                known.append(run[0][1])
                told.append(["", run[0][1], end, run[0][2], [time // SECOND for _, time, _ in run], False])
        return told

    return said


def counted_told():
    """Three rows, every two rows; told when they are certain to be these."""
    known = [0]

    def said(rows, _number, watermark, _before):
        taken = [n for _, time, n in sorted(rows, key=lambda row: row[1]) if time <= watermark]
        told = []
        while 2 * known[0] + 3 <= len(taken):
            begin = 2 * known[0]
            told.append(["", begin, begin + 3, taken[begin : begin + 3], False])
            known[0] += 1
        return told

    return said
