from __future__ import annotations

import textwrap
from itertools import pairwise

import pytest

from millpond.compiler import compile_program
from millpond.compiler.analysis.values import find_values
from millpond.compiler.compile import draft_program
from millpond.errors import ProgramError
from tests.golden.programs import load, program_in

HEAD = """
import copy
from dataclasses import dataclass

@dataclass
class Account:
    spent: float
    places: list[str]

@dataclass(frozen=True)
class Point:
    x: int

def score(rows):
    return len(rows)

class P(Program):
    lists = Partitioned(Map[int, list[int]])
    nested = Partitioned(Map[int, list[list[int]]])
    accounts = Partitioned(Map[int, Account])
    points = Partitioned(Map[int, Point])
    pairs = Partitioned(Map[int, tuple[int, str]])
    b = Partitioned(Counter[int])
    here = Partial(Counter[int])

    @entry(way="gathered")
    def go(self, x: int, y: int, given: list[int]) -> object:
"""


def code_of(body: str, tmp_path) -> str:
    program = program_in(load(HEAD + textwrap.indent(body, "        ") + "\n", tmp_path))
    try:
        assert compile_program(program).steps == 2
    except ProgramError as refused:
        return refused.code
    return "accepted"


# A partial element keeps the method from being gathered instead of cut.
CUT = "self.b[y] += 1\nself.here[y] += 1"


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ("row = self.lists[x]", "return row", "MP161"),
        ("row = self.lists.get(x, given)", "return row", "MP161"),
        ("row = list(self.lists[x])", "return row", "accepted"),
        ("row = self.lists[x][:2]", "return row", "accepted"),
        ("row = self.lists.pop(x)", "return row", "accepted"),
        ("row = [n + 1 for n in self.lists[x]]", "return row", "accepted"),
        ("first = self.lists[x][0]", "return first", "accepted"),
        ("size = len(self.lists[x])", "return size", "accepted"),
        ("row = list(self.nested[x])", "return row", "MP161"),
        ("row = self.nested[x][0]", "return row", "MP161"),
        ("row = copy.deepcopy(self.nested[x])", "return row", "accepted"),
        ("row = [list(one) for one in self.nested[x]]", "return row", "accepted"),
        ("row = [one for one in self.nested[x]]", "return row", "MP161"),
        ("spent = self.accounts[x].spent", "return spent", "accepted"),
        ("places = self.accounts[x].places", "return places", "MP161"),
        ("pair = self.pairs[x]", "return pair", "accepted"),
        ("point = self.points[x]", "return point.x", "accepted"),
        ("found = self.points[x].x", "return found", "accepted"),
        ("total = score(self.lists[x])", "return total", "accepted"),
        ("total = score(self.lists[x])", "total.append(1)\nreturn total", "MP161"),
        ("self.lists[x] = given", "return given", "MP162"),
        ("self.lists[x] = list(given)", "return given", "accepted"),
        ("self.lists[x] = given", "return x", "accepted"),
        ("self.lists.setdefault(x, []).append(y)", "return given", "accepted"),
        ("self.lists[x] = []\none = given\ntwo = one", "return (one, two)", "accepted"),
        ("self.lists[x] = []\none = given\ntwo = list(one)", "return (one, two)", "accepted"),
        ("self.lists[x] = []\none = x\ntwo = one", "return (one, two)", "accepted"),
        ("self.lists[x] = []\none = [given]", "return (one, given)", "accepted"),
        ("self.lists[x] = []\none = given[0]", "return (one, given)", "accepted"),
        ("self.lists[x] = []\none = given[0]", "one.append(1)\nreturn (one, given)", "accepted"),
        ("self.lists[x] = []\none = given\ntwo = [one]\none = 3", "return (given, two)", "accepted"),
        ("self.lists[x] = []\nrows = (n for n in given)", "return list(rows)", "MP164"),
    ],
)
def test_what_is_shared_does_not_cross_a_cut(before, after, code, tmp_path):
    assert code_of(f"{before}\n{CUT}\n{after}", tmp_path) == code


def test_lists_that_are_put_into_each_other_in_every_turn_are_soon_known(tmp_path):
    names = [f"n{place}" for place in range(12)]
    turns = "\n".join(f"    {one}, {other} = [{other}], {one}[0]" for one, other in pairwise([*names, names[0]]))
    begin = "row = self.lists[x]\n" + "\n".join(f"{name} = [row]" for name in names)
    body = f"{begin}\nfor _ in given:\n{turns}\n{CUT}\nreturn n0"
    assert code_of(body, tmp_path) == "MP161"
    relaxed = HEAD.replace('way="gathered"', "relaxed=True")
    program = program_in(
        load(relaxed + textwrap.indent(f"{begin}\nfor _ in given:\n{turns}\nreturn x", "        "), tmp_path)
    )
    (method,) = draft_program(program, find_values).methods
    points = method.values.points
    assert max(map(len, points.variables.values())) <= 40
