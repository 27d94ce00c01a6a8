"""What is outside of a row is read-only for it: changes are refused at their line, reading and storing are fine."""

from __future__ import annotations

from typing import Any

import pytest

from millpond import Program
from millpond.compiler.compile import compile_program
from millpond.engine.sequential import Sequential
from millpond.errors import ProgramError
from tests.golden.programs import load, program_in

CHANGES_OUTSIDE = {
    "stored and changed": 'self.xs[k] = TIERS["x"]\nself.xs[k].append(1)',
    "by a variable": 't = TIERS["x"]\nt.append(1)',
    "a part": 'TIERS["x"][0] = 9',
    "a part of a part": "for name, t in TIERS.items():\n    t.sort()",
    "by get": "t = TIERS.get(k, [])\nt += [1]",
    "the default of get": 'x = self.xs.get(k, TIERS["x"])\nx.append(1)\nself.xs[k] = x',
    "a result that is kept": "t = kept(k)\nt.append(1)",
    "stored, and a result that is kept": "self.xs[k] = kept(k)\nself.xs[k].pop()",
    "by a helper": 'self._grow(TIERS["x"])',
    "by a function": 'grow(TIERS["x"])',
    "in a function": "grow_tiers()",
    "through a tuple": 'a, b = TIERS["x"], 1\na.append(b)',
    "deleted": 'del TIERS["x"]',
    "heapq": 'heapq.heappush(TIERS["x"], 1)',
    "an unbound method": 'list.append(TIERS["x"], 1)',
    "a constant of the class": "self.LIMITS.append(1)",
    "by a constructor": 'h = Holder(TIERS["x"])\nh.items.append(1)',
    "by a copy": "c = TIERS.copy()\nc['x'].append(1)",
    "in a branch": 't = []\nif k:\n    t = TIERS["x"]\nt.append(1)',
    "in a loop": 't = [[0]]\nfor i in range(2):\n    t[0].append(i)\n    t[0] = TIERS["x"]',
    "in a comprehension": "[t.append(1) for t in TIERS.values()]",
    "by a lambda": "list(map(lambda t: t.append(1), TIERS.values()))",
    "by a lambda with a name": 'put = lambda t: t.append(1)\nput(TIERS["x"])',
    "by a lambda at once": '(lambda t: t.append(1))(TIERS["x"])',
    "by a function inside": "def put(t, n=1):\n    t.append(n)\nput(kept(k))",
    "by a function inside that gives it": 'def pick():\n    return TIERS["x"]\npick().append(1)',
    "by a lambda with a name that gives it": 'pick = lambda name: TIERS[name]\npick("x").append(1)',
    "by a function under another name": 'put = grow\nput(TIERS["x"])',
    "by a function for each": "list(map(grow, TIERS.values()))",
    "by a function inside for each": "def put(t):\n    t.append(1)\nlist(map(put, TIERS.values()))",
    "by a key": "max(TIERS.values(), key=popped)",
    "by a function that is given a function": 'applied(grow, TIERS["x"])',
    "by a function that is given a lambda": 'applied(lambda t: t.append(1), TIERS["x"])',
    "by the second that is given": 'applied(total, TIERS["x"])\napplied(grow, TIERS["x"])',
    "by a function out of a dict": '{"a": grow}["a"](TIERS["x"])',
    "by a lambda out of a dict": '{"a": lambda t: t.append(1)}["a"](TIERS["x"])',
    "by a function inside out of a list": 'def put(t):\n    t.append(1)\nfor f in [total, put]:\n    f(TIERS["x"])',
    "by one of two functions inside": 'def put(t):\n    t.append(1)\n(put if k else total)(TIERS["x"])',
    "by a function inside that another gives": (
        'def make(n):\n    def put(t):\n        t.append(n)\n    return put\nmake(1)(TIERS["x"])'
    ),
    "by a helper out of a dict": '{"a": self._grow}["a"](TIERS["x"])',
    "by a helper for each": "list(map(self._grow, TIERS.values()))",
    "by a method with a name": 'put = TIERS["x"].append\nput(1)',
    "by a method for each": 'list(map(TIERS["x"].append, [1, 2]))',
    "by a function inside that calls itself": (
        'def put(t, n=2):\n    t.append(n)\n    return put(t, n - 1) if n else t\nput(TIERS["x"])'
    ),
    "by a method of the module": 'look_up("x").append(1)',
    "by a partial of the module": "put_one()",
    "by a closure of the module": "count_up()",
    "by a global": "count_all()",
    "put into what setdefault has": 'self.hs.setdefault(k, Holder([])).items = TIERS["x"]\nself.hs[k].items.append(1)',
    "put into a variable of state": 'h = self.hs[k]\nh.items = TIERS["x"]\nself.hs[k].items.append(1)',
    "put into one of two": '(self.hs.get(k) or Holder([])).items = TIERS["x"]\nself.hs[k].items.append(1)',
    "put into a second name": 'h = Holder([1])\ng = h\ng.items = TIERS["x"]\nh.items.append(1)',
    "put into the item of a walk": 'hs = [Holder([1])]\nfor h in hs:\n    h.items = TIERS["x"]\nhs[0].items.append(1)',
    "by setattr of a class": 'setattr(Holder, "seen", 1)',
    "by its own subscript": "SETTINGS[k]",
    "by its own operator": "SETTINGS + 1",
    "by its own comparison": "SETTINGS == 1",
    "by its own length": "len(SETTINGS)",
    "by its own text": 'f"{SETTINGS}"',
    "by its own property": "SETTINGS.asked",
    "by its own with": "with SETTINGS:\n    pass",
    "by methodcaller": 'operator.methodcaller("append", 3)(TIERS["x"])',
    "by methodcaller with a name": 'put = operator.methodcaller("append", 3)\nput(TIERS["x"])',
    "by methodcaller for each": 'list(map(operator.methodcaller("append", 3), TIERS.values()))',
    "by itemgetter": 'operator.itemgetter("x")(TIERS).append(1)',
    "a counter of the module": "next(NUMBERS)",
    "an object of the module": "SETTINGS.limit = 1",
    "by its own method": "SETTINGS.raise_to(3)",
    "in a new object of a method": "Pair([1], [2])._replace(left=TIERS['x']).left.append(3)",
    "through iterators": 'next(itertools.chain([TIERS["x"]])).append(2)',
    "the largest": "max(TIERS.values()).append(2)",
    "a defaultdict that is only read": "len(GROUPS[k])",
    "given by a lambda of the module": "GIVEN().append(1)",
    "given by a partial of the module": "BOUND().append(1)",
    "by a partial": "add = functools.partial(list.append, TIERS['x'])\nadd(1)",
    "the value of an enum": "Colour.RED.value.append(1)",
    "given by a class method": "Classy.of_class().append(1)",
    "found in the class of a new object": "Classy().shared.append(1)",
    "found in the class above": "Derived().shared.append(1)",
    "given to a new object by its code": "Making().mine.append(1)",
    "given to a new record by its code": "Completed(1).mine.append(1)",
    "given by a factory of defaults": "Defaulted().items.append(1)",
    "the default of a named tuple": "Tupled().items.append(1)",
    "stored, and the default of a named tuple": "self.xs[k] = Tupled().items\nself.xs[k].append(1)",
    "given by a generator": "next(each_tier()).append(1)",
    "given by a generator in a loop": "for t in each_tier():\n    t.append(1)",
    "given by an object that is called": "CALLED().append(1)",
    "an attribute of a function": "given_by_attribute().append(1)",
    "a result that a method keeps": "CALLED.cached().append(1)",
    "by a function of the method": "def add(xs):\n    xs.append(1)\nadd(TIERS['x'])",
    "given by a function of the method": "def give():\n    return TIERS['x']\ngive().append(1)",
    "by a lambda in a variable": "add = lambda xs: xs.append(1)\nadd(TIERS['x'])",
    "by a function that is handed on": "list(map(grow, TIERS.values()))",
    "by a method that is handed on": "list(map(list.clear, TIERS.values()))",
    "when an object is made": "Growing()",
    "an attribute of a class": "Classy.limit = 3",
    "an attribute that a function has": "given_by_attribute.xs = [3]",
}
FINE_OUTSIDE = {
    "read": 'self.xs[k] = [len(TIERS["x"]), *TIERS["x"]]',
    "stored": 'self.xs[k] = TIERS["x"]',
    "a copy changed": 't = list(TIERS["x"])\nt.append(1)\nself.xs[k] = t',
    "a slice changed": 't = TIERS["x"][:]\nt.append(1)\nself.xs[k] = t',
    "sorted": 't = sorted(TIERS["x"])\nt.append(1)\nself.xs[k] = t',
    "numbers of a list": 'n = 0\nfor i in TIERS["x"]:\n    i += 1\n    n += i\nself.xs[k] = [n]',
    "stored or changed": 'if k:\n    self.xs[k] = TIERS["x"]\nelse:\n    self.xs[k].append(1)',
    "bound anew": 't = TIERS["x"]\nt = [1]\nt.append(2)\nself.xs[k] = t',
    "looked up": "self.xs[k] = [TIERS.get(k, [0])[0]]",
    "a key function": 'self.xs[k] = sorted(TIERS["x"], key=BY)\nself.xs[k].append(1)',
    "by a function that reads": 'self.xs[k] = [total(TIERS["x"])]',
    "a method that reads": "self.xs[k] = [SETTINGS.doubled()]",
    "a length": 'n = len(TIERS["x"])\nn += 1\nself.xs[k] = [n]',
    "a record that keeps a copy": "c = Copying(TIERS['x'])\nc.mine.append(1)\nself.xs[k] = c.mine",
    "a record whose class holds a list": "c = Beside(1)\nc.mine.append(len(c.NAMES))\nself.xs[k] = c.mine",
    "a new attribute by the name of the class's": "c = Shadowing()\nc.shared.append(1)\nself.xs[k] = c.shared",
    "a default that is not needed": "t = Tupled([1])\nt.items.append(2)\nself.xs[k] = t.items",
    "a factory that is not needed": "t = Defaulted([1])\nt.items.append(2)\nself.xs[k] = t.items",
    "a value of an enum": "t = list(Colour.RED.value)\nt.append(2)\nself.xs[k] = t",
    "a class method that reads": "t = Classy.numbers()\nt.append(2)\nself.xs[k] = t",
    "a lambda that reads": "t = READING(1)\nt.append(2)\nself.xs[k] = t",
    "items of a generator": "t = [len(one) for one in each_tier()]\nt.append(2)\nself.xs[k] = t",
    "a function of the method": "def add(xs):\n    xs.append(1)\n    return xs\nself.xs[k] = add(list(TIERS['x']))",
    "a place": 'n = bisect.bisect(TIERS["x"], 1)\nn += 1\nself.xs[k] = [n]',
    "a sum": 'n = sum(TIERS["x"])\nn += max(TIERS["x"])\nself.xs[k] = [n]',
    "a pattern": "self.xs[k] = [len(PATTERN.findall(k))]",
    "by a lambda that reads": 'size = lambda t: len(t)\nself.xs[k] = [size(TIERS["x"])]',
    "a copy by a lambda at once": 'self.xs[k] = (lambda t: list(t))(TIERS["x"])\nself.xs[k].append(1)',
    "a copy by a function inside": 'def new(t):\n    return [*t]\nself.xs[k] = new(TIERS["x"])\nself.xs[k].append(1)',
    "new ones by a function inside": 'def put(t):\n    t.append(1)\nxs = [1]\nput(xs)\nself.xs[k] = xs + TIERS["x"]',
    "by a function for each that reads": "self.xs[k] = list(map(total, TIERS.values()))",
    "by a function that is given one that reads": 'self.xs[k] = [applied(total, TIERS["x"])]',
}
MODULE = """
import bisect
import enum
import functools
import heapq
import itertools
import operator
import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from operator import neg
from typing import ClassVar, NamedTuple

from millpond import Map, Partitioned, Program, entry

TIERS = {"x": [1, 2]}
NUMBERS = itertools.count()
GROUPS = defaultdict(list)
PATTERN = re.compile("a+")
BY = neg


class Settings:
    def __init__(self):
        self.limit = 3

    def raise_to(self, limit):
        self.limit = limit

    def doubled(self):
        return self.limit * 2

    def _ask(self, *given):
        self.limit += 1
        return self.limit

    __getitem__ = __add__ = __len__ = _ask

    def __eq__(self, other):
        self.limit += 1
        return True

    def __str__(self):
        self.limit += 1
        return "settings"

    def __enter__(self):
        self.limit += 1

    def __exit__(self, *given):
        pass

    @property
    def asked(self):
        return self._ask()


SETTINGS = Settings()
look_up = TIERS.get
put_one = functools.partial(TIERS["x"].append, 1)
TOTAL = 0


def counting():
    counted = 0

    def count():
        nonlocal counted
        counted += 1
        return counted

    return count


count_up = counting()


def count_all():
    global TOTAL
    TOTAL += 1
    return TOTAL


@dataclass
class Holder:
    items: list[int]


class Pair(NamedTuple):
    left: list[int]
    right: list[int]


@lru_cache
def kept(name: str) -> list[int]:
    return [len(name)]


def popped(xs):
    return xs.pop()


def applied(function, xs):
    return function(xs)


def grow(xs):
    ys = xs
    ys += [1]


def grow_tiers():
    TIERS["x"].append(1)


GIVEN = lambda: TIERS["x"]
READING = lambda n: [n, len(TIERS)]
BOUND = functools.partial(lambda xs: xs, TIERS["x"])


class Colour(enum.Enum):
    RED = [1]
    BLUE = [2]


class Classy:
    shared = [1]
    limit = 2

    @classmethod
    def of_class(cls):
        return cls.shared

    @classmethod
    def numbers(cls):
        return [len(cls.shared)]


class Derived(Classy):
    pass


class Shadowing(Classy):
    def __init__(self):
        self.shared = []


class Making:
    def __init__(self):
        self.mine = TIERS["x"]


class Growing:
    def __init__(self):
        TIERS["x"].append(1)


class Copying:
    def __init__(self, xs):
        self.mine = [len(TIERS), *TIERS["x"], *xs]


@dataclass
class Completed:
    number: int

    def __post_init__(self):
        self.mine = TIERS["x"]


@dataclass
class Beside:
    number: int
    mine: list[int] = field(default_factory=list)
    NAMES: ClassVar[list[str]] = ["a"]


@dataclass
class Defaulted:
    items: list[int] = field(default_factory=lambda: TIERS["x"])


class Tupled(NamedTuple):
    items: list[int] = [1]


class Called:
    def __init__(self):
        self.mine = [1]

    def __call__(self):
        return self.mine

    @lru_cache
    def cached(self) -> list[int]:
        return [1]


CALLED = Called()


def each_tier():
    yield from TIERS.values()


def given_by_attribute():
    return given_by_attribute.xs


given_by_attribute.xs = [1]


def total(xs):
    n = 0
    for x in xs:
        n += x
    return n


class P(Program):
    xs = Partitioned(Map[str, list[int]])
    hs = Partitioned(Map[str, Holder])
    LIMITS = [1]

    def _grow(self, xs):
        xs.append(1)

    @entry
    def go(self, k: str) -> None:
"""


def _program(body: str, folder: Any) -> type[Program]:
    text = MODULE + "".join(f"        {line}\n" for line in body.splitlines())
    return program_in(load(text, folder))


@pytest.mark.parametrize("body", CHANGES_OUTSIDE.values(), ids=CHANGES_OUTSIDE)
def test_a_change_of_what_is_outside_is_refused_at_its_line(body, tmp_path):
    with pytest.raises(ProgramError) as caught:
        compile_program(_program(body, tmp_path))
    assert caught.value.code == "MP122", caught.value
    assert caught.value.places


@pytest.mark.parametrize("body", FINE_OUTSIDE.values(), ids=FINE_OUTSIDE)
def test_what_only_looks_outside_is_accepted(body, tmp_path):
    program = _program(body, tmp_path)
    plain, run = program(), Sequential(compile_program(program))
    for name in ("a", "b", "a"):
        assert run.call("go", name) == plain.go(name)
