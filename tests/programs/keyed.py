"""Programs of the runtime tests, rows for them, and what plain Python makes of the rows. Needs no Spark."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from millpond import Counter, Map, Matrix, Partial, Partitioned, Program, Vector, each, entry, merged
from millpond.checkpoint.recovery import read_state
from millpond.engine.arrowtypes import to_arrow
from millpond.engine.sequential import Sequential
from millpond.storage.backends.files import FileStorage
from tests.chance import seed_of
from tests.sizes import compile_once

Row = tuple[str, tuple[Any, ...]]


def add_vectors(vectors: list[Vector[int]]) -> Vector[int]:
    total: Vector[int] = Vector()
    for vector in vectors:
        total = total.add(vector)
    return total


class Totals(Program):
    """One element, one step; every reply tells what went before it."""

    totals = Partitioned(Map[int, tuple[int, float]])

    @entry
    def add(self, key: int, amount: float) -> tuple[int, float]:
        count, total = self.totals.get(key, (0, 0.0))
        self.totals[key] = (count + 1, total + amount)
        return count + 1, total + amount


class Store(Program):
    """Several entry points on one element; order shows in every reply, and deletions leave tombstones."""

    data = Partitioned(Map[str, str])

    @entry
    def put(self, key: str, value: str) -> None:
        self.data[key] = value

    @entry
    def get(self, key: str) -> str | None:
        return self.data.get(key)

    @entry
    def delete(self, key: str) -> bool:
        if key in self.data:
            del self.data[key]
            return True
        return False


class Words(Program):
    """Partial state, merged on read; a read goes to all instances."""

    counts = Partial(Counter[str])

    @entry
    def add(self, line: str) -> None:
        for word in line.split():
            self.counts[word] += 1

    @entry
    def count(self, word: str) -> int:
        return merged(each(self.counts).get(word, 0), sum)


class Recommender(Program):
    """Partitioned and partial state, three steps."""

    ratings = Partitioned(Matrix[int, int, float], by="row")
    together = Partial(Matrix[int, int, int], by="column")

    @entry
    def rate(self, user: int, item: int, rating: float) -> None:
        self.ratings[user, item] = rating
        for other in self.ratings.row(user):
            self.together[item, other] += 1
            self.together[other, item] += 1

    @entry
    def recommend(self, user: int) -> dict[int, float]:
        row = self.ratings.row(user)
        scores = each(self.together).multiply(row)
        return merged(scores, add_vectors)


class Fraud(Program):
    """Rules per account that are sensitive to the order of payments, with a limit on amounts."""

    last = Partitioned(Map[str, tuple[int, float]])
    alarms = Partitioned(Counter[str])

    @entry
    def pay(self, account: str, when: int, amount: Annotated[float, msgspec.Meta(ge=0, lt=1000)]) -> str | None:
        before = self.last.get(account)
        self.last[account] = (when, amount)
        if before is None or when - before[0] > 10 or amount <= 2 * before[1]:
            return None
        self.alarms[account] += 1
        return f"{self.alarms[account]}: {amount} right after {before[1]}"

    @entry
    def alarms_of(self, account: str) -> int:
        return self.alarms[account]


class Mixed(Program):
    """Rows over several keys, and partial state that is merged on read."""

    accounts = Partitioned(Map[int, int])
    hits = Partial(Counter[str])

    @entry
    def move(self, source: int, target: int, amount: int) -> int:
        self.accounts[source] = self.accounts.get(source, 100) - amount
        self.accounts[target] = self.accounts.get(target, 100) + amount
        return self.accounts[source]

    @entry
    def hit(self, page: str) -> int:
        self.hits[page] += 1
        return len(page)

    @entry
    def ask(self, page: str) -> int:
        return merged(each(self.hits).get(page, 0), sum)


PROGRAMS: tuple[type[Program], ...] = (Totals, Store, Words, Recommender, Fraud)


def random_row(program: type[Program], rng: random.Random, number: int) -> Row:
    """One row; keys are few, so that rows meet."""
    if program is Totals:
        return "add", (rng.randrange(-3, 9), float(rng.randrange(50)))
    if program is Store:
        key = rng.choice(("", "a", "b", "ä", "key", "日本", "z" * 600))
        put: Row = ("put", (key, str(number)))
        return rng.choice((put, put, ("get", (key,)), ("delete", (key,))))
    if program is Words:
        line = " ".join(rng.choice("abcdé") for _ in range(rng.randrange(5)))
        return rng.choice((("add", (line,)), ("add", (line,)), ("count", (rng.choice("abcdéx"),))))
    if program is Recommender:
        rate: Row = ("rate", (rng.randrange(6), rng.randrange(7), rng.randrange(1, 11) / 2))
        return rng.choice((rate, rate, ("recommend", (rng.randrange(7),))))
    if program is Mixed:
        page = f"page {rng.randrange(30)} " + "x" * 3000
        move: Row = ("move", (rng.randrange(40), rng.randrange(40), rng.randrange(9)))
        return rng.choice((move, move, ("hit", (page,)), ("ask", (page,))))
    account = f"acc-{rng.randrange(4)}"
    pay: Row = ("pay", (account, number * 4, float(rng.randrange(1, 900))))
    return rng.choice((pay, pay, pay, ("alarms_of", (account,))))


def fresh_seed() -> int:
    """A seed of the running test's own, shown when the test fails; only campaigns draw another one."""
    seed = seed_of(os.environ["PYTEST_CURRENT_TEST"])
    say("seed", seed)
    return seed


def say(*words: object) -> None:
    """Tell what pytest shows when the test fails."""
    print(*words)  # noqa: T201


def random_rows(program: type[Program], seed: int, count: int) -> list[Row]:
    rng = random.Random(seed)
    return [random_row(program, rng, number) for number in range(count)]


@dataclass(frozen=True, slots=True)
class Oracle:
    """What plain Python says: the reply of each row that gives one, as a sink shows it, and the bytes of the state."""

    replies: dict[int, Any]
    state: dict[bytes, bytes]


def oracle(program: type[Program], rows: list[Row]) -> Oracle:
    """Run rows as plain Python; replies come from the plain class, bytes of state from the sequential runtime."""
    plain = program()
    said = [getattr(plain, name)(*arguments) for name, arguments in rows]
    sequential = Sequential(compile_once(program))
    assert [sequential.call(name, *arguments) for name, arguments in rows] == said
    replies = {
        number: shown(said[number], compile_once(program).entries[name].point.returns)
        for number, (name, _) in enumerate(rows)
        if compile_once(program).entries[name].point.replies
    }
    return Oracle(replies, sequential.state())


def shown(value: Any, hint: Any) -> Any:
    """A reply as the rows of a sink hold it."""
    return to_arrow([value], hint).to_pylist()[0]


def committed_state(checkpoint: Any) -> dict[bytes, bytes]:
    """The state that a checkpoint holds, read from its files alone."""
    return read_state(FileStorage(checkpoint))
