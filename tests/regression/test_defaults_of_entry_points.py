"""Entry points with defaults and keyword-only parameters, enums and UUIDs as columns, and replies that are yielded."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

import pytest

from millpond import Map, Partitioned, Program, entry
from millpond.errors import FeedError
from millpond.testing import LeftOut, assert_equals_plain, simulate


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Note:
    text: str = "none"
    tags: list[str] = field(default_factory=list)


class Shop(Program):
    sold = Partitioned(Map[str, int])
    notes = Partitioned(Map[str, Note])

    @entry
    def sell(
        self,
        item: str,
        pieces: int = 1,
        *,
        tags: list[str] = [],  # noqa: B006
        size: Size = Size.SMALL,
        note: Note = Note(),  # noqa: B008
    ) -> list[str]:
        self.sold[item] = self.sold.get(item, 0) + pieces
        tags.append(size.value)
        note.tags.append(item)
        self.notes[item] = note
        return tags

    @entry
    def by_default(self, cents: int, item: str = "pen") -> int:
        self.sold[item] = self.sold.get(item, 0) + cents
        return self.sold[item]

    @entry
    def maybe(self, item: str, pieces: int | None = None) -> int:
        return -1 if pieces is None else pieces + self.sold.get(item, 0)


ROWS = [
    ("sell", "pen"),
    ("sell", "pen", None, None, None, None),
    ("sell", "cup", 3, ["x"], Size.LARGE, Note("own", [])),
    ("by_default", 5),
    ("by_default", 5, "cup"),
    ("by_default", 5, None),
    ("maybe", "pen"),
    ("maybe", "pen", 2),
]


@pytest.mark.parametrize("epochs", [1, 3, 8])
@pytest.mark.parametrize("partitions", [1, 4])
def test_defaults_are_those_of_plain_python_and_each_row_has_its_own(epochs, partitions):
    run = simulate(Shop, ROWS, epochs=epochs, partitions=partitions)
    assert run.replies == [["s"], ["s"], ["x", "l"], 7, 8, 12, -1, 14]
    assert_equals_plain(run)


class Typed(Program):
    seen = Partitioned(Map[Size, int])
    logins = Partitioned(Map[uuid.UUID, Size])

    @entry
    def see(self, size: Size) -> int:
        self.seen[size] = self.seen.get(size, 0) + 1
        return self.seen[size]

    @entry
    def login(self, who: uuid.UUID, size: Size | None) -> Size:
        if size is not None:
            self.logins[who] = size
        return self.logins.get(who, Size.SMALL)


def test_enums_and_uuids_are_columns_keys_and_replies():
    who = uuid.UUID(int=5)
    rows = [("see", Size.LARGE), ("see", Size.LARGE), ("login", who, Size.LARGE), ("login", who, None)]
    for epochs in (1, 4):
        run = simulate(Typed, rows, epochs=epochs, partitions=3)
        assert run.replies == [1, 2, Size.LARGE, Size.LARGE]
        assert_equals_plain(run)


class Wrong(Program):
    a = Partitioned(Map[str, int])

    @entry
    def go(self, k: str, n: int = "one") -> int:  # type: ignore[assignment]
        return n


def test_a_default_of_another_type_is_told():
    with pytest.raises(FeedError) as refused:
        simulate(Wrong, [("go", "k", None)])
    assert refused.value.code in ("MP504", "MP532")


class Words(Program):
    counts = Partitioned(Map[str, int])

    @entry
    def add(self, line: str) -> Iterator[int]:
        if not line:
            return
        for word in line.split():
            if word == "!":
                raise ValueError("no word")
            self.counts[word] = self.counts.get(word, 0) + 1
            yield self.counts[word]
        yield from [0, 0]


def test_what_an_entry_point_yields_are_its_replies_and_it_runs_at_the_call():
    plain = Words()
    assert plain.add("a b a") == [1, 1, 2, 0, 0]
    assert plain.counts == {"a": 2, "b": 1}
    run = simulate(Words, [("add", "a b a"), ("add", ""), ("add", "b !"), ("add", "b")], on_bad_row="skip", epochs=2)
    assert run.replies[:2] == [[1, 1, 2, 0, 0], []]
    assert isinstance(run.replies[2], LeftOut)
    assert run.replies[3] == [2, 0, 0]
    assert run.state["counts"] == {"a": 2, "b": 2}


class Walked(Program):
    prices = Partitioned(Map[Decimal, int])
    sizes = Partitioned(Map[Size, int])

    @entry
    def see(self, price: Decimal, size: Size) -> list[str]:
        self.prices[price] = self.prices.get(price, 0) + 1
        self.sizes[size] = self.sizes.get(size, 0) + 1
        return [*map(str, self.prices), *(one.value for one in self.sizes)]


@pytest.mark.parametrize("epochs", [1, 3])
def test_walks_in_sequence_give_keys_in_the_order_and_the_form_of_what_is_stored(epochs):
    rows = [("see", Decimal("1.50"), Size.SMALL), ("see", Decimal("0.5"), Size.LARGE), ("see", Decimal(10), Size.SMALL)]
    run = simulate(Walked, rows, epochs=epochs, partitions=2)
    assert run.replies == [["1.5", "s"], ["0.5", "1.5", "l", "s"], ["0.5", "1.5", "10", "l", "s"]]
    assert_equals_plain(run)
