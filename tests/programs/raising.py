"""Programs whose rows raise after they have touched state of every kind, and rows for them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
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
from millpond.windowing import ClosedWindow, count, sum_of, tumbling

SECOND = 1_000_000


@dataclass
class Box:
    """A value that is changed in place, two levels down."""

    items: list[int] = field(default_factory=list)
    by_name: dict[str, list[int]] = field(default_factory=dict)


class Kinds(Program):
    """Elements of every kind in one step each; all rows with a negative number raise when all is done."""

    lists = Partitioned(Map[int, list[int]])
    boxes = Partitioned(Map[int, Box])
    counts = Partitioned(Counter[int])
    members = Partitioned(Set[int])
    weights = Partitioned(Vector[int])
    cells = Partitioned(Matrix[int, int, int], by="row")
    last = Partitioned(Value[list[int]])
    log = Partitioned(List[int])

    @entry
    def append(self, key: int, n: int) -> list[int]:
        items = self.lists.setdefault(key, [])
        items.append(n)
        if len(items) > 5:
            del self.lists[key]
        if n < 0:
            raise ValueError(f"not {n}")
        return list(items)

    @entry
    def put(self, key: int, n: int) -> int:
        box = self.boxes.get(key) or Box()
        box.items.append(n)
        box.by_name.setdefault(str(n % 2), []).append(n)
        self.boxes[key] = box
        if n < 0:
            raise ValueError(f"not {n}")
        return len(box.items) + len(box.by_name["0" if n % 2 == 0 else "1"])

    @entry
    def count(self, key: int, n: int) -> int:
        self.counts[key] += 1
        if self.counts[key] > 4:
            self.counts.pop(key)
        if n < 0:
            raise KeyError(key)
        return self.counts[key]

    @entry
    def join(self, key: int, n: int) -> bool:
        was = key in self.members
        if was:
            self.members.discard(key)
        else:
            self.members.add(key)
        if n < 0:
            raise ZeroDivisionError(n)
        return was

    @entry
    def weigh(self, key: int, n: int) -> float:
        self.weights[key] += 0.5
        if n < 0:
            raise ValueError(f"not {n}")
        return self.weights[key]

    @entry
    def mark(self, key: int, n: int) -> int:
        self.cells[key, n % 3] += 1
        if self.cells[key, n % 3] > 2:
            del self.cells[key, n % 3]
        if n < 0:
            raise ValueError(f"not {n}")
        return self.cells[key, n % 3]

    @entry
    def keep(self, key: int, n: int) -> list[int]:
        held = self.last.get([])
        held = [*held, key][-4:]
        self.last.set(held)
        held.append(n)
        if n < 0:
            raise ValueError(f"not {n}")
        return list(held)

    @entry
    def write(self, key: int, n: int) -> int:
        self.log.append(key)
        if len(self.log) > 6:
            self.log.clear()
        elif len(self.log) > 2:
            self.log[0] = n
        if n < 0:
            raise ValueError(f"not {n}")
        return len(self.log)


def add(counts: list[int]) -> int:
    return sum(counts)


class Copies(Program):
    """Partial state: rows raise where they write, at one of the instances, and where answers are put together."""

    words = Partial(Counter[str])
    notes = Partial(Map[str, list[int]])

    @entry
    def say(self, key: int, n: int) -> None:
        word = str(key % 3)
        self.words[word] += 1
        self.notes.setdefault(word, []).append(n)
        if len(self.notes[word]) > 3:
            self.notes.pop(word)
        if key % 4 == 3:
            self.notes.clear()
        if n < 0:
            raise ValueError(f"not {n}")

    @entry
    def total(self, key: int, n: int) -> int:
        found = merged(each(self.words).get(str(key % 3), 0), add)
        if n < 0:
            raise ValueError(f"not {n}")
        return found

    @entry
    def kept(self, key: int, n: int) -> int:
        limit = 1 // (n + abs(n) + 1) if n >= 0 else n // 0
        return limit + merged(each(self.words).get(str(key % 3), 0), add)


class Moves(Program):
    """Rows go from key to key, and raise before, between and after: because of what they carry, or what they find."""

    lists = Partitioned(Map[int, list[int]])
    seen = Partitioned(Map[int, list[int]])
    done = Partitioned(Counter[int])

    @entry
    def go(self, key: int, n: int) -> int:
        items = self.lists.setdefault(key, [])
        items.append(n)
        size = len(items)
        if n == -1 or size == 7:
            raise ValueError("at first")
        other = (key + n) % 5
        self.seen.setdefault(other, []).append(size)
        if n == -2 or len(self.seen[other]) % 6 == 5:
            raise KeyError("then")
        place = size % 3
        self.done[place] += 1
        if n == -3 or self.done[place] % 9 == 8:
            raise ZeroDivisionError("at last")
        return self.done[place]

    @entry
    def look(self, key: int, n: int) -> int:
        found = len(self.seen.get(key, []))
        if n < 0 and found % 2:
            raise ValueError(f"{found} are odd")
        return found


class Loops(Program):
    """Turns of a loop go to all their keys at once, some twice to one key; any of them may raise."""

    total = Partitioned(Counter[int])
    stock = Partitioned(Map[int, list[int]])

    @entry
    def order(self, key: int, n: int, items: list[int]) -> int:
        self.total[key] += 1
        number = self.total[key]
        for item in items:
            held = self.stock.setdefault(item, [])
            held.append(number)
            if len(held) % 7 == 6 or n == item - 9:
                raise ValueError(f"no {item} for {number}")
        return number


class Pairs(Program):
    """Gathered: two keys at once, a log of all, refusals, and rows that raise."""

    held = Partitioned(Map[int, list[int]])
    count = Partitioned(Counter[int])
    log = Partitioned(List[int])

    @entry
    def move(self, key: int, n: int) -> int:
        other = (key * 7 + n) % 6
        self.held.setdefault(key, []).append(n)
        mine = self.held.setdefault(other, [])
        if mine and n % 3 == 0:
            mine.pop()
        self.count[other] += 1
        if n < 0:
            raise ValueError(f"not {n}")
        if len(mine) > 4:
            self.abort("full")
        self.held[other] = [*mine, len(self.held[key])]
        return len(mine)

    @entry
    def note(self, key: int, n: int) -> int:
        self.log.append(key)
        self.count[key] += 1
        if n < 0 or len(self.log) % 5 == 4:
            raise ValueError(f"not {n}")
        return len(self.log)


class Timed(Program):
    """State that time changes: entries that expire, timers, windows."""

    lists = Partitioned(Map[int, list[int]], ttl=timedelta(seconds=6))
    hits = Partitioned(Counter[int], ttl=timedelta(seconds=4), refresh="access")
    last = Partitioned(Value[int], ttl=timedelta(seconds=5))
    rang = Partitioned(Counter[int])

    @entry
    def append(self, key: int, n: int) -> int:
        self.lists.setdefault(key, []).append(n)
        if n < 0:
            raise ValueError(f"not {n}")
        return len(self.lists[key])

    @entry
    def hit(self, key: int, n: int) -> int:
        if n % 2:
            self.hits[key] += 1
        found = self.hits[key]
        if n < 0:
            raise ValueError(f"not {n}")
        return found

    @entry
    def keep(self, key: int, n: int) -> int:
        before = self.last.get(-1)
        self.last.set(key)
        if n < 0:
            raise ValueError(f"not {n}")
        return before

    @entry
    def arm(self, key: int, n: int) -> bool:
        there = key in self.ring
        if n % 3:
            self.ring.set(key, self.now + timedelta(seconds=abs(n) % 5 + 1))
        else:
            self.ring.cancel(key)
        if n < 0:
            raise ValueError(f"not {n}")
        return there

    @on_timer
    def ring(self, key: int, at: datetime) -> int:
        self.rang[key] += 1
        return at.second

    @entry
    def measure(self, key: int, n: int) -> float:
        self.minutes.add(key, n)
        drawn = self.random.random()
        if n < 0:
            raise ValueError(f"not {n}")
        return drawn

    @on_window(tumbling(timedelta(seconds=4)), total=sum_of(), many=count())
    def minutes(self, key: int, closed: list[ClosedWindow]) -> str:
        return repr([(one.begin.second, *one.values.values()) for one in closed])


class Hops(Program):
    """Raises after a move because of what a row carries, and for no other reason."""

    first = Partitioned(Map[int, list[int]])
    second = Partitioned(Counter[int])

    @entry
    def go(self, key: int, n: int) -> int:
        items = self.first.setdefault(key, [])
        items.append(n)
        other = len(items)
        self.second[other] += 1
        if n < 0:
            raise ValueError(f"not {n}")
        return self.second[other]


class Chain(Program):
    """Whether a row raises at its second key depends on all rows before it that have raised or not."""

    first = Partitioned(Map[int, list[int]])
    second = Partitioned(Counter[int])

    @entry
    def go(self, key: int, other: int) -> int:
        items = self.first.setdefault(key, [])
        items.append(other)
        size = len(items)
        self.second[other] += size
        if (size + self.second[other]) % 3 == 0:
            raise ValueError(f"{size} and {self.second[other]}")
        return self.second[other]


class Thing:
    """Something whose text is never the same."""


class Vague(Program):
    """Raises after a move, and what it says depends on where an object lies."""

    first = Partitioned(Counter[int])
    second = Partitioned(Counter[int])

    @entry
    def go(self, key: int) -> int:
        self.first[key] += 1
        other = key + self.first[key]
        self.second[other] += 1
        if key == 1:
            raise ValueError(f"{Thing()}")
        return self.second[other]


PROGRAMS = {one.__name__: one for one in (Kinds, Copies, Moves, Loops, Pairs, Timed)}

HANDLERS = frozenset({"ring", "minutes"})


def rows_of(program, seed, count_of, share):
    """Rows of all entry points, mixed; about a share of them has a negative number, and mostly raises."""
    dice = random.Random(f"{program.__name__} {seed}")
    names = sorted(name for name in program.entries() if name not in HANDLERS)
    rows = []
    for _ in range(count_of):
        name = dice.choice(names)
        n = -dice.randrange(1, 4) if dice.random() < share else dice.randrange(7)
        arguments = (dice.randrange(5), n)
        if name == "order":
            arguments = (*arguments, [dice.randrange(6) for _ in range(dice.randrange(5))])
        rows.append((name, arguments))
    return rows
