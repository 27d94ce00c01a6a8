"""Programs whose state time changes, and what plain Python and simulated runs make of them."""

from __future__ import annotations

from datetime import datetime, timedelta

from millpond import Counter, Map, Partitioned, Program, Set, Value, Vector, entry, on_timer
from millpond.checkpoint.records.times import is_over
from millpond.checkpoint.recovery import last_manifest, read_genesis, read_state
from millpond.errors import Aborted
from millpond.program.semantics.epoch_time import epoch_time
from millpond.program.timers import fire_timers
from millpond.state.expiry import Expiring
from millpond.state.local.storekey import element_of, unit_of
from tests.sizes import compile_once

START = 1_700_000_000_000_000
SECOND = 1_000_000


class Aged(Program):
    """Every kind of element that may expire."""

    numbers = Partitioned(Map[str, int], ttl=timedelta(seconds=10))
    lists = Partitioned(Map[str, list[int]], ttl=timedelta(seconds=6))
    hits = Partitioned(Counter[str], ttl=timedelta(seconds=8), refresh="access")
    weights = Partitioned(Vector[int], ttl=timedelta(seconds=5))
    members = Partitioned(Set[str], ttl=timedelta(seconds=7), refresh="access")
    last = Partitioned(Value[str], ttl=timedelta(seconds=4))
    kept = Partitioned(Counter[str])

    @entry
    def put(self, key: str, n: int) -> int | None:
        before = self.numbers.get(key)
        self.numbers[key] = n
        self.kept[key] += 1
        return before

    @entry
    def append(self, key: str, n: int) -> int:
        self.lists.setdefault(key, []).append(n)
        return len(self.lists[key])

    @entry
    def pop(self, key: str) -> int:
        found = self.lists.get(key)
        return found.pop() if found else -1

    @entry
    def look(self, key: str) -> list[int]:
        found = self.lists.get(key)
        return [] if found is None else list(found)

    @entry
    def hit(self, key: str, n: int) -> int:
        if n:
            self.hits[key] += n
        return self.hits[key]

    @entry
    def drop(self, key: str) -> int:
        there = int(key in self.numbers) + 2 * int(key in self.hits)
        if key in self.numbers:
            del self.numbers[key]
        return there + 4 * self.hits.pop(key, 0)

    @entry
    def weigh(self, n: int) -> float:
        self.weights[n] += 0.5
        return self.weights[n]

    @entry
    def join(self, key: str) -> bool:
        known = key in self.members
        self.members.add(key)
        return known

    @entry
    def ask(self, key: str) -> bool:
        return key in self.members

    @entry
    def leave(self, key: str) -> None:
        self.members.discard(key)

    @entry
    def say(self, key: str) -> str:
        before = self.last.get("")
        self.last.set(key)
        return before

    @entry
    def hear(self) -> str:
        return self.last.get("nobody")


class Moves(Program):
    """Methods over two keys, all or nothing, whose entries expire."""

    stock = Partitioned(Map[str, int], ttl=timedelta(seconds=9))
    logs = Partitioned(Map[str, list[int]], ttl=timedelta(seconds=5), refresh="access")
    total = Partitioned(Value[int], ttl=timedelta(seconds=12))

    @entry
    def fill(self, key: str, n: int) -> int:
        self.stock[key] = self.stock.get(key, 0) + n
        return self.stock[key]

    @entry
    def move(self, source: str, target: str, n: int) -> int:
        self.logs.setdefault(target, []).append(n)
        self.total.set(self.total.get(0) + n)
        self.stock[source] = self.stock.get(source, 0) - n
        self.stock[target] = self.stock.get(target, 0) + n
        if self.stock[source] < 0:
            self.abort("not enough")
        return len(self.logs[target])


class Alarms(Program):
    """Timers that are set, moved, cancelled and set again by their own handlers."""

    counts = Partitioned(Counter[str])
    fresh = Partitioned(Map[str, int], ttl=timedelta(seconds=6))
    rung = Partitioned(Counter[int])

    @entry
    def touch(self, key: str, wait: int) -> int:
        self.counts[key] += 1
        self.fresh[key] = wait
        self.idle.set(key, self.now + timedelta(seconds=wait))
        return self.counts[key]

    @entry
    def stop(self, key: str) -> bool:
        there = key in self.idle
        self.idle.cancel(key)
        return there

    @entry
    def repeat(self, key: str, n: int) -> int | None:
        before = self.again.at((n, key))
        self.again.set((n, key), self.now + timedelta(seconds=n))
        return None if before is None else int(before.timestamp())

    @on_timer
    def idle(self, key: str, at: datetime) -> str:
        """Counts are over, unless the entry was fresh: then it waits once more."""
        if key in self.fresh:
            self.fresh.pop(key)
            self.idle.set(key, at)
            return f"{key} waits"
        count = self.counts.pop(key, 0)
        self.rung[count] += 1
        return f"{key} {count}"

    @on_timer
    def again(self, pair: tuple[int, str], at: datetime) -> int:
        if pair[0] < 3:
            self.again.set(pair, at + timedelta(seconds=2 + pair[0]))
        return pair[0]


