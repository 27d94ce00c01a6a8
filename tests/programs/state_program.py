"""A program with every kind of state, and checkpoints of it beside the same program run as plain Python."""

from __future__ import annotations

import copy
import datetime
import random
from dataclasses import asdict, dataclass
from decimal import Decimal

from millpond import Counter, List, Map, Matrix, Partial, Partitioned, Program, Set, Value, Vector, entry
from millpond.engine.simulated import Simulated
from tests.sizes import compile_once


@dataclass
class Spot:
    name: str
    tags: list[str]


class Everything(Program):
    """One entry point for each element."""

    words = Partitioned(Map[str, int])
    spots = Partitioned(Map[tuple[str, int], Spot])
    prices = Partitioned(Map[datetime.date, Decimal | None])
    seen = Partitioned(Set[bytes])
    total = Partitioned(Value[float])
    log = Partitioned(List[str])
    ratings = Partitioned(Matrix[int, int, float], by="row")
    weights = Partitioned(Vector[bool])
    counts = Partial(Counter[str])

    @entry
    def word(self, word: str) -> None:
        self.words[word] = self.words.get(word, 0) + 1

    @entry
    def forget(self, word: str) -> None:
        self.words.pop(word, None)

    @entry
    def spot(self, name: str, number: int) -> None:
        self.spots[name, number] = Spot(name, [name] * number)

    @entry
    def price(self, day: datetime.date, amount: int) -> None:
        self.prices[day] = None if amount == 0 else Decimal(amount) / 4

    @entry
    def see(self, what: bytes) -> None:
        self.seen.add(what)

    @entry
    def unsee(self, what: bytes) -> None:
        self.seen.discard(what)

    @entry
    def pay(self, amount: float) -> None:
        self.total.set(self.total.get(0.0) + amount)

    @entry
    def note(self, line: str) -> None:
        self.log.append(line)

    @entry
    def rate(self, user: int, item: int, rating: float) -> None:
        self.ratings[user, item] = rating

    @entry
    def weigh(self, side: bool, weight: float) -> None:
        self.weights[side] += weight

    @entry
    def count(self, word: str) -> None:
        self.counts[word] += 1


ELEMENTS = ("words", "spots", "prices", "seen", "total", "log", "ratings", "weights", "counts")
WORDS = ("", "a", "b", "ä b", 'quo"te', "new\nline", "[red]x[/]")


def random_row(rng: random.Random):
    word = rng.choice(WORDS)
    rows = (
        ("word", (word,)),
        ("forget", (word,)),
        ("spot", (word, rng.randrange(3))),
        ("price", (datetime.date(2024, 2, rng.randrange(27, 30)), rng.randrange(9))),
        ("see", (word.encode(),)),
        ("unsee", (word.encode(),)),
        ("pay", (float(rng.randrange(9)),)),
        ("note", (word,)),
        ("rate", (rng.randrange(-2, 3), rng.randrange(4), rng.randrange(9) / 2)),
        ("weigh", (rng.random() < 0.5, 0.5)),
        ("count", (word,)),
    )
    return rng.choice(rows)


def table_of(plain: Everything, element: str) -> dict:
    """An element of the plain program as entries by key; records as the dicts that they show as."""
    held = getattr(plain, element)
    if element == "total":
        return {(): held.get(0.0)} if held.is_set() else {}
    if element == "seen":
        return dict.fromkeys(held)
    if element == "log":
        return dict(enumerate(held))
    if element == "spots":
        return {key: asdict(spot) for key, spot in held.items()}
    if element == "ratings":
        rows: dict = {}
        for (user, item), rating in held.items():
            rows.setdefault(user, {})[item] = rating
        return rows
    return dict(held.items())


def run(directory, epochs: int, rows: int, seed: int = 7, partitions: int = 3) -> list[dict[str, dict]]:
    """Run the program in both ways; the plain state of each element after each epoch, epoch 0 included."""
    rng = random.Random(seed)
    plain = Everything()
    simulated = Simulated(compile_once(Everything), directory, partitions=partitions)
    tables = [{element: {} for element in ELEMENTS}]
    for _ in range(epochs):
        batch = [random_row(rng) for _ in range(rows)]
        for name, arguments in batch:
            getattr(plain, name)(*arguments)
        simulated.epoch(batch)
        tables.append(copy.deepcopy({element: table_of(plain, element) for element in ELEMENTS}))
    return tables
