"""Limits, ledgers, workflows, matchmaking, caches and queues, as services keep them."""

from __future__ import annotations

import bisect
import datetime as dt
import enum
import functools
import operator
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self
from uuid import UUID, uuid5

from millpond import Aborted, Counter, List, Map, Partial, Partitioned, Program, Set, each, entry, merged

UTC = dt.UTC
START = dt.datetime(2024, 3, 1, tzinfo=UTC)


@dataclass(slots=True)
class Bucket:
    tokens: float
    at: dt.datetime

    def refill(self, now: dt.datetime, rate: float, size: float) -> Self:
        passed = max((now - self.at).total_seconds(), 0.0)
        self.tokens = min(size, self.tokens + passed * rate)
        self.at = now
        return self


class RateLimiter(Program):
    """Token buckets by key and plan, with settings."""

    buckets = Partitioned(Map[tuple[str, str], Bucket])
    refused = Partitioned(Counter[str])

    def __init__(self, rate: float = 1.0, sizes: dict[str, float] | None = None) -> None:
        super().__init__()
        self.rate = rate
        self.sizes = sizes or {"free": 2.0, "paid": 5.0}

    @entry
    def allow(self, key: str, plan: Literal["free", "paid"], at: dt.datetime, cost: float = 1.0) -> bool:
        size = self.sizes[plan]
        bucket = self.buckets.setdefault((key, plan), Bucket(size, at)).refill(at, self.rate, size)
        if bucket.tokens < cost:
            self.refused[key] += 1
            return False
        bucket.tokens -= cost
        return True


class InsufficientFundsError(Exception):
    def __init__(self, account: str, missing: int) -> None:
        super().__init__(f"{account} lacks {missing}")
        self.account = account
        self.missing = missing


@dataclass
class Account:
    balance: int = 0
    holds: dict[str, int] = field(default_factory=dict)

    @property
    def available(self) -> int:
        return self.balance - sum(self.holds.values())


class LedgerWithHolds(Program):
    """Money that is held first and captured or released later; entries in a journal, double entry."""

    accounts = Partitioned(Map[str, Account])
    journal = Partitioned(List[tuple[str, str, int]])

    def _post(self, debit: str, credit: str, cents: int) -> None:
        self.accounts.setdefault(debit, Account()).balance -= cents
        self.accounts.setdefault(credit, Account()).balance += cents
        self.journal.append((debit, credit, cents))

    @entry
    def deposit(self, account: str, cents: int) -> int:
        self._post("world", account, cents)
        return self.accounts[account].balance

    @entry
    def hold(self, account: str, hold_id: str, cents: int) -> str:
        try:
            self._hold(account, hold_id, cents)
        except InsufficientFundsError as error:
            return f"refused: {error}"
        else:
            return "held"

    def _hold(self, account: str, hold_id: str, cents: int) -> None:
        own = self.accounts.get(account) or Account()
        if own.available < cents:
            raise InsufficientFundsError(account, cents - own.available)
        own.holds[hold_id] = cents
        self.accounts[account] = own

    @entry
    def capture(self, account: str, hold_id: str, to: str, cents: int | None = None) -> int:
        own = self.accounts[account]
        held = own.holds.pop(hold_id)
        taken = held if cents is None else min(cents, held)
        self._post(account, to, taken)
        return held - taken

    @entry
    def check(self) -> int:
        return sum(account.balance for account in self.accounts.values())


class State(enum.Enum):
    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"

    @property
    def final(self) -> bool:
        return self in (State.DONE, State.FAILED)


@dataclass
class Task:
    name: str
    needs: set[str]
    state: State = State.PENDING
    tries: int = 0


class WorkflowEngine(Program):
    """Tasks of a workflow with what they need; what is ready is told when something ends."""

    RETRIES: ClassVar[int] = 2

    flows = Partitioned(Map[str, dict[str, Task]])
    log = Partitioned(Map[str, list[str]])

    @entry
    def submit(self, flow: str, needs: dict[str, list[str]]) -> list[str]:
        if flow in self.flows:
            raise ValueError(f"{flow} is there")
        self.flows[flow] = {name: Task(name, set(before)) for name, before in needs.items()}
        return self._start_ready(flow)

    def _start_ready(self, flow: str) -> list[str]:
        tasks = self.flows[flow]
        done = {name for name, task in tasks.items() if task.state is State.DONE}

        def ready(task: Task) -> bool:
            return task.state is State.PENDING and task.needs <= done

        started = sorted(task.name for task in tasks.values() if ready(task))
        for name in started:
            tasks[name].state = State.RUNNING
            tasks[name].tries += 1
        self.log.setdefault(flow, []).extend(f"start {name}" for name in started)
        return started

    @entry
    def ended(self, flow: str, name: str, *, ok: bool = True) -> list[str]:
        task = self.flows[flow][name]
        if task.state.final:
            return []
        if ok:
            task.state = State.DONE
        elif task.tries <= self.RETRIES:
            task.state = State.PENDING
        else:
            task.state = State.FAILED
        self.log[flow].append(f"{task.state.value} {name}")
        return self._start_ready(flow)

    @entry
    def status(self, flow: str) -> dict[str, str]:
        return {name: task.state.value for name, task in sorted(self.flows.get(flow, {}).items())}


