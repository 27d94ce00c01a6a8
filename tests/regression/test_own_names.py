"""Every decision goes by the object behind a name: programs with their own functions, named like builtins."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from millpond.compiler.compile import compile_program
from millpond.engine.sequential import Sequential
from millpond.engine.simulated import Simulated
from millpond.errors import ProgramError
from millpond.program import ProgramBase
from tests.fuzz.loading import loaded

HEAD = """import builtins as b
from builtins import enumerate as e

from millpond import List, Map, Partitioned, Program, entry

{module}

class Made(Program):
    a = Partitioned(Map[int, int])
    log = Partitioned(List[int])
{members}
    @entry
    def put(self, k: int, v: int) -> None:
        self.a[k] = v

    {mark}
    def go(self, x: int, y: int, xs: b.list[int]) -> int:
{body}
"""

ENUMERATE = (
    """def enumerate(xs):
    return [(x + 100, i) for i, x in b.enumerate(xs)]
""",
    """""",
    """t = 0
for i, v in enumerate(xs):
    t += self.a.get(i, 7)
    self.a[v] = t
return t""",
)

ZIP = (
    """def zip(xs, ys):
    return [(y, x + 50) for x, y in b.zip(xs, ys)]
""",
    """""",
    """t = 0
for i, v in zip(xs, [x, y, x]):
    t += self.a.get(i, 7)
    self.a[v] = t
return t""",
)

REVERSED = (
    """def reversed(xs):
    return [x + 50 for x in xs]
""",
    """""",
    """t = 0
for i in reversed(xs):
    t += self.a.get(i, 7)
    self.a[i + 1] = t
return t""",
)

RANGE = (
    """def range(n):
    return [n, n + 5, n + 9]
""",
    """""",
    """t = 0
for i in range(x):
    t += self.a.get(i, 7)
    self.a[i + 1] = t
return t""",
)

LEN = (
    """def len(xs):
    xs.append(4)
    return 5
""",
    """""",
    """t = len(xs)
for i in xs:
    t += self.a.get(i, 7)
    self.a[i + 1] = t
return t + len(xs)""",
)

SORTED = (
    """def sorted(xs):
    xs.append(9)
    return xs
""",
    """""",
    """t = 0
ys = sorted(xs)
ys.append(11)
for i in xs:
    t += self.a.get(i, 7)
    self.a[i + 1] = t
return t""",
)

LIST = (
    """def list(xs):
    xs.append(12)
    return xs
""",
    """""",
    """t = 0
ys = list(xs)
ys.append(13)
for i in xs:
    t += self.a.get(i, 7)
    self.a[i + 1] = t
return t""",
)

DICT = (
    """class dict:
    def __init__(self, xs): self.xs = xs
    def items(self): return [(v + 60, v) for v in self.xs]
""",
    """""",
    """t = 0
for i, v in dict(xs).items():
    t += self.a.get(i, 7)
    self.a[v] = t
return t""",
)

MIN = (
    """def min(xs):
    xs.append(3)
    return 77
""",
    """""",
    """t = self.a.get(min(xs), 3)
self.a[min(xs)] = t + 1
self.a[x] = t
for i in xs:
    t += self.a.get(i, 0)
return t""",
)

STR = (
    """def str(x):
    return 5 + x
""",
    """""",
    """t = self.a.get(str(x), 3)
self.a[str(x)] = t + 1
self.a[y] = t
return t""",
)

SUM = (
    """def sum(g):
    return 3
""",
    """""",
    """t = sum(self.a.get(i, 1) for i in xs)
self.a[x] = t
self.a[y] = t + 1
return t""",
)

ANY = (
    """def any(g):
    return not [v for v in g][:1]
""",
    """""",
    """t = 0
if any(self.a.get(i, 1) for i in xs):
    t = 1
self.a[x] = t
self.a[y] = t + 1
return t""",
)

ALIAS = (
    """""",
    """""",
    """t = 0
for i, v in e(xs):
    t += self.a.get(i, 7)
    self.a[v] = t
