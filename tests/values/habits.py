"""Programs put together of habits: each a small part of a class as people write it, with rows that call it.

Every habit has elements and entry points of its own. A program has a few of them, so that entry points of all ways to
run stand in one class, and its rows are mixed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

Row = tuple[Any, ...]

HEAD = """
from __future__ import annotations

import abc
import contextlib
import datetime as dt
import enum
import functools
import heapq
from collections import Counter as Tally
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Generic, Literal, NamedTuple, Optional, TypeVar
from uuid import UUID

from millpond import Aborted, Counter, List, Map, Partial, Partitioned, Program, Set, Value, each, entry, merged

ZERO = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"

    @property
    def other(self) -> Colour:
        return Colour.BLUE if self is Colour.RED else Colour.RED


class Spot(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True)
class Card:
    number: str
    country: str = "de"


@dataclass(frozen=True)
class Payment:
    card: Card
    cents: int


@dataclass
class Box(Generic[T]):
    items: list[T] = field(default_factory=list)


@dataclass
class Job:
    name: str
    colour: Colour = Colour.RED
    tries: int = 0


class Plain:
    hits: int
    names: list[str]

    def __init__(self, hits: int = 0) -> None:
        self.hits = hits
        self.names = []


class Short(Exception):
    pass


@functools.lru_cache(maxsize=None)
def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def words(text: str) -> Iterator[str]:
    for word in text.split():
        yield word.strip(",.").lower()
"""


class Habit(NamedTuple):
    """What people do: its elements, its methods, and the rows that call them."""

    name: str
    state: str
    methods: str
    rows: Callable[[random.Random], Row]
    bases: str = ""


def _key(dice: random.Random) -> str:
    return dice.choice(("a", "b", "c"))


def _number(dice: random.Random) -> int:
    return dice.randint(0, 6)


def _taken(dice: random.Random) -> Row:
    if dice.random() < 0.5:
        return "take", _key(dice), _number(dice)
    return "move", _key(dice), _key(dice), _number(dice)


HABITS = (
    Habit(
        "default",
        "d = Partitioned(Map[str, int])",
        """
@entry
def put(self, k: str, n: int = 2, *, twice: bool = False) -> int:
    self.d[k] = self.d.get(k, 0) + n * (2 if twice else 1)
    return self.d[k]
""",
        lambda dice: ("put", _key(dice), *([_number(dice), True][: dice.randint(0, 2)])),
    ),
    Habit(
        "literal",
        'lit = Partitioned(Map[Literal["up", "down"], int])',
        """
@entry
def turn(self, way: Literal["up", "down"], n: int) -> int:
    match way:
        case "up":
            self.lit[way] = self.lit.get(way, 0) + n
        case "down":
            self.lit[way] = self.lit.get(way, 0) - n
    return self.lit[way]
""",
        lambda dice: ("turn", dice.choice(("up", "down")), _number(dice)),
    ),
    Habit(
        "optional key behind a guard",
        "opt = Partitioned(Map[str, int])",
        """
@entry
def maybe(self, k: Optional[str], other: str | None = None) -> int:
    if k is None:
        return -1
    self.opt[k] = self.opt.get(k, 0) + 1
    return self.opt.get(other, -2) if other else self.opt[k]
""",
        lambda dice: ("maybe", dice.choice((None, _key(dice))), dice.choice((None, "", _key(dice)))),
    ),
    Habit(
        "union in state",
        "uni = Partitioned(Map[str, int | str | None])",
        """
@entry
def either(self, k: str, n: int) -> str:
    before = self.uni.get(k)
    self.uni[k] = n if n % 3 == 0 else f"n{n}" if n % 3 == 1 else None
    return f"{type(before).__name__} {before}"
""",
        lambda dice: ("either", _key(dice), _number(dice)),
    ),
    Habit(
        "keys of many kinds",
        """
en = Partitioned(Map[Colour, int])
sp = Partitioned(Map[Spot, int])
ca = Partitioned(Map[tuple[Card, dt.datetime], int])
de = Partitioned(Map[Decimal, int])
uu = Partitioned(Map[UUID, int])
td = Partitioned(Map[dt.timedelta, int])
""",
        """
@entry
def kinds(self, k: str, n: int) -> list[int]:
    colour = Colour.RED if n % 2 else Colour.BLUE
    at = ZERO + dt.timedelta(hours=n)
    self.en[colour] = self.en.get(colour, 0) + 1
    self.sp[Spot(n, 1)] = self.sp.get(Spot(n, 1), 0) + 1
    self.ca[Card(k), at] = self.ca.get((Card(k), at), 0) + 1
    self.de[Decimal(n) / 2] = self.de.get(Decimal(n) / 2, 0) + 1
    self.uu[UUID(int=n)] = self.uu.get(UUID(int=n), 0) + 1
    self.td[at - ZERO] = self.td.get(at - ZERO, 0) + 1
    return [self.en[colour], self.sp[Spot(n, 1)], self.de[Decimal(n) / 2], self.uu[UUID(int=n)], self.td[at - ZERO]]