@dataclass(order=True)
class Waiting:
    rating: int
    player: str = field(compare=False)
    since: int = field(compare=False, default=0)


class Matchmaking(Program):
    """Players wait in a sorted list by rating; the nearest pair inside a tolerance plays."""

    queues = Partitioned(Map[str, list[Waiting]])
    ratings = Partitioned(Map[str, int])

    @entry
    def join(self, mode: str, player: str, now: int) -> tuple[str, str] | None:
        queue = self.queues.setdefault(mode, [])
        mine = Waiting(self.ratings.get(player, 1000), player, now)
        at = bisect.bisect_left(queue, mine)
        near = [other for other in (*queue[max(at - 1, 0) : at], *queue[at : at + 1]) if self._fits(mine, other)]
        if not near:
            queue.insert(at, mine)
            return None
        other = min(near, key=lambda one: (abs(one.rating - mine.rating), one.player))
        queue.remove(other)
        return tuple(sorted((player, other.player)))  # type: ignore[return-value]

    @staticmethod
    def _fits(mine: Waiting, other: Waiting) -> bool:
        tolerance = 50 + 10 * (mine.since - other.since)
        return abs(mine.rating - other.rating) <= tolerance

    @entry
    def result(self, winner: str, loser: str) -> tuple[int, int]:
        first, second = self.ratings.get(winner, 1000), self.ratings.get(loser, 1000)
        expected = 1 / (1 + 10 ** ((second - first) / 400))
        gain = round(32 * (1 - expected))
        self.ratings[winner], self.ratings[loser] = first + gain, second - gain
        return first + gain, second - gain


NAMESPACE = UUID("12345678-1234-5678-1234-567812345678")


class Deduplicated(Program):
    """Events that come twice are dropped, by an id that follows from what they say; late ones go by version."""

    seen = Partitioned(Set[UUID])
    latest = Partitioned(Map[str, tuple[int, str]])

    @entry
    def event(self, source: str, version: int, body: str) -> bool:
        key = uuid5(NAMESPACE, f"{source}/{version}/{body}")
        if key in self.seen:
            return False
        self.seen.add(key)
        if version > self.latest.get(source, (-1, ""))[0]:
            self.latest[source] = (version, body)
        return True


class Arm(NamedTuple):
    shown: int = 0
    bought: int = 0

    @property
    def rate(self) -> float:
        return self.bought / self.shown if self.shown else 0.0


def hashed(text: str) -> int:
    return functools.reduce(lambda so_far, letter: (so_far * 31 + ord(letter)) % 1_000_003, text, 7)


class Experiments(Program):
    """AB tests: who sees what follows from a hash; flags are told to all, and change while it runs."""

    flags = Partial(Map[str, tuple[str, ...]], on_scale_out="copy")
    arms = Partitioned(Map[tuple[str, str], Arm])

    @entry
    def start(self, experiment: str, arms: list[str]) -> None:
        each(self.flags)[experiment] = tuple(arms)

    @entry
    def stop(self, experiment: str) -> None:
        each(self.flags).pop(experiment, None)

    @entry
    def show(self, experiment: str, user: str) -> str:
        arms = self.flags.get(experiment)
        if not arms:
            return "control"
        name = arms[hashed(f"{experiment}:{user}") % len(arms)]
        arm = self.arms.get((experiment, name), Arm())
        self.arms[experiment, name] = arm._replace(shown=arm.shown + 1)
        return name

    @entry
    def buy(self, experiment: str, name: str) -> float:
        arm = self.arms.get((experiment, name), Arm())
        self.arms[experiment, name] = arm = arm._replace(bought=arm.bought + 1)
        return arm.rate


@dataclass
class Reservation:
    item: str
    pieces: int
    until: dt.datetime


