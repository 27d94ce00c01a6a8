"""What a window has so far, asked by each row: plain Python, the simulator and a sum by hand say the same."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from millpond import Program, entry, on_window
from millpond.errors import WindowError
from millpond.testing import at, event_time, random_faults, simulate
from millpond.windowing import ClosedWindow, collect, count, session, sliding, sum_of, tumbling

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SPAN, STEP = timedelta(minutes=10), timedelta(minutes=1)


class Cards(Program):
    @entry
    def pay(self, card: str, cents: int) -> tuple[int, int]:
        self.spend.add(card, cents)
        window = self.spend.current(card)
        return (0, 0) if window is None else (window["total"], window["many"])

    @entry
    def ask(self, card: str) -> int:
        window = self.spend.current(card)
        return 0 if window is None else window["total"]

    @on_window(sliding(SPAN, STEP), total=sum_of("cents"), many=count())
    def spend(self, card: str, closed: list[ClosedWindow]) -> None:
        pass


def by_hand(rows):
    """The rows so far of the window that ends first behind each row."""
    told = []
    for number, (now, card, _) in enumerate(rows):
        end = NOON + STEP * ((now - NOON) // STEP + 1)
        own = [c for when, who, c in rows[: number + 1] if who == card and end - SPAN <= when < end]
        told.append((sum(own), len(own)))
    return told


def drawn(seed):
    dice = random.Random(seed)
    when, rows = NOON, []
    for _ in range(200):
        when += timedelta(seconds=dice.randrange(90))
        rows.append((when, dice.choice("ab"), dice.randrange(1, 100)))
    return rows


@pytest.mark.parametrize("seed", range(3))
def test_each_row_is_told_what_its_window_has_so_far(seed):
    cards, rows = Cards(), drawn(seed)
    told = []
    for when, card, cents in rows:
        with event_time(when):
            told.append(tuple(cards.pay(card, cents)))
    assert told == by_hand(rows)


def test_a_key_without_rows_has_no_window():
    cards = Cards()
    with event_time(NOON):
        assert cards.ask("a") == 0
        cards.pay("a", 5)
    with event_time(NOON + SPAN):
        assert cards.ask("a") == 0


class Visits(Program):
    @entry
    def click(self, user: str) -> list[int]:
        self.seen.add(user)
        visit, day = self.seen.current(user, "visit"), self.seen.current(user, "day")
        return [visit["many"], day["many"]] if visit is not None and day is not None else []

    @on_window({"visit": session("5 min"), "day": tumbling("1 day")}, many=count())
    def seen(self, user: str, closed: list[ClosedWindow]) -> None:
        pass


def test_sessions_and_several_windows_are_asked_by_name():
    visits, told = Visits(), []
    for minute in (0, 4, 8, 20, 22):
        with event_time(NOON + timedelta(minutes=minute)):
            told.append(visits.click("a"))
    assert told == [[1, 1], [2, 2], [3, 3], [1, 4], [2, 5]]


class Ordered(Program):
    @entry
    def click(self, user: str) -> int:
        self.seen.add(user, page=1)
        window = self.seen.current(user)
        return 0 if window is None else 1

    @on_window(tumbling("1 day"), pages=collect("page"))
    def seen(self, user: str, closed: list[ClosedWindow]) -> None:
        pass


def test_windows_whose_rows_wait_for_their_order_can_not_be_asked():
    with event_time(NOON), pytest.raises(WindowError, match="MP647"):
        Ordered().click("a")


@pytest.mark.parametrize("seed", range(3))
def test_simulated_runs_say_the_same_over_epochs_partitions_and_crashes(seed):
    rows = drawn(seed)
    steps = [at(when, ("pay", card, cents)) for when, card, cents in rows]
    faults = random_faults(seed, 3, epochs=6)
    run = simulate(Cards, steps, epochs=6, partitions=3, faults=faults)
    assert [tuple(reply) for reply in run.replies] == by_hand(rows)


def test_rows_that_come_out_of_order_see_what_came_before_them():
    minutes = (0, 3, 1, 12, 11, 20, 15)
    rows = [(NOON + timedelta(minutes=minute), "a", 10**place) for place, minute in enumerate(minutes)]
    steps = [at(when, ("pay", card, cents)) for when, card, cents in rows]
    run = simulate(Cards, steps, epochs=2, disorder="30 min")
    assert [tuple(reply) for reply in run.replies] == by_hand(rows)
