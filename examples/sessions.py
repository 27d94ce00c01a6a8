"""Session analytics: clicks become visits, and a visit ends when its user is silent for half an hour.

Shows a mutable object in state that is changed in place, and a partial histogram beside it.
All entry points are exact.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from examples.rows import Row, hot, play
from millpond import Map, Matrix, Partial, Partitioned, Program, each, entry, merged, merges

SEED = 8
ROWS = 6_000
USERS = tuple(f"user-{number:02}" for number in range(40))
PAGES = ("home", "search", "mill", "wheel", "basket", "checkout", "help")


@dataclass
class Visit:
    """A visit that may still go on; times are in seconds."""

    began: int
    last: int
    pages: list[str] = field(default_factory=list)


@dataclass
class Habits:
    """What is kept of a user's visits that are over."""

    visits: int = 0
    seconds: int = 0
    bought: int = 0
    landed: dict[str, int] = field(default_factory=dict)


class Sessions(Program):
    """Cuts the clicks of each user into visits, and sums them up."""

    visits = Partitioned(Map[str, Visit])
    habits = Partitioned(Map[str, Habits])
    lengths = Partial(Matrix[str, int, int])  # first page x minutes

    SILENCE = 1800
    MINUTE = 60

    @entry
    def click(self, user: str, page: str, at: int) -> int | None:
        """Take a click; answers with the length of the visit that it showed to be over, if it did."""
        visit = self.visits.get(user)
        if visit is not None and at - visit.last <= self.SILENCE:
            visit.last = at
            visit.pages.append(page)
            return None
        self.visits[user] = Visit(at, at, [page])
        if visit is None:
            return None
        seconds = visit.last - visit.began
        landed = visit.pages[0]
        habits = self.habits.setdefault(user, Habits())
        habits.visits += 1
        habits.seconds += seconds
        habits.landed[landed] = habits.landed.get(landed, 0) + 1
        if "checkout" in visit.pages:
            habits.bought += 1
        self.lengths[landed, seconds // self.MINUTE] += 1
        return seconds

    @entry
    def profile(self, user: str) -> tuple[int, float, str]:
        """Answer with a user's number of visits, their mean length in seconds, and where most of them begin."""
        habits = self.habits.get(user)
        if habits is None:
            return 0, 0.0, ""
        favourite = max(sorted(habits.landed), key=lambda page: habits.landed[page])
        return habits.visits, habits.seconds / habits.visits, favourite

    @entry
    def typical(self, page: str) -> list[tuple[int, int]]:
        """Answer with the commonest lengths in minutes of visits that began on a page, and how many there were."""
        return merged(each(self.lengths).row(page), merges.top_k(5))


def make_rows(seed: int, count: int) -> list[Row]:
    """Make up clicks in the order of time, with a question now and then."""
    chance = random.Random(seed)
    rows: list[Row] = []
    at = 0
    for _ in range(count):
        at += chance.randrange(1, 90)
        user = hot(chance, USERS)
        (kind,) = chance.choices(("click", "profile", "typical"), (20, 2, 1))
        page = hot(chance, PAGES)
        arguments = {"click": (user, page, at), "profile": (user,), "typical": (page,)}
        rows.append((kind, arguments[kind]))
    return rows


def main() -> int:
    """Run the class as plain Python, and show what kinds of visits there were."""
    sessions = Sessions()
    replies = play(sessions, make_rows(SEED, ROWS))
    console = Console(highlight=False)
    table = Table("user", "visits", "mean length", "landed on", title="The busiest users", title_justify="left")
    busiest = sorted(sessions.habits, key=lambda user: -sessions.habits[user].visits)[:5]
    for user in busiest:
        visits, seconds, page = sessions.profile(user)
        table.add_row(user, str(visits), f"{seconds / 60:.1f} min", page)
    console.print(table)
    told = ", ".join(f"{minutes} min ({visits})" for minutes, visits in sessions.typical(PAGES[0]))
    console.print(f"Visits that begin on {PAGES[0]} are commonly this long: {told}.")
    over = sum(isinstance(reply, int) for reply in replies)
    console.print(f"{over:,} visits are over, {len(sessions.visits)} go on.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
