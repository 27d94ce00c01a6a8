"""A rate limiter with token buckets: a client may burst, and its bucket fills again with time.

Two elements under one key: what a client paid for, and its bucket. Time is a column of the row, in milliseconds, so
that a run can be repeated; tokens are counted in thousandths, so that sums are exact. All entry points are exact.
"""

from __future__ import annotations

import random
import sys
from collections import Counter as Tally
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from examples.rows import Row, hot, play
from millpond import Counter, Map, Partitioned, Program, entry

SEED = 89
ROWS = 5_000
CLIENTS = tuple(f"client-{number}" for number in range(12))
PLANS = ("free", "basic", "pro")


@dataclass(frozen=True)
class Plan:
    """How many tokens a bucket holds, and how many drop in per second."""

    burst: int
    per_second: int


OFFERED = {"free": Plan(5, 1), "basic": Plan(20, 5), "pro": Plan(100, 50)}


@dataclass
class Bucket:
    """The tokens left, in thousandths, and when they were counted, in milliseconds."""

    thousandths: int
    at: int


class RateLimiter(Program):
    """Lets requests pass while their client has tokens."""

    plans = Partitioned(Map[str, str])
    buckets = Partitioned(Map[str, Bucket])
    refused = Partitioned(Counter[str])

    def _plan(self, client: str) -> Plan:
        return OFFERED[self.plans.get(client, "free")]

    @entry
    def subscribe(self, client: str, plan: str) -> bool:
        """Change what a client pays for; answers whether there is such a plan."""
        if plan not in OFFERED:
            return False
        self.plans[client] = plan
        return True

    @entry
    def allow(self, client: str, tokens: int, at: int) -> bool:
        """Take tokens for a request; answers whether it may pass."""
        plan = self._plan(client)
        full = plan.burst * 1000
        bucket = self.buckets.get(client)
        if bucket is None:
            bucket = self.buckets[client] = Bucket(full, at)
        passed = max(0, at - bucket.at)
        bucket.thousandths = min(full, bucket.thousandths + passed * plan.per_second)
        bucket.at = max(bucket.at, at)
        if bucket.thousandths < tokens * 1000:
            self.refused[client] += 1
            return False
        bucket.thousandths -= tokens * 1000
        return True

    @entry
    def refusals(self, client: str) -> int:
        """Answer how many requests of a client were refused."""
        return self.refused[client]


def make_rows(seed: int, count: int) -> list[Row]:
    """Make up requests in the order of time; some clients change their plan."""
    chance = random.Random(seed)
    rows: list[Row] = []
    at = 0
    for _ in range(count):
        at += chance.randrange(100)
        client = hot(chance, CLIENTS)
        kind = chance.random()
        if kind < 0.9:
            rows.append(("allow", (client, chance.choice((1, 1, 1, 4)), at)))
        elif kind < 0.93:
            rows.append(("subscribe", (client, chance.choice((*PLANS, "gold")))))
        else:
            rows.append(("refusals", (client,)))
    return rows


def main() -> int:
    """Run the limiter as plain Python, and show who was held back."""
    limiter, rows = RateLimiter(), make_rows(SEED, ROWS)
    replies = play(limiter, rows)
    verdicts = Tally((row[1][0], reply) for row, reply in zip(rows, replies, strict=True) if row[0] == "allow")
    console = Console(highlight=False)
    table = Table("client", "plan", "passed", "refused", title="Requests", title_justify="left")
    for client in CLIENTS:
        plan = limiter.plans.get(client, "free")
        table.add_row(client, plan, f"{verdicts[client, True]:,}", f"{limiter.refusals(client):,}")
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
