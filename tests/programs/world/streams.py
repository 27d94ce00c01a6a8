"""Examples of stream processors' own training: rides, clicks, sensors, sessions, deduplication, features."""

from __future__ import annotations

import statistics
from collections import Counter as Tally
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache

from millpond import Counter, Map, Partial, Partitioned, Program, Set, Value, each, entry, merged


@dataclass
class Ride:
    start: datetime | None = None
    end: datetime | None = None
    fare: float | None = None


class RidesAndFares(Program):
    """Flink's training: join rides with fares, whichever comes first."""

    rides = Partitioned(Map[int, Ride])

    @entry
    def started(self, ride: int, at: datetime) -> float | None:
        found = self.rides.setdefault(ride, Ride())
        found.start = at
        return self._complete(ride)

    @entry
    def paid(self, ride: int, fare: float) -> float | None:
        found = self.rides.setdefault(ride, Ride())
        found.fare = fare
        return self._complete(ride)

    def _complete(self, ride: int) -> float | None:
        found = self.rides[ride]
        if found.start is None or found.fare is None:
            return None
        del self.rides[ride]
        return found.fare


class Dedup(Program):
    """First seen wins; the identifier may be a number or a text."""

    seen = Partitioned(Set[str])

    @entry
    def first(self, event: str) -> bool:
        if event in self.seen:
            return False
        self.seen.add(event)
        return True


class LastValues(Program):
    """The last five readings of a sensor in a deque with a bound, their median."""

    readings = Partitioned(Map[str, deque[float]])

    @entry
    def read(self, sensor: str, celsius: float) -> float:
        last = self.readings.setdefault(sensor, deque())
        last.append(celsius)
        if len(last) > 3:
            last.popleft()
        return statistics.median(last)


class Features(Program):
    """A feature store: counts, last time, a moving average, asked for all at once."""

    clicks = Partitioned(Counter[str])
    last = Partitioned(Map[str, datetime])
    average = Partitioned(Map[str, float])

    @entry
    def click(self, user: str, price: float, at: datetime) -> None:
        self.clicks[user] += 1
        self.last[user] = max(at, self.last.get(user, at))
        self.average[user] = 0.9 * self.average.get(user, price) + 0.1 * price

    @entry
    def features(self, user: str, now: datetime) -> dict[str, float]:
        if user not in self.last:
            return {}
        return {
            "clicks": float(self.clicks[user]),
            "idle": (now - self.last[user]).total_seconds(),
            "average": self.average[user],
        }


class TopPages(Program):
    """The most viewed pages of all: a walk over a whole partitioned element."""

    views = Partitioned(Counter[str])

    @entry
    def view(self, page: str) -> None:
        self.views[page] += 1

    @entry
    def top(self, most: int = 3) -> list[str]:
        ranked = sorted(self.views.items(), key=lambda pair: (-pair[1], pair[0]))
        return [page for page, _ in ranked[:most]]

    @entry
    def total(self) -> int:
        return sum(self.views.values())


class Splitter(Program):
    """Several replies for a row: `yield`."""

    counts = Partitioned(Counter[str])

    @entry
    def words(self, line: str) -> Iterator[tuple[str, int]]:
        for word in line.split():
            self.counts[word] += 1
            yield word, self.counts[word]


class Trending(Program):
    """Twitter's hashtags by hour, kept for two hours."""

    hours = Partitioned(Map[int, dict[str, int]])

    @entry
    def tweet(self, text: str, at: datetime) -> int:
        hour = int(at.timestamp()) // 3600
        tags = {word for word in text.split() if word.startswith("#")}
        bucket = self.hours.setdefault(hour, {})
        for tag in sorted(tags):
            bucket[tag] = bucket.get(tag, 0) + 1
        for old in [h for h in self.hours if h < hour - 1]:
            del self.hours[old]
        return len(self.hours)

    @entry
    def trends(self) -> list[str]:
        total: Tally[str] = Tally()
        for bucket in self.hours.values():
            total.update(bucket)
        return [tag for tag, _ in sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))]


@dataclass
class Rule:
    name: str
    limit: int


class Alerts(Program):
    """Dynamic rules that every row is checked against: Flink's fraud detection."""

    rules = Partitioned(Map[str, Rule])
    spent = Partitioned(Map[str, int])

    @entry
    def set_rule(self, name: str, limit: int | None = None) -> int:
        if limit is None:
            self.rules.pop(name, None)
        else:
            self.rules[name] = Rule(name, limit)
        return len(self.rules)

    @entry
    def pay(self, card: str, cents: int) -> list[str]:
        self.spent[card] = self.spent.get(card, 0) + cents
        return [rule.name for rule in self.rules.values() if self.spent[card] > rule.limit]


