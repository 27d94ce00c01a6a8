"""Timers that handlers of windows set and move fire alike, however rows are cut and whatever methods are named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from millpond import Map, Partitioned, Program, entry, on_timer, on_window
from millpond.program.feeding import handler_orders
from millpond.testing import assert_equals_plain, at, simulate
from millpond.windowing import ClosedWindow, session, sum_of, tumbling

NOON = datetime(2024, 5, 1, 12, 0, tzinfo=UTC)
TIMES = (10, 310, 550, 1000, 5000)
FIRED = ["12:01:30", "12:06:30", "12:10:30", "12:17:30"]


class Moving(Program):
    """Each window moves the timer of its key, which by then must have fired; they share nothing else."""

    @entry
    def add(self, k: str, n: int) -> None:
        self.minute.add(k, n=n)

    @on_window(tumbling(timedelta(minutes=1)), total=sum_of("n"))
    def minute(self, k: str, closed: list[ClosedWindow]) -> None:
        self.soon.set(k, self.now + timedelta(seconds=30))

    @on_timer
    def soon(self, k: str, at: datetime) -> str:
        return f"{at:%H:%M:%S}"


class Named(Program):
    """An entry point has the name of an operation on windows and timers, which nobody calls."""

    total = Partitioned(Map[str, int])

    @entry
    def add(self, k: str, n: int) -> None:
        self.minute.add(k, n=n)
        if n < 0:
            self.abort("no such number")

    @entry
    def set(self, k: str) -> None:
        self.soon.cancel(k)

    @on_window(tumbling(timedelta(minutes=1)), total=sum_of("n"))
    def minute(self, k: str, closed: list[ClosedWindow]) -> None:
        for one in closed:
            self.five.add(k, n=int(one["total"]))

    @on_window(tumbling(timedelta(minutes=5)), total=sum_of("n"))
    def five(self, k: str, closed: list[ClosedWindow]) -> list[int]:
        self.total[k] = self.total.get(k, 0) + len(closed)
        self.soon.set(k, self.now + timedelta(seconds=30))
        return [int(one["total"]) for one in closed]

    @on_timer
    def soon(self, k: str, at: datetime) -> str:
        return f"{at:%H:%M:%S} {self.total[k]}"


def fired(program, epochs, partitions):
    rows = [at(NOON + timedelta(seconds=time), ("add", "k", time)) for time in TIMES]
    run = simulate(program, rows, epochs=epochs, partitions=partitions)
    assert_equals_plain(run)
    return [one.reply for one in run.fired if one.handler == "soon"]


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("epochs", [1, 2, 3, len(TIMES)])
def test_a_timer_that_a_later_window_moves_has_fired_before(epochs, partitions):
    assert fired(Moving, epochs, partitions) == FIRED


@pytest.mark.parametrize("epochs", [1, 2, len(TIMES)])
def test_an_entry_point_by_the_name_of_an_operation_makes_no_circle(epochs):
    places = {name: standing.place for name, standing in handler_orders(Named).items()}
    assert not any(place.cyclic or place.again for place in places.values())
    assert fired(Named, epochs, 2) == ["12:05:30 1", "12:10:30 2", "12:15:30 3", "12:20:30 4"]


class Growing(Program):
    """A handler that asks for the time is called for each end; a late row lets a session grow that was told."""

    @entry
    def add(self, k: str, n: int) -> None:
        self.visit.add(k, n=n)

    @on_window(session(timedelta(seconds=2)), lateness=timedelta(seconds=5), total=sum_of("n"))
    def visit(self, k: str, closed: list[ClosedWindow]) -> list[str]:
        return [f"{one.begin:%S} {one.end:%S} {one['total']} {one.change} {self.now:%S}" for one in closed]


@pytest.mark.parametrize("epochs", [2, 3, 4])
def test_a_session_that_was_taken_back_is_told_again_as_it_is(epochs):
    times = ((48, "bea", 7), (53, "bob", 6), (49, "bea", 1), (59, "bob", 1))
    rows = [at(NOON + timedelta(seconds=time), ("add", key, n)) for time, key, n in times]
    run = simulate(Growing, rows, epochs=epochs, lateness="5 s")
    assert_equals_plain(run)
    told = [one for fired in run.fired if fired.key == "bea" for one in fired.reply]
    assert told == ["48 50 7 tell 50", "48 50 7 retract 50", "48 51 8 correct 51"]
