"""What is outside of a row is read-only for methods of objects, too, wherever these come from."""

from __future__ import annotations

from typing import Any

import pytest

from millpond import Program
from millpond.compiler.compile import compile_program
from millpond.engine.sequential import Sequential
from millpond.errors import ProgramError
from tests.golden.programs import load, program_in

CHANGES = {
    "of a new object": "Desk().book(1)",
    "of a variable": "desk = Desk()\ndesk.book(1)",
    "by another name": "book = Desk().book\nbook(1)",
    "of one that a function gives": "new_desk().book(1)",
    "of one that a function hands on": "same(Desk()).book(1)",
    "of one in a list": "for desk in [Desk()]:\n    desk.book(1)",
    "in a comprehension": "[desk.book(1) for desk in [Desk()]]",
    "by a lambda": "(lambda desk: desk.book(1))(Desk())",
    "by methodcaller": 'operator.methodcaller("book", 1)(Desk())',
    "of a class above": "Corner().book(1)",
    "of what it gives itself": "Desk().itself().book(1)",
    "a property": "Desk().asked",
    "a property that is set": "desk = Desk()\ndesk.asked = 1",
    "a static method": "Desk().noted()",
    "a class method of an object": "Desk().counted()",
    "a list of its class": "Desk().listed(1)",
    "a number of its class": "Desk().numbered()",
    "a number of its class, by __class__": "Desk().numbered_too()",
    "given by a method": "Desk().given().append(1)",
    "given by a property of a new object": "Lookup().ledger.append(1)",
    "given by a descriptor": "Lookup().described.append(1)",
    "given by __getattr__": "Lookup().anything.append(1)",
    "an operator": "Desk() + 1",
    "a length": "len(Desk())",
    "a truth": "if Desk():\n    pass",
    "a walk": "for one in Desk():\n    pass",
    "a with": "with Desk():\n    pass",
    "a call": "Desk()()",
    "a subscript": "Desk()[1]",
    "a subscript that is set": "desk = Desk()\ndesk[1] = 2",
    "a comparison": "Desk() == 1",
    "a key of a dict": "{Desk(): 1}",
    "a sort": "sorted([Desk(), Desk()])",
    "a text": 'f"{Desk()}"',
    "an attribute that is set": "desk = Watched()\ndesk.anything = 1",
    "of an object of state": "self.bills[k] = Bill(1)\nself.bills[k].book()",
    "of an object of state that is there": "bill = self.bills.get(k)\nif bill:\n    bill.book()",
    "a property of an object of state": "bill = self.bills.setdefault(k, Bill(1))\nbill.booked",
    "given by an object of state": "self.bills[k] = Bill(1)\nself.bills[k].ledger().append(1)",
    "an operator of an object of state": "self.bills[k] = Bill(1)\nself.bills[k] + 1",
    "of a part of an object of state": "self.folders.setdefault(k, Folder([])).bills.append(Bill(1))\n"
    "self.folders[k].bills[0].book()",
    "by its own +=": "desk = DESK\ndesk += 1",
    "by the truth of an object of the module": "n = 1 if DESK else 2",
    "by a decorator": "decorated(1)",
    "given by what is decorated": "given_by_decorated().append(1)",
    "a context manager": "with opened() as ledger:\n    ledger.append(1)",
    "a nullcontext": "with contextlib.nullcontext(LEDGER) as ledger:\n    ledger.append(1)",
    "by singledispatch": "dispatched(1).append(1)",
    "an enum by its value": "Mood(1).seen.append(1)",
    "an enum by its name": 'Mood["GOOD"].seen.append(1)',
    "an enum in a walk": "for mood in Mood:\n    mood.seen.append(1)",
    "by reduce": "functools.reduce(lambda xs, x: xs.append(x) or xs, [1, 2], LEDGER)",
    "by replace": "dataclasses.replace(HOUSE).bills.append(Bill(1))",
    "through a view": 'types.MappingProxyType(TABLE)["x"].append(1)',
    "through a ChainMap": 'ChainMap({}, TABLE)["x"].append(1)',
    "through a namedtuple made here": 'namedtuple("Two", "xs")(LEDGER).xs.append(1)',
    "through an exception": "try:\n    raise ValueError(LEDGER)\n"
    "except ValueError as error:\n    error.args[0].append(1)",
    "by cast": "cast(list, LEDGER).append(1)",
    "by operator.call": "operator.call(given_plainly).append(1)",
    "by __call__": "given_plainly.__call__().append(1)",
    "by methodcaller of __call__": 'operator.methodcaller("__call__")(given_plainly).append(1)',
    "by the class of a list": "type(LEDGER).append(LEDGER, 1)",
}
FINE = {
    "a method that changes its own object": "cart = Cart()\ncart.add(2)\nself.xs[k] = cart.items",
    "a method of an object of state": "cart = self.carts.setdefault(k, Cart())\ncart.add(2)\nself.xs[k] = cart.items",
    "a table of the class that is read": "self.xs[k] = [Cart().rate(2), len(Cart.RATES)]",
    "a property that reads": "self.xs[k] = [Cart([1, 2]).total]",
    "a property that is set": "cart = Cart()\ncart.first = 3\nself.xs[k] = cart.items",
    "an operator that makes a new one": "self.xs[k] = (Cart([1]) + Cart([2])).items",
    "a walk over an object": "self.xs[k] = [x + 1 for x in Cart([1, 2])]",
    "a list of its own by the class's name": "one = Own()\none.put(4)\nself.xs[k] = one.items",
    "a class method that makes one": "cart = Cart.of(3, 4)\ncart.add(5)\nself.xs[k] = cart.items",
    "a method of that name elsewhere": "self.xs[k] = [1]\nself.xs[k].append(2)\nxs = [3]\nxs.append(4)",
    "a method that nobody calls": "self.xs[k] = [Quiet().read()]",
    "an enum that is read": "self.xs[k] = [mood.value for mood in Mood]",
    "a decorator that changes nothing": "self.xs[k] = [doubled(2)]",
    "a context manager that makes a list": "with listed() as made:\n    made.append(1)\nself.xs[k] = made",
    "an array of a table": "made = np.array(LEDGER)\nmade += 1\nself.xs[k] = made.tolist()",
    "an exception that is read": "try:\n    raise ValueError(LEDGER)\n"
    "except ValueError as error:\n    self.xs[k] = [len(error.args)]",
    "a sum of records": "self.xs[k] = sum([Cart([1]), Cart([2])], Cart()).items",
}
MODULE = """
import contextlib
import dataclasses
import enum
import functools
import operator
import types
from collections import ChainMap, namedtuple
from dataclasses import dataclass, field
from typing import ClassVar, cast

import numpy as np

from millpond import Map, Partitioned, Program, entry

LEDGER = [5]
TABLE = {"x": [1]}


class Desk:
    seen = []
    total = 0

    def book(self, n):
        LEDGER.append(n)

    def listed(self, n):
        self.seen.append(n)

    def numbered(self):
        type(self).total += 1

    def numbered_too(self):
        self.__class__.total += 1

    def given(self):
        return LEDGER

    def itself(self):
        return self

    @property
    def asked(self):
        LEDGER.append(1)

    @asked.setter
    def asked(self, value):
        LEDGER.append(value)

    @staticmethod
    def noted():
        LEDGER.append(1)

    @classmethod
    def counted(cls):
        cls.total += 1

    def _any(self, *given):
        LEDGER.append(1)
        return 1

    __add__ = __iadd__ = __len__ = __enter__ = __exit__ = __call__ = __getitem__ = __setitem__ = __hash__ = _any

    def __iter__(self):
        LEDGER.append(1)
        return iter([1])

    def __eq__(self, other):
        LEDGER.append(1)
        return True

    def __lt__(self, other):
        LEDGER.append(1)
        return True

    def __str__(self):
        LEDGER.append(1)
        return "desk"


class Corner(Desk):
    pass


class Watched:
    def __setattr__(self, name, value):
        LEDGER.append(1)


class Described:
    def __get__(self, owner, kind=None):
        return LEDGER


class Lookup:
    described = Described()

    @property
    def ledger(self):
        return LEDGER

    def __getattr__(self, name):
        return LEDGER


@dataclass
class Bill:
    number: int

    def book(self):
        LEDGER.append(self.number)

    @property
    def booked(self):
        LEDGER.append(self.number)

    def ledger(self):
        return LEDGER

    def __add__(self, other):
        LEDGER.append(other)
        return self


@dataclass
class Folder:
    bills: list[Bill]


DESK = Desk()
HOUSE = Folder([])


def new_desk():
    return Desk()


def same(x):
    return x


def counting(function):
    calls = []

    @functools.wraps(function)
    def count(*given):
        calls.append(1)
        return function(*given) + len(calls)

    return count


def doubling(function):
    @functools.wraps(function)
    def double(*given):
        return function(*given) * 2

    return double


def passing(function):
    @functools.wraps(function)
    def call(*given):
        return function(*given)

    return call


@counting
def decorated(n):
    return n


@doubling
def doubled(n):
    return n


@passing
def given_by_decorated():
    return LEDGER


def given_plainly():
    return LEDGER


@contextlib.contextmanager
def opened():
    yield LEDGER


@contextlib.contextmanager
def listed():
    yield list(LEDGER)


@functools.singledispatch
def dispatched(x):
    return LEDGER


class Mood(enum.Enum):
    GOOD = 1
    BAD = 2

    def __init__(self, number):
        self.seen = []


@dataclass
class Cart:
    items: list[int] = field(default_factory=list)
    RATES: ClassVar[list[int]] = [1, 2]

    def add(self, item):
        self.items.append(item)
        return self

    def rate(self, n):
        return self.RATES[0] * n

    @classmethod
    def of(cls, *items):
        return cls(list(items))

    @property
    def total(self):
        return sum(self.items)

    @property
    def first(self):
        return self.items[0]

    @first.setter
    def first(self, item):
        self.items.insert(0, item)

    def __add__(self, other):
        return Cart([*self.items, *other.items])

    def __radd__(self, other):
        return Cart([*other.items, *self.items])

    def __iter__(self):
        return iter(self.items)


class Own:
    items = []

    def __init__(self):
        self.items = []

    def put(self, item):
        self.items.append(item)


class Quiet:
    calls = []

    def read(self):
        return len(self.calls)

    def note(self):
        self.calls.append(1)


class P(Program):
    xs = Partitioned(Map[str, list[int]])
    bills = Partitioned(Map[str, Bill])
    folders = Partitioned(Map[str, Folder])

    @entry
    def go(self, k: str) -> list[int]:
"""
WITHOUT_BILLS = MODULE.replace("bills = Partitioned(Map[str, Bill])", "carts = Partitioned(Map[str, Cart])").replace(
    "folders = Partitioned(Map[str, Folder])", ""
)


def _program(module: str, body: str, folder: Any) -> type[Program]:
    text = module + "".join(f"        {line}\n" for line in (*body.splitlines(), "return self.xs.get(k, [])"))
    return program_in(load(text, folder))


@pytest.mark.parametrize("body", CHANGES.values(), ids=CHANGES)
def test_a_method_that_changes_what_is_outside_is_refused_at_its_line(body, tmp_path):
    with pytest.raises(ProgramError) as caught:
        # Records of state are looked into whoever is called: they stand beside those programs that have some.
        compile_program(_program(MODULE if "self." in body else WITHOUT_BILLS, body, tmp_path))
    assert caught.value.code == "MP122", caught.value
    assert caught.value.places


@pytest.mark.parametrize("body", FINE.values(), ids=FINE)
def test_methods_that_leave_the_outside_as_it_is_are_accepted(body, tmp_path):
    program = _program(WITHOUT_BILLS, body, tmp_path)
    plain, run = program(), Sequential(compile_program(program))
    for name in ("a", "b", "a"):
        assert run.call("go", name) == plain.go(name)