@dataclass
class Machine:
    state: str = "off"
    history: list[str] = field(default_factory=list)

    def go(self, event: str) -> None:
        self.state = TABLE.get((self.state, event), self.state)
        self.history.append(self.state)


TABLE = {("off", "power"): "idle", ("idle", "work"): "busy", ("busy", "done"): "idle", ("idle", "power"): "off"}


class Machines(Program):
    """State machines per device: methods of a class of one's own, a table of the module."""

    machines = Partitioned(Map[str, Machine])

    @entry
    def event(self, device: str, event: str) -> str:
        machine = self.machines.get(device) or Machine()
        machine.go(event)
        self.machines[device] = machine
        return machine.state


@cache
def stem(word: str) -> str:
    return word.rstrip("s").lower()


class Index(Program):
    """An inverted index with a cached function, a search over several keys from the text."""

    postings = Partitioned(Map[str, list[int]])
    texts = Partitioned(Map[int, str])

    @entry
    def add(self, number: int, text: str) -> None:
        old = self.texts.get(number)
        if old is not None:
            for word in sorted({stem(word) for word in old.split()}):
                self.postings[word].remove(number)
        self.texts[number] = text
        for word in sorted({stem(word) for word in text.split()}):
            self.postings.setdefault(word, []).append(number)

    @entry
    def search(self, query: str) -> list[str]:
        found: set[int] | None = None
        for word in query.split():
            numbers = set(self.postings.get(stem(word), []))
            found = numbers if found is None else found & numbers
        return [self.texts[number] for number in sorted(found or set())]


class Experiments(Program):
    """Partial counts and a Value that every instance knows: arms of an experiment."""

    shown = Partial(Counter[str])
    clicked = Partial(Counter[str])
    epsilon = Partitioned(Value[float])

    @entry
    def show(self, arm: str) -> None:
        self.shown[arm] += 1

    @entry
    def click(self, arm: str) -> None:
        self.clicked[arm] += 1

    @entry
    def rate(self, arm: str) -> float:
        shown = merged(each(self.shown).get(arm, 0), sum)
        clicked = merged(each(self.clicked).get(arm, 0), sum)
        return clicked / shown if shown else 0.0


class Meter(Program):
    """Unions: a reading is a number or a text that is parsed."""

    totals = Partitioned(Map[str, float])
    errors = Partitioned(Map[str, list[str | int]])

    @entry
    def read(self, meter: str, text: str) -> float:
        m = self.totals
        try:
            m[meter] = m.get(meter, 0.0) + float(text)
        except ValueError:
            self.errors.setdefault(meter, []).append(text or 0)
        return m.get(meter, 0.0)


NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

CASES = [
    (
        RidesAndFares,
        [
            ("started", 1, NOW),
            ("paid", 2, 7.5),
            ("paid", 1, 9.0),
            ("started", 2, NOW),
            ("started", 3, NOW),
        ],
    ),
    (Dedup, [("first", "a"), ("first", "b"), ("first", "a")]),
    (LastValues, [("read", "x", float(c)) for c in (1, 9, 2, 8, 3)]),
    (
        Features,
        [
            ("click", "ann", 10.0, NOW),
            ("click", "ann", 20.0, NOW + timedelta(minutes=1)),
            ("features", "ann", NOW + timedelta(hours=1)),
            ("features", "bob", NOW),
        ],
    ),
    (TopPages, [("view", p) for p in "abcabdad"] + [("top", 2), ("total",), ("view", "d"), ("top", 3)]),
    (Splitter, [("words", "a b a"), ("words", ""), ("words", "b")]),
    (
        Trending,
        [
            ("tweet", "#x #y hi #x", NOW),
            ("tweet", "#x", NOW + timedelta(hours=1)),
            ("trends",),
            ("tweet", "#z", NOW + timedelta(hours=2)),
            ("trends",),
        ],
    ),
    (
        Alerts,
        [
            ("set_rule", "low", 10),
            ("set_rule", "high", 100),
            ("pay", "c", 50),
            ("pay", "c", 60),
            ("set_rule", "high", None),
            ("pay", "c", 1),
        ],
    ),
    (Machines, [("event", "m", e) for e in ("power", "work", "power", "done", "power")]),
    (
        Index,
        [
            ("add", 1, "Mills and ponds"),
            ("add", 2, "A pond"),
            ("search", "pond"),
            ("add", 1, "Rivers"),
            ("search", "ponds a"),
            ("search", "river"),
        ],
    ),
    (
        Experiments,
        [("show", "a"), ("show", "a"), ("click", "a"), ("rate", "a"), ("rate", "b")],
    ),
    (Meter, [("read", "m", "1.5"), ("read", "m", "x"), ("read", "m", ""), ("read", "m", "2")]),
]
