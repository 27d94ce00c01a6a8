"""State holds values: the ten programs of the rule, equal in plain Python and on any cut, partitions and way."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import pytest

from millpond import Counter, List, Map, Partial, Partitioned, Program, Value, entry
from millpond.cli.check import check_program
from millpond.compiler.compile import compile_program
from millpond.engine.plan import BadRows
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.errors import StateError
from tests.sizes import compile_once

Rows = list[tuple[str, tuple[Any, ...]]]

TIERS: dict[str, list[int]] = {"x": [1, 2]}


@lru_cache
def kept(name: str) -> list[int]:
    return [len(name)]


@dataclass
class Customer:
    name: str


@dataclass
class Order:
    number: int
    customer: Customer


class Line(NamedTuple):
    number: int
    customer: Customer


@dataclass
class Cart:
    items: list[int] = field(default_factory=list)

    @cached_property
    def total(self) -> int:
        return sum(self.items)

    def put(self, item: int) -> int:
        self.items.append(item)
        self.last = item
        return getattr(self, "before", 0)


class Pairs(Program):
    a = Partitioned(Map[str, list[int]])
    b = Partitioned(Map[str, list[int]])

    @entry
    def begin(self, k: str) -> list[int]:
        self.a[k] = [1]
        self.b[k] = self.a[k]
        self.b[k].append(2)
        return self.a[k]

    @entry
    def more(self, k: str) -> list[int]:
        self.a[k].append(3)
        return self.b[k]

    @entry
    def default(self, k: str, n: int) -> list[int]:
        d = [n]
        x = self.a.get(k, d)
        self.b[k] = d
        x.append(0)
        return d


class Orders(Program):
    customers = Partitioned(Map[int, Customer])
    orders = Partitioned(Map[int, Order])
    lines = Partitioned(Map[int, Line])

    @entry
    def join(self, c: int, name: str) -> None:
        self.customers[c] = Customer(name)

    @entry
    def order(self, c: int, n: int) -> str:
        self.orders[n] = Order(n, self.customers[c])
        self.lines[n] = Line(n, self.customers[c])
        self.orders[n].customer.name += "!"
        return self.lines[n].customer.name

    @entry
    def rename(self, c: int, name: str) -> None:
        self.customers[c].name = name

    @entry
    def show(self, n: int) -> str:
        return self.orders[n].customer.name + self.lines[n].customer.name

    @entry
    def replaced(self, n: int, m: int) -> str:
        self.orders[m] = replace(self.orders[n], number=m)
        return self.orders[m].customer.name


class Grids(Program):
    m = Partitioned(Map[str, list[list[int]]])
    n = Partitioned(Map[str, list[list[int]]])

    @entry
    def put(self, k: str, v: int) -> None:
        x = [v]
        self.m[k] = [x, x]

    @entry
    def add(self, k: str) -> list[list[int]]:
        self.m[k][0].append(9)
        return self.m[k]

    @entry
    def copies(self, k: str) -> list[list[int]]:
        self.n[k] = self.m[k].copy()
        self.n[k][0].append(5)
        return self.m[k]

    @entry
    def chained(self, k: str) -> list[list[int]]:
        first = next(iter(self.m[k]))
        self.n[k] = list(filter(len, itertools.chain([first], copy.copy(self.m[k]))))
        self.n[k][0].append(7)
        return self.m[k]

    @entry
    def see(self, k: str) -> list[list[int]]:
        return [*self.m[k], *self.n.get(k, [])]


class Given(Program):
    m = Partitioned(Map[str, list[int]])
    log = Partitioned(List[list[int]])
    last = Partitioned(Value[list[int]])
    seen = Partial(Map[str, list[int]])

    @entry
    def add(self, k: str, xs: list[int]) -> list[int]:
        self.m[k] = xs
        xs.append(0)
        return self.m[k]

    @entry
    def more(self, k: str) -> list[int]:
        self.m[k].append(1)
        return self.m[k]

    @entry
    def note(self, xs: list[int]) -> int:
        self.log.append(xs)
        self.last.set(xs)
        self.last.get([]).append(7)
        return len(self.log[-1])

    @entry
    def noted(self, n: int) -> list[int]:
        self.last.get([]).append(n)
        return self.log[-1]

    @entry
    def part(self, k: str, n: int) -> list[int]:
        here = self.seen.setdefault(k, [])
        here.append(n)
        self.seen[k + "'"] = here
        return self.seen[k]


class Outside(Program):
    xs = Partitioned(Map[str, list[int]])

    @entry
    def store(self, k: str) -> int:
        self.xs[k] = TIERS["x"]
        return len(self.xs[k])

    @entry
    def cached(self, k: str) -> int:
        self.xs[k] = kept(k)
        return len(self.xs[k])

    @entry
    def tier(self, k: str) -> list[int]:
        return TIERS["x"] if k else kept("ab")

    @entry
    def copied(self, k: str) -> list[int]:
        self.xs[k] = list(TIERS["x"])
        self.xs[k].append(5)
        return self.xs[k]

    @entry
    def add(self, k: str, n: int) -> list[int]:
        self.xs[k].append(n)
        return self.xs[k]


class Chained(Program):
    a = Partitioned(Map[str, list[int]])
    b = Partitioned(Map[str, list[int]])
    log = Partitioned(List[list[int]])
    last = Partitioned(Value[list[int]])

    @entry
    def both(self, k: str, n: int) -> list[int]:
        self.a[k] = self.b[k] = [n]
        self.a[k].append(0)
        return self.b[k]

    @entry
    def more(self, k: str) -> list[int]:
        self.a[k].append(9)
        return self.b[k]

    @entry
    def walk(self, n: int) -> list[int]:
        self.log.append([n])
        for one in self.log:
            self.last.set(one)
        return self.last.get([])

    @entry
    def grow(self, n: int) -> list[int]:
        self.last.get([]).append(n)
        return self.log[-1]


class Carts(Program):
    carts = Partitioned(Map[str, Cart])

    @entry
    def add(self, k: str, n: int) -> int:
        if k not in self.carts:
            self.carts[k] = Cart()
        self.carts[k].items.append(n)
        return self.carts[k].total

    @entry
    def put(self, k: str, n: int) -> int:
        cart = self.carts.setdefault(k, Cart())
        before = cart.put(n)
        return before + getattr(cart, "last", 0) + cart.total

    @entry
    def last(self, k: str) -> int:
        return getattr(self.carts[k], "last", -1)

    @entry
    def fill(self, k: str, n: int) -> None:
        self.carts.setdefault(k, Cart()).items.append(n)

    @entry
    def total(self, k: str) -> int:
        return self.carts[k].total


@dataclass
class Tagged:
    name: str
    tags: list[int]

    def replace(self, name: str) -> Tagged:
        return Tagged(name, self.tags)

    def index(self) -> list[int]:
        return self.tags


class NamedLikeText(Program):
    """Functions and methods with the names of methods of text, whose results share what they are given."""

    tagged = Partitioned(Map[int, Tagged])
    counts = Partitioned(Map[int, list[int]])

    @entry
    def module(self, k: int, j: int, given: list[int]) -> None:
        fields = {"name": "a", "tags": given}
        made = replace(Tagged(**fields), name="b")
        self.tagged[k] = made
        self.counts[j] = [1]
        given[0] += 3

    @entry
    def dotted(self, k: int, j: int, given: list[int]) -> None:
        made = dataclasses.replace(Tagged("a", given), name="b")
        self.tagged[k] = made
        self.counts[j] = [1]
        found = next(iter([given]))
        found[0] += 3

    @entry
    def method(self, k: int, j: int, given: list[int]) -> None:
        made = Tagged("a", given).replace("b")
        self.tagged[k] = made
        self.counts[j] = [1]
        given[0] += 3

    @entry
    def part(self, k: int, j: int) -> None:
        made = Tagged("a", [8])
        self.tagged[k] = made
        self.counts[j] = [1]
        tags = made.index()
        tags[0] += 3

    @entry
    def show(self, k: int) -> list[int]:
        return self.tagged[k].tags


STORIES: list[tuple[type[Program], Rows, list[Any]]] = [
    (
        NamedLikeText,
        [
            *(("module", (0, 1, [8])), ("dotted", (1, 2, [8])), ("method", (2, 3, [8])), ("part", (3, 4))),
            *(("show", (k,)) for k in range(4)),
        ],
        [None, None, None, None, [11], [11], [11], [11]],
    ),
    (Pairs, [("begin", ("k",)), ("more", ("k",)), ("more", ("k",))], [[1, 2], [1, 2], [1, 2]]),
    (
        Pairs,
        [("default", ("k", 4)), ("more", ("k",)), ("begin", ("j",)), ("default", ("j", 5)), ("more", ("j",))],
        [[4, 0], KeyError, [1, 2], [5], [5]],
    ),
    (
        Orders,
        [
            ("join", (1, "ann")),
            ("order", (1, 7)),
            ("rename", (1, "bea")),
            ("show", (7,)),
            ("replaced", (7, 8)),
            ("order", (1, 9)),
            ("show", (9,)),
            ("show", (7,)),
        ],
        [None, "ann!", None, "ann!ann!", "ann!", "bea!", "bea!bea!", "ann!ann!"],
    ),
    (
        Grids,
        [
            ("put", ("k", 5)),
            ("add", ("k",)),
            ("copies", ("k",)),
            ("add", ("k",)),
            ("see", ("k",)),
            ("chained", ("k",)),
            ("see", ("k",)),
        ],
        [
            None,
            [[5, 9], [5]],
            [[5, 9, 5], [5]],
            [[5, 9, 5, 9], [5]],
            [[5, 9, 5, 9], [5], [5, 9, 5], [5]],
            [[5, 9, 5, 9, 7], [5]],
            [[5, 9, 5, 9, 7], [5], [5, 9, 5, 9, 7], [5, 9, 5, 9, 7], [5]],
        ],
    ),
    (
        Given,
        [("add", ("k", [3])), ("more", ("k",)), ("add", ("j", [4])), ("more", ("k",)), ("more", ("j",))],
        [[3, 0], [3, 0, 1], [4, 0], [3, 0, 1, 1], [4, 0, 1]],
    ),
    (Given, [("note", ([1],)), ("noted", (5,)), ("note", ([2],)), ("noted", (6,))], [2, [1, 7], 2, [2, 7]]),
    (
        Outside,
        [
            ("store", ("k",)),
            ("add", ("k", 3)),
            ("store", ("j",)),
            ("add", ("k", 4)),
            ("copied", ("i",)),
            ("cached", ("ab",)),
            ("add", ("ab", 1)),
            ("cached", ("ab",)),
            ("add", ("ab", 2)),
        ],
        [2, [1, 2, 3], 2, [1, 2, 3, 4], [1, 2, 5], 1, [2, 1], 1, [2, 2]],
    ),
    (
        Chained,
        [("both", ("k", 1)), ("more", ("k",)), ("more", ("k",)), ("walk", (1,)), ("grow", (2,)), ("grow", (3,))],
        [[1, 0], [1, 0], [1, 0], [1], [1], [1]],
    ),
    (
        Carts,
        [("add", ("k", 1)), ("add", ("k", 2)), ("add", ("k", 3)), ("put", ("k", 4)), ("last", ("k",))],
        [1, 3, 6, 14, -1],
    ),
    (
        Carts,
        [("fill", ("k", 1)), ("total", ("k",)), ("fill", ("k", 2)), ("total", ("k",)), ("total", ("k",))],
        [None, 1, None, 3, 3],
    ),
]
NAMES = [f"{program.__name__}{number}" for number, (program, *_) in enumerate(STORIES)]


def replied(call: Any, *args: Any) -> Any:
    try:
        return call(*args)
    except (KeyError, IndexError) as error:
        return type(error)


@pytest.fixture(autouse=True)
def _nothing_outside_changes():
    yield
    assert TIERS == {"x": [1, 2]}
    assert kept("ab") == [2]


@pytest.mark.parametrize(("program", "rows", "expected"), STORIES, ids=NAMES)
def test_plain_python_holds_values(program, rows, expected):
    plain = program()
    assert [replied(getattr(plain, name), *args) for name, args in rows] == expected


@pytest.mark.parametrize(("program", "rows", "expected"), STORIES, ids=NAMES)
def test_the_sequential_run_holds_values(program, rows, expected):
    run = Sequential(compile_once(program))
    assert [replied(run.call, name, *args) for name, args in rows] == expected


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize(("program", "rows", "expected"), STORIES, ids=NAMES)
def test_every_cut_into_epochs_holds_values(program, rows, expected, size, partitions, tmp_path):
    fine = [(row, reply) for row, reply in zip(rows, expected, strict=True) if not isinstance(reply, type)]
    run = Simulated(compile_once(program), tmp_path, partitions, key_groups=16)
    for first in range(0, len(fine), size):
        run.epoch([row for row, _ in fine[first : first + size]])
    wanted = [reply for (name, _), reply in fine if program.entries()[name].replies]
    assert [reply for _, reply in sorted(run.replies().items())] == wanted


def test_partial_state_holds_values():
    plain, run = Given(), Sequential(compile_once(Given), instances=1)
    for call in (plain.part, lambda *row: run.call("part", *row)):
        assert [call("k", 1), call("k'", 2), call("k", 3)] == [[1], [1, 2], [1, 3]]


def test_what_a_caller_keeps_of_a_reply_is_a_copy():
    plain = Given()
    first = plain.add("k", [1])
    assert plain.more("k") == [1, 0, 1]
    assert first == [1, 0]
    first.append(9)
    assert plain.more("k") == [1, 0, 1, 1]


def test_a_reply_that_is_an_object_of_outside_is_a_copy():
    plain, run = Outside(), Sequential(compile_once(Outside))
    for name in ("k", ""):
        plain.tier(name).append(9)
        run.call("tier", name).append(9)
    assert (plain.tier("k"), plain.tier("")) == ([1, 2], [2])


def test_what_a_caller_does_to_an_argument_changes_nothing():
    plain = Given()
    mine = [1]
    plain.add("k", mine)
    assert mine == [1]
    mine.append(9)
    assert plain.more("k") == [1, 0, 1]


def test_a_default_is_another_object_in_each_row():
    class Defaults(Program):
        n = Partitioned(Map[str, int])

        @entry
        def go(self, k: str, xs: list[int] = []) -> int:  # noqa: B006
            xs.append(1)
            self.n[k] = len(xs)
            return len(xs)

    plain = Defaults()
    assert (plain.go("k"), plain.go("k")) == (1, 1)


def test_a_default_of_a_helper_is_another_object_in_each_call():
    class Helped(Program):
        n = Partitioned(Map[str, int])

        def _grow(self, by: int, xs: list[int] = []) -> int:  # noqa: B006
            xs.append(by)
            return len(xs)

        @entry
        def go(self, k: str) -> int:
            self.n[k] = self._grow(1) + self._grow(by=2) + self._grow(3, [4, 5])
            return self.n[k]

    plain, run = Helped(), Sequential(compile_program(Helped))
    assert [plain.go("k"), plain.go("k"), run.call("go", "k"), run.call("go", "k")] == [5, 5, 5, 5]


class Raising(Program):
    m = Partitioned(Map[str, list[int]])
    log = Partitioned(List[str])

    @entry
    def go(self, k: str, n: int) -> int:
        self.m.setdefault(k, []).append(n)
        self.log.append(k)
        if n < 0:
            raise ValueError(n)
        return len(self.m[k])

    @entry
    def misfit(self, k: str, text: str) -> None:
        self.m.setdefault(k, []).append(text)  # type: ignore[arg-type]

    @entry
    def circle(self, k: str) -> None:
        self.m[k] = [1]
        xs: Any = self.m[k]
        xs.append(xs)


def test_a_row_that_raises_leaves_nothing():
    plain, run = Raising(), Sequential(compile_once(Raising))
    for call, error in ((("go", "a", 1), None), (("go", "a", -1), ValueError), (("go", "b", -2), ValueError)):
        for way in (lambda name, *args: getattr(plain, name)(*args), run.call):
            if error is None:
                way(*call)
            else:
                with pytest.raises(error):
                    way(*call)
    assert (plain.m, list(plain.log)) == ({"a": [1]}, ["a"])
    assert (plain.go("a", 2), run.call("go", "a", 2)) == (2, 2)


@pytest.mark.parametrize("call", [("misfit", "a", "x"), ("misfit", "b", "x"), ("circle", "a")])
def test_a_value_that_does_not_fit_fails_the_row_and_leaves_nothing(call):
    plain, run = Raising(), Sequential(compile_once(Raising))
    for way in (lambda name, *args: getattr(plain, name)(*args), run.call):
        way("go", "a", 1)
        with pytest.raises(StateError, match="MP209"):
            way(*call)
        assert way("go", "a", 2) == 2


def test_check_warns_where_an_object_is_stored_as_a_copy():
    checked = check_program(Pairs)
    assert not checked.errors
    (warning,) = [copy for copy in checked.copies if "self.a[k]" in copy]
    assert "stored as a copy in self.b, since it is also in self.a[k]" in warning
    assert check_program(Carts).copies == []


def test_explain_says_what_ends_as_a_value_and_why():
    shown = Pairs.explain()
    assert "what a row touches of self.b is encoded and decoded when it ends: line" in shown
    assert "its values keep what they compute" in Carts.explain()
    assert "encoded and decoded" not in Raising.explain().partition("entry misfit")[0]


def number_in(text: str) -> int:
    return int(text) if text.isdigit() else text  # type: ignore[return-value]


class Misfits(Program):
    numbers = Partitioned(Map[str, int])
    rates = Partitioned(Map[str, float])
    lists = Partitioned(Map[str, list[int]])
    pairs = Partitioned(Map[str, tuple[int, str]])
    counts = Partitioned(Counter[str])
    names = Partitioned(Map[str, Customer])

    @entry
    def number(self, k: str, text: str) -> int:
        self.numbers[k] = number_in(text)
        return 1

    @entry
    def rate(self, k: str, n: int) -> int:
        self.rates[k] = n if n < 0 else n / 2
        return 2

    @entry
    def put(self, k: str, text: str) -> int:
        self.lists.setdefault(k, []).append(number_in(text))
        return 3

    @entry
    def pair(self, k: str, text: str) -> int:
        self.pairs[k] = (number_in(text), text)
        return 4

    @entry
    def count(self, k: str, n: int) -> int:
        self.counts[k] += n if n > 0 else 0.5  # type: ignore[assignment]
        return 5

    @entry
    def name(self, k: str, text: str) -> int:
        self.names.setdefault(k, Customer("")).name = number_in(text)  # type: ignore[assignment]
        return 6

    @entry
    def through(self, k: str, text: str) -> int:
        held: Any = self.lists.setdefault(k, [0])
        held.append(number_in(text))
        self.numbers[k] = held.pop()
        return 8

    @entry
    def mended(self, k: str, text: str) -> int:
        self.numbers[k] = number_in(text)
        self.numbers[k] = 7
        return self.numbers[k]

    @entry
    def sure(self, k: str, n: int) -> int:
        self.numbers[k] = self.numbers.get(k, 0) + n
        self.rates[k] = self.rates.get(k, 0.0) + n
        self.lists.setdefault(k, []).append(len(k) * n)
        self.pairs[k] = (n + 1, f"{k}!")
        self.counts[k] += 1
        return self.numbers[k]


MISFITS: Rows = [
    ("number", ("a", "1")),
    ("number", ("a", "x")),
    ("number", ("b", "x")),
    ("rate", ("a", 3)),
    ("rate", ("a", -3)),
    ("put", ("a", "4")),
    ("put", ("a", "x")),
    ("pair", ("a", "5")),
    ("pair", ("a", "x")),
    ("count", ("a", 2)),
    ("count", ("a", -1)),
    ("name", ("a", "x")),
    ("name", ("b", "5")),
    ("through", ("a", "x")),
    ("mended", ("a", "x")),
    ("sure", ("a", 2)),
]
MISFIT_REPLIES = [1, "MP209", "MP209", 2, "MP209", 3, "MP209", 4, "MP209", 5, "MP209", 6, "MP209", "MP209", 7, 9]


def _code_or_reply(call: Any, *args: Any) -> Any:
    try:
        return call(*args)
    except StateError as error:
        return error.code


def test_a_misfit_fails_its_row_in_plain_python_and_in_the_sequential_run():
    plain, run = Misfits(), Sequential(compile_once(Misfits))
    assert [_code_or_reply(getattr(plain, name), *args) for name, args in MISFITS] == MISFIT_REPLIES
    assert [_code_or_reply(run.call, name, *args) for name, args in MISFITS] == MISFIT_REPLIES
    assert (plain.numbers, plain.rates, plain.lists) == ({"a": 9}, {"a": 3.5}, {"a": [4, 2]})
    assert (plain.pairs, plain.counts, plain.names) == ({"a": (3, "a!")}, {"a": 3}, {"a": Customer("x")})


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("size", [1, 4, 100])
def test_a_misfit_costs_its_row_alone_on_every_cut(size, partitions, tmp_path):
    run = Simulated(compile_once(Misfits), tmp_path, partitions, key_groups=16, bad_rows=BadRows.SKIP)
    for first in range(0, len(MISFITS), size):
        run.epoch(MISFITS[first : first + size])
    fine = {number: reply for number, reply in enumerate(MISFIT_REPLIES) if reply != "MP209"}
    assert run.replies() == fine


def test_what_surely_fits_is_not_looked_at():
    compiled = compile_once(Misfits)
    assert not any(task.renews for task in compiled.entries["sure"].tasks)
    assert all(any(task.renews for task in compiled.entries[name].tasks) for name in ("number", "rate", "count"))


def test_an_argument_or_reply_that_holds_itself_has_a_code():
    class Endless(Program):
        m = Partitioned(Map[str, list[int]])

        @entry
        def go(self, k: str, given: list[int]) -> list[int]:
            self.m[k] = [1]
            reply: Any = [len(given)]
            if len(given) > 1:
                reply.append(reply)
            return reply

    plain, endless = Endless(), [1]
    endless[0] = endless  # type: ignore[call-overload]
    for given in (endless, [1, 2]):
        with pytest.raises(StateError, match="MP209"):
            plain.go("k", given)
    assert plain.m == {}
    assert plain.go("k", [1]) == [1]
