"""Other windows for a handler at a restart: those that stay and those that come, against a brute force."""

from __future__ import annotations

from ast import literal_eval
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond import Program, entry, on_window
from millpond.engine.simulated import Simulated
from millpond.engine.time.eventtime import FeedTime
from millpond.program.semantics.epoch_time import epoch_time, us_of
from millpond.windowing import ClosedWindow, collect, count, count_sliding, max_of, session, sliding, sum_of
from tests.programs.timed import SECOND
from tests.programs.windowed import LATENESS, lines
from tests.property.test_eventtime import fresh, many, with_times  # noqa: F401
from tests.sizes import compile_once

pytestmark = pytest.mark.slow

GRIDS = {"three": (3, 3, 1), "five": (5, 2, 0), "apart": (2, 5, 0), "six": (6, 3, 0), "four": (4, 4, 0)}
GAPS = {"short gap": 2, "long gap": 4}
COUNTS = {"counted": (3, 2), "pairs": (2, 2)}
VALUES = {"total": sum, "many": len, "top": max, "all": list}
AGGREGATES = {"total": sum_of("n"), "many": count(), "top": max_of("n"), "all": collect("n")}


def window(what):
    if what in GRIDS:
        wide, slide, origin = (timedelta(seconds=length) for length in GRIDS[what])
        return sliding(wide, slide, origin=origin)
    return session(timedelta(seconds=GAPS[what])) if what in GAPS else count_sliding(*COUNTS[what])


def program(windows, aggregates, *, late):
    """A program whose handler has these windows, by name, and aggregates; an entry point tells the time of its row."""

    class Changing(Program):
        @entry
        def read(self, key: str, n: int) -> int:
            self.told.add(key, n=n)
            return us_of(self.now)

        @on_window(
            {name: window(what) for name, what in windows.items()},
            lateness=LATENESS if late else timedelta(),
            **{name: AGGREGATES[name] for name in aggregates},
        )
        def told(self, key: str, closed: list[ClosedWindow]) -> str:
            return repr([key, *lines(closed)])

    return compile_once(Changing)