return t""",
)

ATTRIBUTE = (
    """""",
    """""",
    """t = 0
for i, v in b.enumerate(b.reversed(xs)):
    t += self.a.get(i, 7)
    self.a[v] = t
self.log.append(t)
return t + b.len(self.log) + b.sum(self.log)""",
)

LOCAL = (
    """""",
    """""",
    """def enumerate(ys):
    return [(q + 30, q) for q in ys]
t = 0
for i, v in enumerate(xs):
    t += self.a.get(i, 7)
    self.a[v] = t
return t""",
)

LOCALVAR = (
    """""",
    """""",
    """len = lambda q: 40
t = len(xs)
self.a[t] = self.a.get(t, 1) + 1
self.a[len(xs) + 1] = t
return t + self.a.get(len(xs), 5)""",
)

COMP = (
    """""",
    """""",
    """ys = [len + 1 for len in xs]
t = len(ys)
zs = [len(q) for len, q in [((lambda r: 80), 1)]]
self.a[zs[0]] = self.a.get(zs[0], 2) + t
self.a[x] = t
return self.a.get(zs[0], 0)""",
)

LAMBDA = (
    """""",
    """""",
    """f = lambda sorted: sorted + 90
t = f(x)
self.a[t] = self.a.get(t, 2) + t
self.a[x] = t
return self.a.get(t, 0) + sorted(xs)[0]""",
)

CLASSATTR = (
    """class Ops:
    @staticmethod
    def enumerate(xs): return [(v + 200, v) for v in xs]
    len = staticmethod(lambda q: 66)
""",
    """    ops = Ops
""",
    """t = 0
for i, v in Ops.enumerate(xs):
    t += self.a.get(i, 7)
    self.a[v] = t
self.a[Ops.len(xs)] = t
return t + self.a.get(Ops.len(xs), 0)""",
)

HELPER = (
    """""",
    """    def enumerate(self, xs):
        return [(v + 800, v) for v in xs]
    def get(self, k):
        return self.a.get(k, 5) + 1
""",
    """t = 0
for i, v in self.enumerate(xs):
    t += self.get(i)
    self.a[v] = t
return t""",
)

MAP = (
    """def map(f, xs):
    return [900 + x for x in xs]
""",
    """""",
    """t = 0
for i in map(abs, xs):
    t += self.a.get(i, 5)
    self.a[i + 1] = t
return t""",
)

PRINT_PARAM = (
    """""",
    """""",
    """print = xs
t = 0
for i in print:
    t += self.a.get(i, 5)
    self.a[i + 1] = t
return t""",
)

SUPER = (
    """def super(x): return x + 40
""",
    """""",
    """t = super(x)
self.a[t] = self.a.get(t, 3) + 1
self.a[x] = t
return t""",
)

METHODS = (
    """class Box:
    def __init__(self, v):
        self.v, self.n = v, 0

    def append(self, q):
        self.v = self.v + [q, q]

    def get(self, q):
        self.n += 1
        return self.n + 300

    def copy(self):
        return self

    def lower(self):
        self.n += 1
        return self.n + 400

    def items(self):
        return [(q + 500, q) for q in self.v]
""",
    "",
    """box = Box(xs)
box.append(1)
box.copy().append(4)
k, m = box.lower(), box.get(3)
keys = box.items()
for i, v in keys:
    self.a[i] = self.a.get(v, 1) + 1
