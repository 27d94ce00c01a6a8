"""Windows whose handlers add to other windows: what they are told does not depend on the cut into epochs."""

from __future__ import annotations

from ast import literal_eval
from datetime import UTC, datetime, timedelta

import pytest

from millpond import Counter, Partitioned, Program, entry, on_timer, on_window
from millpond.compiler import compile_program
from millpond.compiler.explain import explain
from millpond.engine.simulated import Simulated
from millpond.engine.time.eventtime import FeedTime
from millpond.errors import MillpondError
from millpond.program.semantics.epoch_time import epoch_time, event_time, moment_of
from millpond.program.timers import fire_timers
from millpond.windowing import ClosedWindow, count, count_tumbling, session, sum_of, tumbling

SECOND = 1_000_000
MINUTE = 60 * SECOND
BEGIN = 1_700_000_040 * SECOND
END = datetime.max.replace(tzinfo=UTC)
LATE = timedelta(minutes=2)


class Trades(Program):
    """Minutes of symbols, five minutes of a market."""

    @entry
    def trade(self, symbol: str, n: int) -> None:
        self.minute.add(symbol, n=n)

    @on_window(tumbling(timedelta(minutes=1)), total=sum_of("n"))
    def minute(self, symbol: str, closed: list[ClosedWindow]) -> None:
        for one in closed:
            self.five.add("all", n=one["total"])

    @on_window(tumbling(timedelta(minutes=5)), total=sum_of("n"), many=count())
    def five(self, market: str, closed: list[ClosedWindow]) -> str:
        return repr([(one.end.minute, one["total"], one["many"], self.now == one.end) for one in closed])


class Patient(Program):
    """The same, with rows that may be late; a second handler tells early, and corrects."""

    @entry
    def trade(self, symbol: str, n: int) -> None:
        self.minute.add(symbol, n=n)
        self.early.add(symbol, n=n)

    @on_window(tumbling(timedelta(minutes=1)), lateness=LATE, total=sum_of("n"))
    def early(self, symbol: str, closed: list[ClosedWindow]) -> str:
        return repr([one.change for one in closed])

    @on_window(tumbling(timedelta(minutes=1)), lateness=LATE, total=sum_of("n"))
    def minute(self, symbol: str, closed: list[ClosedWindow]) -> str:
        for one in closed:
            self.five.add("all", n=one["total"])
        return repr([one.change for one in closed])

    @on_window(tumbling(timedelta(minutes=5)), total=sum_of("n"), many=count())
    def five(self, market: str, closed: list[ClosedWindow]) -> str:
        return repr([(one.end.minute, one["total"], one["many"], self.now == one.end) for one in closed])


class Ringing(Program):
    """Timers add to windows, whose handler sets other timers, whose handler adds to other windows."""

    rung = Partitioned(Counter[str])

    @entry
    def trade(self, symbol: str, n: int) -> None:
        self.ring.set(symbol + str(self.now), self.now + timedelta(seconds=n))

    @on_timer
    def ring(self, name: str, at: datetime) -> None:
        self.rings.add("all")

    @on_window(session(timedelta(seconds=20)), many=count())
    def rings(self, market: str, closed: list[ClosedWindow]) -> None:
        for one in closed:
            self.pause.set(f"{one.end} {one['many']}", self.now + timedelta(seconds=5))

    @on_timer
    def pause(self, name: str, at: datetime) -> None:
        self.five.add("all", n=int(name.rsplit(maxsplit=1)[-1]))

    @on_window(tumbling(timedelta(minutes=5)), total=sum_of("n"), many=count())
    def five(self, market: str, closed: list[ClosedWindow]) -> str:
        return repr([(one.end.minute, one["total"], one["many"], self.now == one.end) for one in closed])


def rows_of(many=45):
    """A trade every twenty seconds, in forty-five minutes; some come up to a minute after later ones."""
    rows = [(BEGIN + number * 20 * SECOND, "ab"[number % 2], 1 + number % 7) for number in range(3 * many)]
    for number in range(5, len(rows), 9):
        rows[number], rows[number - 3] = rows[number - 3], rows[number]
    return rows


