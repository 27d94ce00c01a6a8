"""Which advertisement made whom click: an interval join of two feeds on event time, written as ordinary state.

A click belongs to the advertisements that its user saw in the half hour before it. Either may come first. An
advertisement without a click is told when the watermark says that none can come any more. All entry points are exact.
"""

from __future__ import annotations

import random
import sys
from collections import Counter as Tally
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

from rich.console import Console

from millpond import Map, Partitioned, Program, entry, on_timer
from millpond.testing import Fired, event_time, fire_timers

SEED = 5
ROWS = 2_000
OPENS = datetime(2024, 5, 1, 8, 0, tzinfo=UTC)
DISORDER = timedelta(minutes=5)
USERS = tuple(f"user-{number:02}" for number in range(12))

Event = tuple[datetime, str, tuple[Any, ...]]


@dataclass
class Interest:
    """What a user saw and clicked, as far as it may still find a partner: numbers and moments."""

    shown: dict[int, datetime] = field(default_factory=dict)
    clicked: dict[int, datetime] = field(default_factory=dict)
    paired: list[int] = field(default_factory=list)  # the shown ones that have a click


class Attribution(Program):
    """Pairs clicks with advertisements of their user, `at <= click < at + REACH`."""

    REACH = timedelta(minutes=30)

    # By then the last row of a user is out of reach of all others, and the timers of what was shown have fired.
    interests = Partitioned(Map[str, Interest], ttl=2 * REACH)

    @entry
    def show(self, user: str, ad: int) -> list[tuple[int, int]]:
        """Note an advertisement; answers with the clicks that came before it and belong to it."""
        self.unclicked.set((user, ad), self.now + self.REACH)
        interest = self.interests.setdefault(user, Interest())
        interest.shown[ad] = self.now
        found = sorted(click for click, at in interest.clicked.items() if self.now <= at < self.now + self.REACH)
        if found:
            interest.paired.append(ad)
        return [(ad, click) for click in found]

    @entry
    def click(self, user: str, click: int) -> list[tuple[int, int]]:
        """Note a click; answers with the advertisements that it belongs to."""
        interest = self.interests.setdefault(user, Interest())
        interest.clicked[click] = self.now
        found = sorted(ad for ad, at in interest.shown.items() if at <= self.now < at + self.REACH)
        interest.paired += [ad for ad in found if ad not in interest.paired]
        return [(ad, click) for ad in found]

    @on_timer
    def unclicked(self, shown: tuple[str, int], at: datetime) -> int | None:
        """Forget an advertisement, and clicks that are out of reach; answers with it if nobody clicked."""
        user, ad = shown
        interest = self.interests[user]
        del interest.shown[ad]
        # An advertisement that comes from now on was shown at the watermark or later, so after these.
        interest.clicked = {click: then for click, then in interest.clicked.items() if then >= at}
        if ad in interest.paired:
            interest.paired.remove(ad)
            return None
        return ad


def make_events(seed: int, count: int) -> list[Event]:
    """Make up rows in the order of their arrival: each has its moment, its entry point and its arguments."""
    chance = random.Random(seed)
    now, events = OPENS, []
    for number in range(count):
        now += timedelta(seconds=chance.randrange(90))
        name = chance.choice(("show", "show", "click"))
        events.append((now + DISORDER * chance.random(), (now, name, (chance.choice(USERS), number))))
    return [event for _, event in sorted(events, key=itemgetter(0))]


def play(program: Attribution, events: list[Event]) -> tuple[list[tuple[int, int]], list[Fired]]:
    """Run rows at their moments, with a watermark that follows them; the pairs, and the timers that fired."""
    pairs: list[tuple[int, int]] = []
    fired: list[Fired] = []
    latest = OPENS
    for moment, name, arguments in events:
        with event_time(moment):
            pairs += getattr(program, name)(*arguments)
        latest = max(latest, moment)
        fired += fire_timers(program, latest - DISORDER)
    return pairs, fired + fire_timers(program, latest + 2 * Attribution.REACH)


def main() -> int:
    """Run the class as plain Python, and show who earns what."""
    pairs, fired = play(Attribution(), make_events(SEED, ROWS))
    best, clicks = Tally(ad for ad, _ in pairs).most_common(1)[0]
    lone = sum(one.reply is not None for one in fired)
    console = Console(highlight=False)
    console.print(f"{len(fired):,} advertisements were shown, {lone:,} of them without a click in the next half hour.")
    console.print(f"{len(pairs):,} pairs of an advertisement and a click; number {best} has most, {clicks} of them.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