self.a[k] = self.a.get(m, 3) + 1
return self.a[k]""",
)

CASES = {
    "enumerate": ENUMERATE,
    "zip": ZIP,
    "reversed": REVERSED,
    "range": RANGE,
    "len": LEN,
    "sorted": SORTED,
    "list": LIST,
    "dict": DICT,
    "min": MIN,
    "str": STR,
    "sum": SUM,
    "any": ANY,
    "alias": ALIAS,
    "attribute": ATTRIBUTE,
    "local": LOCAL,
    "localvar": LOCALVAR,
    "comp": COMP,
    "lambda": LAMBDA,
    "classattr": CLASSATTR,
    "helper": HELPER,
    "map": MAP,
    "print_param": PRINT_PARAM,
    "super": SUPER,
    "methods": METHODS,
}
REFUSED = {"sum", "any"}
"""Who takes from a generator over state, and when, has to be known: own functions are not."""

ROWS: list[tuple[str, tuple[Any, ...]]] = [
    *[("put", (k, k * 3)) for k in (0, 1, 2, 3, 7, 8, 50, 51, 100, 101, 102, 301, 401)],
    ("go", (1, 2, [3, 1, 2])),
    ("go", (2, 2, [1])),
    ("put", (500, 3)),
    ("go", (0, 5, [2, 2])),
    ("put", (41, 0)),
    ("go", (3, 1, [0, 7])),
]


def text_of(name: str, mark: str = "@entry") -> str:
    module, members, body = CASES[name]
    indented = "\n".join(f"        {line}" for line in body.splitlines())
    return HEAD.format(module=module, members=members, body=indented, mark=mark)


def plain_replies(program: type[ProgramBase]) -> list[Any]:
    plain = program()
    told = [(name, getattr(plain, name)(*copy.deepcopy(args))) for name, args in ROWS]
    return [reply for name, reply in told if name == "go"]


def simulated_replies(compiled: Any, folder: Path, partitions: int, size: int) -> list[Any]:
    run = Simulated(compiled, folder, partitions=partitions)
    for start in range(0, len(ROWS), size):
        run.epoch(copy.deepcopy(ROWS[start : start + size]))
    return [reply for _, reply in sorted(run.replies().items())]


@pytest.mark.parametrize("name", sorted(CASES.keys() - REFUSED - {"len"}))
def test_a_program_with_names_of_its_own_gives_what_plain_python_gives(name, tmp_path):
    with loaded(text_of(name)) as program:
        compiled = compile_program(program)
        wanted = plain_replies(program)
        reference = Sequential(compiled)
        told = [reference.call(entry, *copy.deepcopy(args)) for entry, args in ROWS]
        assert [reply for (entry, _), reply in zip(ROWS, told, strict=True) if entry == "go"] == wanted
        for partitions, size in ((1, len(ROWS)), (3, 4), (7, 1)):
            assert simulated_replies(compiled, tmp_path / f"{partitions}", partitions, size) == wanted


@pytest.mark.parametrize("name", sorted(CASES.keys() - REFUSED - {"localvar", "methods"}))
def test_so_does_a_relaxed_one_row_by_row(name, tmp_path):
    with loaded(text_of(name, "@entry(relaxed=True)")) as program:
        assert simulated_replies(compile_program(program), tmp_path, 3, 1) == plain_replies(program)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_generator_over_state_for_a_function_of_ones_own_is_not_cut(name, tmp_path):
    with loaded(text_of(name, '@entry(way="gathered")')) as program, pytest.raises(ProgramError) as refused:
        compile_program(program)
    assert refused.value.code == "MP154"
    with loaded(text_of(name)) as program:
        assert compile_program(program).graph.sequence
        assert simulated_replies(compile_program(program), tmp_path, 3, 1) == plain_replies(program)


@pytest.mark.parametrize("name", ["abort", "on", "now", "entries"])
def test_a_helper_that_hides_what_every_program_has_is_refused(name):
    text = HEAD.format(
        module="", members=f"    def {name}(self):\n        return 1\n", body="        return 1", mark="@entry"
    )
    with loaded(text) as program, pytest.raises(ProgramError) as refused:
        compile_program(program)
    assert refused.value.code == "MP126"


def test_a_name_that_only_a_pattern_binds_is_no_name_of_the_generated_code(tmp_path):
    body = """        t = 0
        for i in xs:
            match i:
                case block:
                    t += 1
            match t:
                case sent:
                    self.a[i] = self.a.get(i, 0) + 1
        return t
"""
    for number, mark in enumerate(("@entry", "@entry(relaxed=True)")):
        with loaded(HEAD.format(module="", members="", body=body, mark=mark)) as program:
            assert simulated_replies(compile_program(program), tmp_path / str(number), 3, 1) == plain_replies(program)
