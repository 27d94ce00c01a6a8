"""What a class keeps is outside of a row, by whatever way an object, its class or its base is asked for it."""

from __future__ import annotations

import pytest

from millpond.compiler.compile import compile_program
from millpond.errors import ProgramError
from millpond.testing import assert_equals_plain, simulate
from tests.fuzz.loading import loaded

CHANGES = {
    "type of self": "x = type(self).BASE",
    "a variable that is the class": "kind = type(self); x = kind.BASE",
    "the class in a list": "x = [type(self)][0].BASE",
    "a class method of the class": "x = type(self).base()",
    "getattr": 'x = getattr(self, "BASE")',
    "getattr of the class": 'x = getattr(type(self), "BASE")',
    "getattr with a name that is made": 'x = getattr(type(self), "BA" + "SE")',
    "getattr with a default": 'x = getattr(Box, "TAGS", [])',
    "getattr of a module": 'x = getattr(rules, "LIST")',
    "attrgetter": 'x = operator.attrgetter("BASE")(self)',
    "attrgetter of the module": "x = BY_TAGS(Box(k))",
    "a property of the program": "x = self.first",
    "type of a record": "x = type(Box(k)).TAGS",
    "type of a value of state": "x = type(self.boxes.setdefault(k, Box(k))).TAGS",
    "a property of a value of state": "x = self.boxes.setdefault(k, Box(k)).tags",
    "the bases": "x = type(self).__mro__[1].BASE",
    "super": "x = super().BASE",
    "a method by super": "x = super().inherited()",
    "the default of a lambda": "x = (lambda xs=P.BASE: xs)()",
    "the default of an inner function": "def inner(*, xs=P.BASE): return xs\n        x = inner()",
    "arguments by name, in a dict": "x = of_names(xs=P.BASE)",
    "arguments spread from a dict": 'x = second(1, **{"xs": P.BASE})',
    "arguments spread from a list": "x = second(*[1, P.BASE])",
}

FINE = {
    "a copy": "x = list(type(self).BASE)",
    "numbers of the class": "x = [type(self).BASE[0], getattr(self, 'BASE')[0], self.first[0]]",
    "an object of the class": "box = type(Box(k))(2); box.n = 3; x = [box.n, *box.tags]",
    "a method by super": "x = list(super().inherited())",
    "an entry point of the base by its name": "x = Base.kept(self, k)",
    "its own class": "x = [len(self.__class__.BASE)]",
    "the name of the class": "x = [len(type(Box(k)).__name__)]",
    "a field by its name": "box = Box(k); setattr(box, 'n', getattr(box, 'n', 0) + 1); x = [box.n]",
}

MODULE = """import operator
import types
from dataclasses import dataclass
from typing import Any, ClassVar
from millpond import Map, Partitioned, Program, entry

rules = types.ModuleType("rules")
rules.LIST = [1]
BY_TAGS = operator.attrgetter("TAGS")

@dataclass
class Box:
    n: int
    TAGS: ClassVar[list[int]] = [1]
    @property
    def tags(self) -> list[int]: return type(self).TAGS

def of_names(**named: Any) -> list[int]:
    return named["xs"]

def second(n: int, xs: Any) -> list[int]:
    return xs

class Base(Program):
    lists = Partitioned(Map[int, list[int]])
    boxes = Partitioned(Map[int, Box])
    BASE = [1, 2]
    def inherited(self) -> list[int]: return self.BASE
    @entry
    def kept(self, k: int) -> list[int]: return [*self.lists.get(k, []), k]

class P(Base):
    @classmethod
    def base(cls) -> list[int]: return cls.BASE
    @property
    def first(self) -> list[int]: return self.BASE

    @entry
    def go(self, k: int) -> list[int]:
        {body}
        x.append(k)
        self.lists[k] = x
        return self.lists[k]
"""


@pytest.mark.parametrize("body", CHANGES.values(), ids=CHANGES)
def test_a_change_of_what_a_class_keeps_is_refused(body):
    with loaded(MODULE.format(body=body)) as program, pytest.raises(ProgramError) as caught:
        compile_program(program)
    assert caught.value.code == "MP122"
    assert "x.append(k)" in str(caught.value)


@pytest.mark.parametrize("body", FINE.values(), ids=FINE)
def test_what_a_class_keeps_may_be_read(body):
    rows = [("go", 1), ("go", 2), ("go", 1)]
    with loaded(MODULE.format(body=body)) as program:
        assert_equals_plain(simulate(program, rows, epochs=2, partitions=2))