def told(program, folder, files, *, partitions, disorder, lateness=0, handler="five"):
    rows = rows_of()
    run = Simulated(
        compile_program(program),
        folder,
        partitions,
        key_groups=8,
        event_time=FeedTime(disorder_us=disorder, lateness_us=lateness),
    )
    size = -(-len(rows) // files)
    for number in range(files):
        part = rows[number * size : (number + 1) * size]
        with epoch_time(BEGIN + number):
            fed = [("trade", (symbol, n)) for _, symbol, n in part]
            run.epoch(fed, [time for time, _, _ in part], ends=number == files - 1)
    epochs = run.sinks[handler]._epochs
    return [one for number in sorted(epochs) for row in epochs[number] for one in literal_eval(row["reply"])]


def by_force():
    """Five minutes hold the minutes that end in them."""
    minutes = {}
    for time, symbol, n in rows_of():
        end = (time // MINUTE + 1) * MINUTE
        minutes[symbol, end] = minutes.get((symbol, end), 0) + n
    fives = {}
    for (_, end), total in minutes.items():
        fives.setdefault((end // (5 * MINUTE) + 1) * 5 * MINUTE, []).append(total)
    return [(moment_of(end).minute, sum(totals), len(totals), True) for end, totals in sorted(fives.items())]


@pytest.mark.parametrize("files", [1, 3, 8, 45])
@pytest.mark.parametrize("partitions", [1, 3])
def test_the_same_trades_in_any_number_of_files_give_the_same_second_level_windows(tmp_path, files, partitions):
    assert told(Trades, tmp_path, files, partitions=partitions, disorder=MINUTE) == by_force()


@pytest.mark.parametrize("files", [1, 3, 8, 45])
def test_late_rows_are_in_second_level_windows_once(tmp_path, files):
    found = told(Patient, tmp_path, files, partitions=2, disorder=0, lateness=2 * MINUTE)
    assert found == by_force()


def test_windows_that_feed_others_are_told_for_good_and_others_early(tmp_path):
    options = {"partitions": 2, "disorder": 0, "lateness": 2 * MINUTE}
    assert set(told(Patient, tmp_path / "minute", 45, handler="minute", **options)) == {"tell"}
    assert set(told(Patient, tmp_path / "early", 45, handler="early", **options)) == {"tell", "correct"}


def test_timers_and_windows_that_feed_each_other_do_not_depend_on_the_cut(tmp_path):
    runs = [told(Ringing, tmp_path / str(n), n, partitions=1 + n % 3, disorder=MINUTE) for n in (1, 3, 15)]
    assert len(runs[0]) >= 9
    assert runs[1:] == [runs[0]] * 2
    assert all(at_its_end for *_, at_its_end in runs[0])


def test_explain_says_who_feeds_whom_and_who_waits():
    shown = explain(Patient)
    assert "feeds self.five, level 1 of the handlers that feed each other, 120 s after the watermark" in shown
    assert "level 2 of the handlers that feed each other, 120 s after the watermark, for late rows" in shown


class Adding(Program):
    """A helper that nothing feeds here."""

    @entry
    def put(self, key: str, n: int) -> None:
        self.short.add(key, n=n)

    @on_window(tumbling(timedelta(seconds=2)), total=sum_of("n"))
    def short(self, key: str, closed: list[ClosedWindow]) -> int:
        self._pass_on(key, len(closed))
        return len(closed)

    @on_window(tumbling(timedelta(seconds=6)), total=sum_of("n"))
    def long(self, key: str, closed: list[ClosedWindow]) -> int:
        return closed[0]["total"]

    def _pass_on(self, key: str, many: int) -> None: ...


class Passing(Adding):
    """It feeds in a class that was derived."""

    def _pass_on(self, key: str, many: int) -> None:
        self.long.add(key, n=many)


def test_what_a_derived_class_feeds_counts_at_the_end_too():
    assert [kind.type.place.timely for kind in Adding.elements().values()] == [False, False]
    passing = Passing()
    for second in (0, 1, 2, 7):
        with event_time(second * SECOND):
            passing.put("a", 1)
    fired = fire_timers(passing, END)
    assert [(one.handler, one.at, one.reply) for one in fired] == [
        ("short", moment_of(2 * SECOND), 1),
        ("short", moment_of(4 * SECOND), 1),
        ("short", moment_of(8 * SECOND), 1),
        ("long", moment_of(6 * SECOND), 2),
        ("long", moment_of(12 * SECOND), 1),
    ]


def test_who_feeds_whom_goes_by_the_object_that_is_asked_and_not_by_names():
    class Names(Program):
        """`minute` of a time is none of the program's, and the set that gets something is no window."""

        @entry
        def put(self, key: str) -> None:
            self.minute.add(key)

        @on_window(tumbling(timedelta(minutes=1)), many=count())
        def minute(self, key: str, closed: list[ClosedWindow]) -> None:
            self.hour.add(key)

        @on_window(tumbling(timedelta(hours=1)), many=count())
        def hour(self, key: str, closed: list[ClosedWindow]) -> int:
            minutes = set()
            for one in closed:
                minutes.add(one.end.minute)
            return len(minutes)

    places = {name: one.type.place for name, one in Names.elements().items()}
    assert {name: place.feeds for name, place in places.items()} == {"minute": ("hour",), "hour": ()}
    assert (places["minute"].stage, places["hour"].stage) == (0, 1)
    assert not any(place.cyclic for place in places.values())


def test_windows_that_are_looked_up_by_a_text_may_be_any():
    class Texts(Program):
        @entry
        def put(self, key: str) -> None:
            self.minute.add(key)

        @on_window(tumbling(timedelta(minutes=1)), many=count())
        def minute(self, key: str, closed: list[ClosedWindow]) -> None:
            getattr(self, "hour").add(key)  # noqa: B009

        @on_window(tumbling(timedelta(hours=1)), many=count())
        def hour(self, key: str, closed: list[ClosedWindow]) -> int:
            return len(closed)

    assert "hour" in Texts.elements()["minute"].type.place.feeds


def test_windows_that_end_with_rows_can_not_feed_themselves():
    class Endless(Program):
        @entry
        def put(self, key: str) -> None:
            self.ones.add(key)

        @on_window(count_tumbling(1), many=count())
        def ones(self, key: str, closed: list[ClosedWindow]) -> None:
            self.ones.add(key)

    with pytest.raises(MillpondError, match="MP653") as refused:
        Endless()
    assert refused.value.places
    with pytest.raises(MillpondError, match="MP653"):
        compile_program(Endless)


class Halving(Program):
    """What is left of a window goes to the next one."""

    @entry
    def put(self, key: str, n: int) -> None:
        self.left.add(key, n=n)

    @on_window(tumbling(timedelta(seconds=10)), total=sum_of("n"))
    def left(self, key: str, closed: list[ClosedWindow]) -> str:
        for one in closed:
            if one["total"] > 1:
                self.left.add(key, n=one["total"] // 2)
        return repr([(one.end.second, one["total"]) for one in closed])


@pytest.mark.parametrize("files", [1, 2, 3])
def test_windows_that_feed_themselves_go_as_far_as_rows_say_and_once_more(tmp_path, files):
    run = Simulated(compile_program(Halving), tmp_path, 2, key_groups=8, event_time=FeedTime())
    rows = [(1, 80), (2, 1), (36, 3)]
    size = 3 // files
    for number in range(files):
        part = rows[number * size :] if number == files - 1 else rows[number * size : (number + 1) * size]
        with epoch_time(BEGIN + number):
            run.epoch([("put", ("a", n)) for _, n in part], [t * SECOND for t, _ in part], ends=number == files - 1)
    epochs = run.sinks["left"]._epochs
    found = [one for number in sorted(epochs) for row in epochs[number] for one in literal_eval(row["reply"])]
    assert found == [(10, 81), (20, 40), (30, 20), (40, 13)]


class Backdated(Program):
    """A timer may be set to a moment that is over."""

    @entry
    def put(self, key: str, back: int) -> None:
        self.seen.add(key)
        self.ring.set(key, self.now - timedelta(seconds=back))

    @on_timer
    def ring(self, key: str, at: datetime) -> None:
        self.seen.add(key)

    @on_window(tumbling(timedelta(seconds=10)), many=count())
    def seen(self, key: str, closed: list[ClosedWindow]) -> list[tuple[int, int]]:
        return [(one.end.second, one["many"]) for one in closed]


def test_a_timer_of_the_past_adds_to_no_window_that_was_told():
    backdated, replies = Backdated(), []
    for second, back in ((1, 0), (21, 0), (35, 32)):
        with event_time(second * SECOND):
            backdated.put("a", back)
        replies += [one.reply for one in fire_timers(backdated, moment_of(second * SECOND)) if one.handler == "seen"]
    replies += [one.reply for one in fire_timers(backdated, END) if one.handler == "seen"]
    # That of second 3 counts at 21, up to which windows were told before.
    assert replies == [[(10, 2)], [(30, 3)], [(40, 1)]]