class Reservations(Program):
    """Stock that is reserved for some minutes, and comes back if nobody pays."""

    stock = Partitioned(Map[str, int])
    held = Partitioned(Map[str, Reservation])

    def _expire(self, item: str, now: dt.datetime) -> None:
        gone = [name for name, one in self.held.items() if one.item == item and one.until <= now]
        for name in gone:
            self.stock[item] += self.held.pop(name).pieces

    @entry
    def restock(self, item: str, pieces: int) -> int:
        self.stock[item] = self.stock.get(item, 0) + pieces
        return self.stock[item]

    @entry
    def reserve(self, order: str, item: str, pieces: int, now: dt.datetime) -> bool:
        self._expire(item, now)
        if self.stock.get(item, 0) < pieces or order in self.held:
            return False
        self.stock[item] -= pieces
        self.held[order] = Reservation(item, pieces, now + dt.timedelta(minutes=10))
        return True

    @entry
    def pay(self, order: str, now: dt.datetime) -> str:
        one = self.held.get(order)
        if one is None:
            self.abort(f"nothing is held for {order}")
        if one.until <= now:
            self._expire(one.item, now)
            return "too late"
        del self.held[order]
        return "paid"


class Shape(Protocol):
    def total(self, lines: Iterable[tuple[int, Decimal]]) -> Decimal: ...


@dataclass(frozen=True)
class Flat:
    percent: int

    def total(self, lines: Iterable[tuple[int, Decimal]]) -> Decimal:
        return sum((count * price for count, price in lines), Decimal(0)) * (100 - self.percent) / 100


