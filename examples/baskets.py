"""Abandoned baskets: a shop reminds its customers of what they put aside, once they are silent for a while.

Shows timers (`@on_timer`), one per customer and moved by every click, and state that expires (`ttl=`): a reminder is
sent at most once a day. All entry points are exact. As plain Python the time is set by hand; on Spark it is that of the
epochs, and `start()` fires timers also while nobody clicks.
"""

from __future__ import annotations

import random
import sys
from collections import Counter as Tally
from datetime import UTC, datetime, timedelta

from rich.console import Console
from rich.table import Table

from millpond import Map, Partitioned, Program, entry, on_timer
from millpond.testing import Fired, epoch_time, fire_timers

SEED = 3
CLICKS = 3_000
OPENS = datetime(2024, 5, 1, 8, 0, tzinfo=UTC)
CUSTOMERS = tuple(f"customer-{number:02}" for number in range(30))
ITEMS = ("flour", "oats", "rye", "bran", "yeast")


class Baskets(Program):
    """Keeps what customers put into their baskets, and when to remind them of it."""

    baskets = Partitioned(Map[str, dict[str, int]])
    reminded = Partitioned(Map[str, int], ttl="1 day")

    SILENCE = timedelta(minutes=30)

    @entry
    def put(self, customer: str, item: str) -> int:
        """Put an item into a basket; answers with the number of items in it."""
        basket = self.baskets.setdefault(customer, {})
        basket[item] = basket.get(item, 0) + 1
        count = sum(basket.values())
        self.remind.set(customer, self.now + self.SILENCE)
        return count

    @entry
    def buy(self, customer: str) -> int:
        """Empty a basket; answers with the number of items that were in it."""
        basket = self.baskets.pop(customer, {})
        self.remind.cancel(customer)
        return sum(basket.values())

    @on_timer
    def remind(self, customer: str, at: datetime) -> str:
        """Say what to write to a customer who is silent: nothing, if there was a letter within a day."""
        count = sum(self.baskets.get(customer, {}).values())
        if customer in self.reminded:
            return ""
        self.reminded[customer] = count
        return f"{count} item(s) wait for you since {at - self.SILENCE:%H:%M}"


def make_clicks(seed: int, count: int) -> list[tuple[datetime, str, tuple[str, ...]]]:
    """Make up clicks in the order of time: most put something into a basket, some buy it."""
    chance = random.Random(seed)
    clicks: list[tuple[datetime, str, tuple[str, ...]]] = []
    now = OPENS
    for _ in range(count):
        now += timedelta(seconds=chance.randrange(1, 120))
        customer = chance.choice(CUSTOMERS)
        if chance.random() < 0.1:
            clicks.append((now, "buy", (customer,)))
        else:
            clicks.append((now, "put", (customer, chance.choice(ITEMS))))
    return clicks


def play(baskets: Baskets, clicks: list[tuple[datetime, str, tuple[str, ...]]]) -> list[Fired]:
    """Run clicks at their times, each as an epoch of its own; returns the timers that fired."""
    fired: list[Fired] = []
    for now, name, arguments in clicks:
        with epoch_time(now):
            getattr(baskets, name)(*arguments)
            fired += fire_timers(baskets)
    return fired


def main() -> int:
    """Run the class as plain Python, and show the first letters."""
    baskets = Baskets()
    fired = play(baskets, make_clicks(SEED, CLICKS))
    letters = [one for one in fired if one.reply]
    console = Console(highlight=False)
    table = Table("at", "customer", "letter", title="The first letters", title_justify="left")
    for one in letters[:5]:
        table.add_row(f"{one.at:%d %H:%M}", one.key, one.reply)
    console.print(table)
    most = Tally(one.key for one in letters).most_common(1)[0][1]
    console.print(
        f"{len(fired):,} timers fired, {len(letters):,} letters were written, at most {most} to one customer."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