class Pledges(Program):
    """Rows over several keys set timers, whose handler touches several keys too."""

    stock = Partitioned(Map[str, int])

    @entry
    def fill(self, key: str, n: int) -> int:
        self.stock[key] = self.stock.get(key, 0) + n
        self.grow.set(key, self.now + timedelta(seconds=n))
        return self.stock[key]

    @entry
    def give(self, source: str, target: str) -> int:
        self.grow.set(target, self.now)
        self.stock[source] = self.stock.get(source, 0) - 1
        self.stock[target] = self.stock.get(target, 0) + 1
        if self.stock[source] < 0:
            self.abort("nothing to give")
        return self.stock[target]

    @on_timer
    def grow(self, key: str, at: datetime) -> int:
        self.stock[key] = self.stock.get(key, 0) + 10
        self.stock[key + "!"] = self.stock.get(key + "!", 0) + at.second
        return self.stock[key]


class Walks(Program):
    """A relaxed entry point sets timers wherever it comes."""

    way = Partitioned(Map[str, str])
    visits = Partitioned(Counter[str], ttl=timedelta(seconds=9))

    @entry(relaxed=True)
    def walk(self, key: str, steps: int) -> int:
        at = key
        for step in range(steps):
            at = self.way.get(at, at + "-")
            self.visits[at] += 1
            self.ring.set(at, self.now + timedelta(seconds=step))
        return steps

    @on_timer
    def ring(self, key: str, at: datetime) -> int:
        return self.visits[key]


class Plain:
    """A plain run by epochs: rows at one moment, then the timers that are due."""

    def __init__(self, program):
        self.program = program()
        self.replies, self.fired, self.now = [], [], START

    def epoch(self, now, rows):
        self.now = now
        with epoch_time(now):
            for name, arguments in rows:
                self.replies.append(self._call(name, arguments))
            self.fire()

    def fire(self):
        fired = fire_timers(self.program)
        self.fired += [(one.handler, one.reply) for one in fired]
        return fired

    def _call(self, name, arguments):
        try:
            return getattr(self.program, name)(*arguments)
        except Aborted as aborted:
            return aborted.reason

    def state(self):
        """By element, what is there at the time of the last epoch: with stamps where entries expire."""
        state = {}
        with epoch_time(self.now):
            for name in type(self.program).elements():
                container = vars(self.program)[name]
                entries = container if isinstance(container, dict) else container._entries
                if isinstance(entries, Expiring):
                    entries.settle()
                    stamps = entries.ages.stamps
                    found = {key: (stamps[key], dict.__getitem__(entries, key)) for key in entries.live(self.now)}
                else:
                    found = dict(dict.items(entries))
                state[name] = found
        return state


def live_state(storage) -> dict[bytes, bytes]:
    """The committed entries whose time is not over."""
    genesis = read_genesis(storage)
    head = last_manifest(storage, genesis[1])
    over = {} if head is None else head[0].times.over_us
    return {key: value for key, value in read_state(storage).items() if not is_over(key, value, over)}


def committed_state(program, storage):
    """`live_state` by element, decoded; what orders timers is checked, and left out."""
    elements = compile_once(program).elements
    held = live_state(storage)
    state = {}
    for index, (name, element) in enumerate(elements.items()):
        own = {key: value for key, value in held.items() if element_of(key) == index}
        decode = element.type.keys.decode
        state[name] = {decode(unit_of(key)): element.type.values.decode(value) for key, value in own.items()}
    for name in [name for name in state if name.endswith(".due")]:
        moment = elements[name[:-4]].type.moment
        moments = ((moment(value), key) for key, value in state[name[:-4]].items())
        ordered = {(at, *key) if isinstance(key, tuple) else (at, key) for at, key in moments if at is not None}
        assert set(state.pop(name)) == ordered
    return state


def replies_of(simulated):
    """Replies of rows in their order; of rows that were refused, the reason."""
    told = {**simulated.replies(), **simulated.refusals()}
    return [told.get(number) for number in range(simulated.fed)]


def fired_by(simulated, handlers):
    """What handlers replied, each in the order of firing; files come by partition."""
    held = {name: simulated.sinks[name]._epochs for name in handlers}
    return {
        name: [row["reply"] for epoch in sorted(epochs) for row in sorted(epochs[epoch], key=lambda row: row["row"])]
        for name, epochs in held.items()
    }