@dataclass(frozen=True)
class ThirdFree:
    def total(self, lines: Iterable[tuple[int, Decimal]]) -> Decimal:
        return sum(((count - count // 3) * price for count, price in lines), Decimal(0))


OFFERS: dict[str, Shape] = {"ten": Flat(10), "third": ThirdFree()}
CENT = Decimal("0.01")


class Billing(Program):
    """Invoices with offers that are objects of the module, and money as decimals."""

    lines = Partitioned(Map[str, list[tuple[int, Decimal]]])
    paid = Partitioned(Map[str, Decimal])

    @entry
    def add(self, customer: str, count: int, price: Decimal) -> Decimal:
        self.lines.setdefault(customer, []).append((count, price))
        return sum(map(operator.mul, *zip(*self.lines[customer], strict=True)), Decimal(0)).quantize(CENT)

    @entry
    def bill(self, customer: str, offer: str | None = None) -> Decimal:
        lines = self.lines.pop(customer, [])
        shape = OFFERS.get(offer or "", Flat(0))
        total = shape.total(lines).quantize(CENT, rounding=ROUND_HALF_UP)
        self.paid[customer] = self.paid.get(customer, Decimal(0)) + total
        return total


class Features(Program):
    """A feature store: aggregates by entity over the last events, read as a vector; partial totals beside it."""

    events = Partitioned(Map[str, deque[tuple[int, float]]])
    totals = Partial(Counter[str])

    AGGREGATES: ClassVar[dict[str, Callable[[list[float]], float]]] = {
        "sum": sum,
        "max": max,
        "mean": lambda values: sum(values) / len(values),
    }

    @entry
    def event(self, entity: str, at: int, value: float) -> None:
        events = self.events.setdefault(entity, deque(maxlen=4))
        events.append((at, value))
        self.totals[entity] += 1

    @entry
    def vector(self, entity: str, at: int, window: int = 10) -> dict[str, float]:
        values = [value for when, value in self.events.get(entity, ()) if at - window < when <= at]
        if not values:
            return {}
        return {name: round(function(values), 6) for name, function in self.AGGREGATES.items()}

    @entry
    def seen(self, entities: list[str]) -> int:
        return sum(merged(each(self.totals)[entity], sum) for entity in entities)


class Checkout(Program):
    """Steps of a saga that call each other; what fails is undone by itself, and the order is refused or changed."""

    stock = Partitioned(Map[str, int])
    money = Partitioned(Map[str, int])
    orders = Partitioned(Map[str, str])

    @entry
    def take(self, item: str, pieces: int) -> int:
        self.stock[item] = self.stock.get(item, 0) - pieces
        if self.stock[item] < 0:
            self.abort(f"{item} is out")
        return self.stock[item]

    @entry
    def charge(self, user: str, cents: int) -> int:
        left = self.money.get(user, 0) - cents
        self.money[user] = left
        if left < 0:
            self.abort(f"{user} is broke")
        return left

    @entry
    def fund(self, user: str, cents: int, item: str, pieces: int) -> None:
        self.money[user] = self.money.get(user, 0) + cents
        self.stock[item] = self.stock.get(item, 0) + pieces

    @entry
    def order(self, order: str, user: str, items: dict[str, int], price: int = 10) -> str:
        got: list[str] = []
        for item, pieces in items.items():
            try:
                self.take(item, pieces)
            except Aborted:
                continue
            got.append(item)
        if not got:
            self.abort("nothing to send")
        self.charge(user, price * sum(items[item] for item in got))
        self.orders[order] = ",".join(got)
        return self.orders[order]


def _t(minute: int) -> dt.datetime:
    return START + dt.timedelta(minutes=minute)


CASES: list[tuple[type[Program], list[tuple[Any, ...]]]] = [
    (
        RateLimiter,
        [("allow", "k", "free", START + dt.timedelta(seconds=at / 2)) for at in range(7)]
        + [("allow", "k", "paid", START, 3.0), ("allow", "k", "paid", START, 3.0)],
    ),
    (
        LedgerWithHolds,
        [
            ("deposit", "ann", 100),
            ("hold", "ann", "h1", 70),
            ("hold", "ann", "h2", 70),
            ("hold", "bob", "h1", 1),
            ("capture", "ann", "h1", "shop", 50),
            ("capture", "ann", "h9", "shop"),
            ("hold", "ann", "h3", 50),
            ("capture", "ann", "h3", "shop"),
            ("check",),
        ],
    ),
    (
        WorkflowEngine,
        [
            ("submit", "f", {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}),
            ("ended", "f", "a"),
            ("ended", "f", "b", False),
            ("submit", "f", {}),
            ("ended", "f", "b"),
            ("ended", "f", "c"),
            ("status", "f"),
            ("ended", "f", "d", False),
            ("ended", "f", "d", False),
            ("ended", "f", "d", False),
            ("status", "f"),
            ("status", "g"),
        ],
    ),
    (
        Matchmaking,
        [
            ("join", "duel", "ann", 0),
            ("join", "duel", "bob", 1),
            ("result", "ann", "bob"),
            ("join", "duel", "cid", 2),
            ("result", "dee", "cid"),
            ("result", "dee", "bob"),
            ("join", "duel", "dee", 3),
            ("join", "duel", "eve", 90),
        ],
    ),
    (
        Deduplicated,
        [
            ("event", "s", 1, "x"),
            ("event", "s", 1, "x"),
            ("event", "s", 3, "y"),
            ("event", "s", 2, "z"),
            ("event", "r", 1, "x"),
        ],
    ),
    (
        Experiments,
        [
            ("show", "e", "ann"),
            ("start", "e", ["red", "blue"]),
            *(("show", "e", user) for user in ("ann", "bob", "cid")),
            ("buy", "e", "red"),
            ("stop", "e"),
            ("show", "e", "ann"),
            ("stop", "x"),
        ],
    ),
    (
        Reservations,
        [
            ("restock", "pen", 3),
            ("reserve", "o1", "pen", 2, _t(0)),
            ("reserve", "o2", "pen", 2, _t(5)),
            ("reserve", "o3", "pen", 2, _t(11)),
            ("pay", "o1", _t(11)),
            ("pay", "o3", _t(12)),
            ("pay", "o3", _t(12)),
            ("reserve", "o4", "pen", 1, _t(13)),
            ("pay", "o4", _t(30)),
        ],
    ),
    (
        Billing,
        [
            ("add", "ann", 3, Decimal("2.50")),
            ("add", "ann", 1, Decimal("0.99")),
            ("bill", "ann", "third"),
            ("add", "bob", 7, Decimal("1.15")),
            ("bill", "bob", "ten"),
            ("bill", "bob"),
        ],
    ),
    (
        Features,
        [
            *(("event", "ab"[at % 2], at, at / 2) for at in range(9)),
            ("vector", "a", 8),
            ("vector", "b", 3, 2),
            ("vector", "z", 8),
            ("seen", ["a", "b", "z"]),
        ],
    ),
    (
        Checkout,
        [
            ("fund", "ann", 35, "pen", 5),
            ("order", "o1", "ann", {"pen": 2, "ink": 1}),
            ("order", "o2", "ann", {"pen": 2}),
            ("order", "o3", "ann", {"ink": 2}),
            ("take", "pen", 9),
            ("fund", "bob", 100, "ink", 1),
            ("order", "o4", "bob", {"pen": 2, "ink": 1}),
        ],
    ),
]
