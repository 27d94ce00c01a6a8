"""Programs for the tests of the kit: every kind of state, rows that are refused or raise, timers and windows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from millpond import (
    Counter,
    List,
    Map,
    Matrix,
    Partial,
    Partitioned,
    Program,
    Set,
    Value,
    Vector,
    each,
    entry,
    merged,
    on_timer,
    on_window,
)
from millpond.windowing import ClosedWindow, sum_of, tumbling


class Words(Program):
    counts = Partitioned(Counter[str])

    @entry
    def add(self, word: str) -> int:
        self.counts[word] += 1
        return self.counts[word]


@dataclass
class Account:
    owner: str
    cents: int


class Bank(Program):
    """Rows over two keys that may be refused, and rows that raise."""

    accounts = Partitioned(Map[str, Account])

    @entry
    def open(self, row: str, cents: int) -> tuple[str, int]:
        self.accounts[row] = Account(row, 100 // cents * cents)
        return row, self.accounts[row].cents

    @entry
    def move(self, source: str, target: str, cents: int) -> Account:
        self.accounts[source].cents -= cents
        self.accounts[target].cents += cents
        if self.accounts[source].cents < 0:
            self.abort(f"{source} lacks the money")
        return self.accounts[source]


class Kinds(Program):
    """Every kind of container."""

    words = Partitioned(Set[str])
    log = Partitioned(List[str])
    last = Partitioned(Value[str])
    weights = Partitioned(Vector[str])
    pairs = Partitioned(Matrix[str, int, int])
    seen = Partial(Set[str])
    hits = Partial(Counter[str])

    @entry
    def note(self, word: str) -> None:
        self.words.add(word)

    @entry
    def write(self, word: str) -> int:
        self.log.append(word)
        return len(self.log)

    @entry
    def say(self, word: str) -> None:
        self.last.set(word)

    @entry
    def weigh(self, word: str, by: float) -> None:
        self.weights[word] += by

    @entry
    def pair(self, word: str, number: int) -> None:
        self.pairs[word, number] += 1

    @entry
    def see(self, word: str) -> None:
        self.seen.add(word)
        self.hits[word] += 1

    @entry
    def count(self, word: str) -> int:
        return merged(each(self.hits).get(word, 0), sum)


class Visits(Program):
    """Timers by the clock or by event time, and entries that expire."""

    clicks = Partitioned(Counter[str])
    pages = Partitioned(Map[str, int], ttl=timedelta(minutes=10))

    @entry
    def click(self, user: str) -> int:
        self.clicks[user] += 1
        self.pages[user] = self.pages.get(user, 0) + 1
        self.over.set(user, self.now + timedelta(minutes=30))
        return self.pages[user]

    @on_timer
    def over(self, user: str, at: datetime) -> int:
        return self.clicks.pop(user, 0)


class Sums(Program):
    """Windows of ten minutes."""

    @entry
    def read(self, key: str, n: int) -> None:
        self.told.add(key, n=n)

    @on_window(tumbling(timedelta(minutes=10)), n=sum_of("n"))
    def told(self, key: str, closed: list[ClosedWindow]) -> list[float]:
        return [window["n"] for window in closed]


class Walk(Program):
    """A relaxed method: rows come in between where it moves."""

    way = Partitioned(Map[str, str])

    @entry
    def lead(self, source: str, target: str) -> None:
        self.way[source] = target

    @entry(relaxed=True)
    def walk(self, start: str) -> str:
        at = start
        for _ in range(3):
            at = self.way.get(at, at)
        self.way[at] = start
        return at