class Brute:
    """What windows tell by all rows so far: `came` is the round of a row, `rounds` the watermark after each."""

    def __init__(self):
        self.rows, self.rounds, self.phases = [], [], []

    def change(self, windows, aggregates):
        """Other windows from the next round on: those of the last phase that are the same know what those knew."""
        known = dict(self.phases[-1][1].values()) if self.phases else {}
        seen = [us for us in (self.watermark, *(time for _, _, time, _ in self.rows)) if us is not None]
        since = (max(seen, default=None), len(self.rounds)) if self.rounds else (None, 0)
        self.phases.append((aggregates, {name: (what, known.get(what, since)) for name, what in windows.items()}))

    @property
    def watermark(self):
        return self.rounds[-1] if self.rounds else None

    def told(self, key):
        """What a key is told in the last round."""
        aggregates, windows = self.phases[-1]
        rows = [row for row in self.rows if row[1] == key]
        found = []
        for place, (name, (what, (since, came))) in enumerate(windows.items()):
            if self.watermark is None:
                continue
            if what in GRIDS:
                told = self._spans(rows, GRIDS[what], since)
            elif what in GAPS:
                told = self._sessions(rows, GAPS[what] * SECOND, since)
            else:
                told = self._counted(rows, COUNTS[what], came)
            found += [
                ((end, begin, place), [name, begin, end, *(VALUES[one](values) for one in aggregates), again])
                for begin, end, values, again in told
            ]
        return [line for _, line in sorted(found)]

    def _before(self):
        return self.rounds[-2] if len(self.rounds) > 1 else None

    def _ordered(self, rows):
        return sorted(rows, key=lambda row: row[2])

    def _spans(self, rows, lengths, since):
        wide, slide, origin = (length * SECOND for length in lengths)
        before, now = self._before(), len(self.rounds) - 1
        begins = {
            begin
            for *_, time, _ in rows
            for begin in range((time - origin) // slide * slide + origin - 9 * slide, time + 1, slide)
            if begin <= time < begin + wide and (since is None or begin > since)
        }
        for begin in begins:
            end = begin + wide
            own = [row for row in self._ordered(rows) if begin <= row[2] < end]
            late = before is not None and end <= before and any(came == now for came, *_ in own)
            if late or (end <= self.watermark and (before is None or end > before)):
                again = late and any(came < now for came, *_ in own)
                yield begin, end, [n for *_, n in own], again

    def _sessions(self, rows, gap, since):
        def over(known, watermark):
            """The runs of rows that are over, each as the places of its rows."""
            runs = []
            for row in self._ordered(known):
                if runs and row[2] - runs[-1][-1][2] < gap:
                    runs[-1].append(row)
                else:
                    runs.append([row])
            return [run for run in runs if watermark is not None and run[-1][2] + gap <= watermark]

        told = []
        for number, watermark in enumerate(self.rounds):
            found = over([row for row in rows if row[0] <= number], watermark)
            last = [run for run in found if run not in told]
            again = [any(row in one for one in told for row in run) for run in last]
            told += last
        for run, corrected in zip(last, again, strict=True):
            if since is None or run[0][2] >= since + gap:
                yield run[0][2], run[-1][2] + gap, [n for *_, n in run], corrected

    def _counted(self, rows, lengths, began):
        wide, slide = lengths
        taken = []
        for row in self._ordered(rows):
            number = next((at for at in range(row[0], len(self.rounds)) if self._passed(at, row[2])), None)
            if number is not None and number >= began:
                taken.append((number, row[3]))
        for number in range(len(taken)):
            begin, end = number * slide, number * slide + wide
            if end <= len(taken) and taken[end - 1][0] == len(self.rounds) - 1:
                yield begin, end, [n for _, n in taken[begin:end]], False

    def _passed(self, number, time):
        return self.rounds[number] is not None and time <= self.rounds[number]


TIMED = st.tuples(
    st.tuples(st.just("read"), st.tuples(st.sampled_from("ab"), st.integers(0, 3))),
    st.one_of(st.integers(-6, 9), st.integers(-2, 9), st.integers(0, 9)),
)
EPOCHS = st.lists(st.tuples(st.integers(0, 6), st.lists(TIMED, min_size=1, max_size=5)), min_size=4, max_size=9)


def phases(kinds, aggregates):
    """Windows and aggregates of each program in turn: aggregates only go, or are put in another order."""
    windows = st.lists(st.sampled_from(sorted(kinds)), min_size=1, max_size=4, unique=True)
    less = st.permutations(aggregates)
    return st.lists(st.tuples(windows, less, st.integers(1, 3)), min_size=2, max_size=3)


def run(directory, epochs, changes, cuts, times, *, late, must=()):
    """Run the programs one after the other; how often windows were told that had come later, or had stayed."""
    brute, told = Brute(), {"came": 0, "stayed": 0, "corrected": 0}
    starts = dict(zip((0, *cuts), changes, strict=False))
    left, before = [], {}
    for number, (clock, rows, happened) in enumerate(with_times(epochs)):
        with epoch_time(clock):
            if number in starts:
                kinds, aggregates, partitions = starts[number]
                names = dict.fromkeys((*must, *kinds))
                # A window that stays may have another name, and one that comes the name of one that went.
                windows = {f"w{place}" if number % 2 else what: what for place, what in enumerate(names)}
                if set(names) & set(before.values()):
                    aggregates = [one for one in aggregates if one in left][: max(1, len(left) - number % 2)]
                left = [*aggregates, *(["all"] if must and "all" not in aggregates else [])]
                brute.change(windows, left)
                before = windows
                simulated = Simulated(
                    program(windows, left, late=late), directory, partitions, key_groups=8, event_time=times
                )
                fed, fired = simulated.fed, 0
            simulated.epoch(rows, happened)
            replies = simulated.replies()
            for place, (_, (key, n)) in enumerate(rows):
                brute.rows.append((len(brute.rounds), key, replies[fed + place], n))
            fed += len(rows)
            brute.rounds.append(simulated.times.event.watermark_us)
            found = [literal_eval(row["reply"]) for row in simulated.sinks["told"].rows()][fired:]
            fired += len(found)
            wanted = {key: brute.told(key) for key in sorted({row[1] for row in brute.rows})}
            # Windows over records have no ends to go by: in what order they are told beside others is not said.
            order = sorted if must else list
            assert {key: order(own) for key, *own in found} == {key: order(own) for key, own in wanted.items() if own}
            for name, *_, corrected in (line for _, *own in found for line in own):
                since, _ = brute.phases[-1][1][name][1]
                told["corrected"] += corrected
                told["came"] += since is not None
                told["stayed"] += since is None and len(brute.phases) > 1
    return told


CUTS = st.lists(st.integers(1, 5), min_size=1, max_size=2, unique=True).map(sorted)


@pytest.mark.parametrize("late", [False, True])
def test_windows_over_time_stay_and_come(late, fresh):  # noqa: F811
    kinds = {*GRIDS} if late else {*GRIDS, *GAPS}
    times = st.builds(
        FeedTime,
        disorder_us=st.sampled_from((0, SECOND, 4 * SECOND)),
        lateness_us=st.sampled_from((0, 2 * SECOND, 4 * SECOND)) if late else st.just(0),
        idle_us=st.none(),
    )
    seen = {"came": 0, "stayed": 0, "corrected": 0}

    @many(160)
    @given(EPOCHS, phases(kinds, ["total", "many", "top"]), CUTS, times)
    def check(epochs, changes, cuts, time):
        for what, number in run(fresh(), epochs, changes, cuts, {"read": time}, late=late).items():
            seen[what] += number

    check()
    assert seen["came"] > 5
    assert seen["stayed"] > 5
    assert (seen["corrected"] > 0) == late


def test_windows_whose_rows_are_in_order_stay_and_come(fresh):  # noqa: F811
    times = st.builds(FeedTime, disorder_us=st.sampled_from((0, SECOND, 4 * SECOND)), idle_us=st.none())
    seen = {"came": 0, "stayed": 0}

    @many(63)
    @given(EPOCHS, phases({*GRIDS, *GAPS, *COUNTS}, ["total", "many", "all"]), CUTS, times)
    def check(epochs, changes, cuts, time):
        told = run(fresh(), epochs, changes, cuts, {"read": time}, late=False, must=("counted",))
        for what in seen:
            seen[what] += told[what]

    check()
    assert seen["came"] > 5
    assert seen["stayed"] > 5