""",
        lambda dice: ("kinds", _key(dice), _number(dice)),
    ),
    Habit(
        "collections in state",
        """
dq = Partitioned(Map[str, deque[int]])
dd = Partitioned(Map[str, defaultdict[str, list[int]]])
od = Partitioned(Map[str, OrderedDict[str, int]])
ta = Partitioned(Map[str, Tally[str]])
bx = Partitioned(Map[str, Box[int]])
pl = Partitioned(Map[str, Plain])
""",
        """
@entry
def keep(self, k: str, n: int) -> list[int]:
    self.dq.setdefault(k, deque(maxlen=3)).append(n)
    self.dd.setdefault(k, defaultdict(list))[str(n % 2)].append(n)
    order = self.od.setdefault(k, OrderedDict())
    order[str(n)] = n
    order.move_to_end(str(n), last=n % 2 == 0)
    self.ta.setdefault(k, Tally()).update([str(n), "all"])
    self.bx.setdefault(k, Box()).items.append(n)
    plain = self.pl.setdefault(k, Plain())
    plain.hits += 1
    plain.names.append(str(n))
    return [*self.dq[k], *self.dd[k]["1"], *order.values(), self.ta[k]["all"], len(self.bx[k].items), plain.hits]
""",
        lambda dice: ("keep", _key(dice), _number(dice)),
    ),
    Habit(
        "super and an abstract base",
        "sup = Partitioned(Map[str, int])",
        """
def price(self, k: str) -> int:
    return super().price(k) + ord(k[0]) % 3

@entry
def buy(self, k: str) -> int:
    self.sup[k] = self.sup.get(k, 0) + self.price(k)
    return self.sup[k]
""",
        lambda dice: ("buy", _key(dice)),
        """
class Priced(Program):
    @abc.abstractmethod
    def price(self, k: str) -> int:
        return 5
""",
    ),
    Habit(
        "a setting",
        "sett = Partitioned(Map[str, int])",
        """
def __init__(self, limit: int = 3, table: dict[str, int] | None = None) -> None:
    super().__init__()
    self.limit = limit
    self.table = table or {"a": 2}

@entry
def limited(self, k: str) -> bool:
    self.sett[k] = self.sett.get(k, 0) + self.table.get(k, 1)
    return self.sett[k] > self.limit
""",
        lambda dice: ("limited", _key(dice)),
    ),
    Habit(
        "an entry point that calls another",
        "own = Partitioned(Map[str, int])",
        """
@entry
def take(self, k: str, n: int) -> int:
    self.own[k] = self.own.get(k, 4) - n
    if self.own[k] < 0:
        self.abort(f"{k} is short")
    return self.own[k]

@entry
def move(self, k: str, j: str, n: int) -> str:
    self.own[j] = self.own.get(j, 4) + n
    try:
        self.take(k, n)
    except Aborted as refused:
        self.own[j] -= n
        return refused.reason
    return "ok" if n < 5 else str(self.take(j, 1))
""",
        lambda dice: dice.choice(
            (("take", _key(dice), _number(dice)), ("move", _key(dice), _key(dice), _number(dice)))
        ),
    ),
    Habit(
        "yield",
        "yi = Partitioned(Counter[str])",
        """
@entry
def line(self, text: str) -> Iterator[tuple[str, int]]:
    for word in words(text):
        self.yi[word] += 1
        if self.yi[word] > 1:
            yield word, self.yi[word]
""",
        lambda dice: ("line", " ".join(_key(dice) for _ in range(dice.randint(0, 4)))),
    ),
    Habit(
        "a second name",
        "sec = Partitioned(Map[str, list[int]])",
        """
@entry
def second(self, k: str, j: str, n: int) -> int:
    m = self.sec
    mine = m.setdefault(k, [])
    mine.append(n)
    m[j] = [*m.get(j, []), *mine][-4:]
    return len(m[j])
""",
        lambda dice: ("second", _key(dice), _key(dice), _number(dice)),
    ),
    Habit(
        "several each()",
        "hits = Partial(Counter[str])",
        """
@entry
def hit(self, k: str) -> None:
    self.hits[k] += 1

@entry
def share(self, k: str, j: str) -> list[int]:
    first = merged(each(self.hits)[k], sum)
    second = merged(each(self.hits).get(j, 0), sum)
    return [first, second, merged(each(self.hits).total(), sum)]
""",
        lambda dice: dice.choice((("hit", _key(dice)), ("share", _key(dice), _key(dice)))),
    ),
    Habit(
        "a walk over all",
        "al = Partitioned(Counter[str])",
        """
@entry
def count(self, k: str, n: int) -> int:
    self.al[k] += n
    return self.al[k]

@entry
def all(self, n: int) -> list[int]:
    best = max(self.al, key=lambda k: (self.al[k], k), default="")
    top = [count for _, count in self.al.most_common(n)]
    return [len(self.al), sum(self.al.values()), *top, sum(len(k) for k, _ in self.al.items()), len(best)]
""",
        lambda dice: ("all", _number(dice)) if dice.random() < 0.2 else ("count", _key(dice), _number(dice)),
    ),
    Habit(
        "a broadcast",
        "rules = Partial(Map[str, int], on_scale_out='copy')",
        """
@entry
def rule(self, k: str, n: int) -> None:
    if n:
        each(self.rules)[k] = n
    else:
        each(self.rules).pop(k, None)

@entry
def ask(self, k: str) -> int:
    return self.rules.get(k, -1)
""",
        lambda dice: ("rule", _key(dice), _number(dice)) if dice.random() < 0.3 else ("ask", _key(dice)),
    ),
    Habit(
        "a cached function",
        "ca_ = Partitioned(Map[str, int])",
        """
@entry
def cached(self, k: str, n: int) -> int:
    self.ca_[k] = self.ca_.get(k, 0) + fib(n)
    return self.ca_[k]
""",
        lambda dice: ("cached", _key(dice), _number(dice)),
    ),
    Habit(
        "a frozen dataclass as one key",
        "spent = Partitioned(Map[Card, int])",
        """
@entry
def pay(self, p: Payment) -> int:
    self.spent[p.card] = self.spent.get(p.card, 0) + p.cents
    return self.spent[p.card]
""",
        lambda dice: ("pay", ("Payment", _key(dice), _number(dice))),
    ),
    Habit(
        "keys that follow from state",
        "heads = Partitioned(Map[str, str])\nsizes = Partitioned(Map[str, int])",
        """
def find(self, k: str) -> str:
    return k if self.heads.get(k, k) == k else self.find(self.heads[k])

@entry
def union(self, k: str, j: str) -> int:
    one, other = self.find(k), self.find(j)
    if one != other:
        self.heads[other] = one
        self.sizes[one] = self.sizes.get(one, 1) + self.sizes.pop(other, 1)
    return self.sizes.get(one, 1)
""",
        lambda dice: ("union", _key(dice) + _key(dice), _key(dice) + _key(dice)),
    ),
    Habit(
        "try and own exceptions",
        "tr = Partitioned(Map[str, int])",
        """
@entry
def risky(self, k: str, n: int) -> str:
    try:
        self.tr[k] = self.tr.get(k, 0) + n
        if self.tr[k] > 9:
            raise Short(k)
        return f"{10 // n}"
    except ZeroDivisionError:
        return "zero"
    except Short as error:
        self.tr[k] = 0
        if n == 6:
            raise ValueError("too much") from error
        return f"{error}"
    finally:
        self.tr["tries"] = self.tr.get("tries", 0) + 1
""",
        lambda dice: ("risky", _key(dice), _number(dice)),
    ),
    Habit(
        "closures, sorting and a heap",
        "he = Partitioned(Map[str, list[tuple[int, str]]])",
        """
@entry
def push(self, k: str, n: int) -> list[str]:
    heap = self.he.setdefault(k, [])
    heapq.heappush(heap, (n, f"{k}{len(heap)}"))

    def rank(item: tuple[int, str]) -> tuple[int, str]:
        return -item[0], item[1]

    if len(heap) > 3 and (least := heapq.heappop(heap)) and least[0] > n:
        return []
    return [name for _, name in sorted(heap, key=rank)]
""",
        lambda dice: ("push", _key(dice), _number(dice)),
    ),
    Habit(
        "objects with enums in a loop",
        "jobs = Partitioned(Map[str, dict[str, Job]])",
        """
@entry
def work(self, k: str, n: int) -> list[str]:
    jobs = self.jobs.setdefault(k, {})
    jobs.setdefault(str(n), Job(str(n)))
    for name in sorted(jobs):
        jobs[name].colour = jobs[name].colour.other
        jobs[name].tries += 1
    with contextlib.suppress(KeyError):
        del jobs[str(n - 3)]
    return [f"{job.name} {job.colour.value} {job.tries}" for job in jobs.values()]
""",
        lambda dice: ("work", _key(dice), _number(dice)),
    ),
)

OF_ONE: dict[str, str] = {"super and an abstract base": "Priced"}


class Written(NamedTuple):
    """A program as text, its rows, the settings that it is started with, and the habits in it."""

    text: str
    rows: tuple[Row, ...]
    settings: dict[str, Any] | None
    habits: tuple[str, ...]


def write(seed: int, number: int) -> Written:
    """Put a program together."""
    dice = random.Random(f"{seed} {number}")
    chosen = dice.sample(HABITS, dice.randint(2, 4))
    bases = [OF_ONE[one.name] for one in chosen if one.name in OF_ONE] or ["Program"]
    state = "\n".join(one.state for one in chosen)
    body = f"{state}\n{''.join(one.methods for one in chosen)}"
    indented = "\n".join(f"    {line}" if line else "" for line in body.splitlines())
    text = f"{HEAD}{''.join(one.bases for one in chosen)}\n\nclass Habits({', '.join(bases)}):\n{indented}\n"
    rows = tuple(dice.choice(chosen).rows(dice) for _ in range(dice.randint(6, 24)))
    has_settings = any(one.name == "a setting" for one in chosen)
    settings = {"limit": dice.randint(0, 9)} if has_settings and dice.random() < 0.7 else None
    return Written(text, rows, settings, tuple(one.name for one in chosen))
