"""Helpers that touch state: written out in the entry point, they do what plain Python does."""

from __future__ import annotations

import ast
import traceback

import pytest

from millpond.compiler import compile_program
from millpond.compiler.compile import draft_program
from millpond.compiler.front.inlining.inline import CALLS_MAX, inline
from millpond.engine.sequential import Sequential
from millpond.errors import ProgramError
from tests.golden.programs import HEAD, load, program_in
from tests.unit.compiler.inlining import STATE, assert_same, entry, helper, written_out

BODIES = {
    "a result in an expression": "return self._say(a) + self.m.get(a, 0) * self._bump(a) - self.m.get(a, 0)",
    "a read before a helper that changes it": "return self.m.get(a, 0) + self._bump(a) + self.m.get(a, 0)",
    "nested calls": "return self._bump(self._bump(self._say(a)), by=self._say(b))",
    "a statement": "self._bump(a)\nself._bump(a, b)\nself._say(b)",
    "an if": "if self._bump(a):\n    return self._say(1)\nelif self._bump(b) > 1:\n    return self._say(2)",
    "and, or": "x = a and self._say(b) and self._bump(a)\ny = a > 2 or b or self._say(0) or self._bump(b)\nreturn x, y",
    "a choice": "return self._say(1) if self._bump(a) else self._say(2)",
    "a chain": "return self._say(a) < self._say(b) < self._say(9) != self._bump(a)",
    "a chain that stays": "return self._say(a) < b < 5",
    "a while": "while self._bump(a) < 4:\n    if self._say(b) == 2:\n        continue\n    if b == 4:\n        break",
    "a while with else": (
        "for i in range(2):\n"
        "    while self._bump(a) < i + b:\n"
        "        if self.m[a] == 3:\n            break\n"
        "    else:\n"
        "        self._say(99)\n"
        "        if i:\n            break\n"
        "    self._say(i)\n"
        "return i"
    ),
    "a for": "for x in self._push([a], b):\n    self._say(x)\nelse:\n    self._say(a)",
    "a target of for": "w = [0, 0, 0]\nfor w[self._bump(a) % 3] in (1, 2):\n    self._say(w[0])\nreturn w",
    "formatted before it changes": "w = [a]\nreturn f'{w}{self._push(w, b)}{w!r:>{self._say(20)}}'",
    "unpacked before it changes": "w = [a]\nreturn [*w, self._push(w, b), *w]",
    "unpacked into a call": "w = [a]\nreturn max(*w, 0, *self._push(w, b), *w)",
    "a dict": "d = {'x': a}\nreturn {**d, self._say(a): self._say(b), **{'x': self._bump(a)}}",
    "keywords": "d = {'default': a}\nreturn max([], **d), max([], default=self._bump(a)), dict(**d, x=self._bump(a))",
    "augmented": "self.m[a] = b\nself.m[a] += self._bump(a) * 10\nreturn self.m[a]",
    "augmented in place": "w = [a]\nx = w\nw += self._push(w, b)\nreturn x, w is x",
    "augmented by a key": "self.m[self._say(a)] = 0\nself.m[self._say(a)] += self._say(b)\nreturn self.m[a]",
    "an augmented item": "w = [1, 2]\nw[self._say(a) % 2] *= self._push(w, b)[0] + w[0]\nreturn w",
    "two targets": "w = [0] * 9\nw[self._bump(a)] = x = w[self._bump(a)] = [self._say(b)]\nreturn w, x is w[1]",
    "unpacking": "a, self.m[self._say(a)] = b, self._say(a)\nreturn a",
    "nested unpacking": "(x, *self.d[self._say(a)]), [self.m[self._say(x)], y] = (b, a, a), (a, b)\nreturn x, y",
    "a deletion": "self._bump(a)\nself._bump(b)\ndel self.m[self._say(a)], a\nreturn b",
    "a slice": "w = list(range(9))\nreturn w[self._say(a) : self._say(b) : self._say(1)]",
    "a method call": "w = [b]\nw.append(self._say(a))\nw.insert(len(w), self._push(w, a)[0])\nreturn w",
    "an assert": "assert self._say(a) < 3, self._say('too much')\nassert b < 9, f'{self._bump(a)}'",
    "a raise": "if b > 3:\n    raise ValueError(self._say(a)) from ValueError(self._say(b))",
    "a walrus": "x = b\nreturn max(x, (x := self._say(a)), x, (x := 3), self._bump(x), x)",
    "a with": "w = []\nwith Named(self._push(w, a)) as n, Named(self._push(w, b)):\n    self._say(b)\nreturn n.names",
    "a try": (
        "try:\n    x = 10 // self._say(a) + self.m[self._say(b)]\nexcept ZeroDivisionError:\n    x = self._say(-1)\n"
        "except KeyError as e:\n    x = self._say(str(e))\nelse:\n    self._say('fine')\nfinally:\n    self._bump(b)\n"
        "return x"
    ),
    "a match": (
        "match self._bump(a), b:\n    case 0, n if n:\n        return self._say(n)\n    case n, _:\n        return n"
    ),
    "a first iterable": "return [x + a for x in self._push([a], b) if x]",
    "a comparison with in": "return self._say(a) in self.m, self._bump(a) in self.m, a in self._push([], a)",
    "a helper called twice": "return self._push([a], b), self._push([b], a)",
    "the same list": "w = [a]\nx = self._push(w, b)\nreturn x is w, w",
    "a class method": "return self._limited(self._say(a) + self._say(b)), self._limited(b * 2)",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_call_may_stand_anywhere(body, tmp_path):
    assert_same(STATE + entry(body), tmp_path)


HELPERS = {
    "an early return": "if p > 2:\n    return self._say(p)\nself.m[p] = q\nreturn q",
    "returns in all branches": "if p > 2:\n    return self.m.get(p)\nelif q:\n    return q\nelse:\n    return -1",
    "a branch that goes on": "if p > 1:\n    if q:\n        return 1\n    self._say(2)\nx = self._bump(p)\nreturn x",
    "no return on one path": "if p:\n    return self._bump(p)\nself._say(0)",
    "a bare return": "if p:\n    self._bump(p)\n    return\nself._say(0)\nreturn None",
    "a return from a loop": "for i in range(q):\n    if self._bump(i) > p:\n        return i\nreturn -1",
    "a loop at the end": "for i in range(q):\n    if self._bump(i) > p:\n        return i",
    "a return from two loops": (
        "for i in range(p):\n    for j in range(q):\n        if self._bump(i) > j:\n            return i, j\n"
        "        if j == 3:\n            break\n"
        "    else:\n        self._say(i)\n        if i == 2:\n            return 'else'\n"
        "    self._say('after')\nelse:\n    self._say('end')\nreturn None"
    ),
    "a return from a while": "n = 0\nwhile True:\n    n += 1\n    if self._bump(p) + n > q:\n        return n",
    "a return from a try": (
        "try:\n    if p > 2:\n        return 10 // self._say(q)\n"
        "except ZeroDivisionError:\n    return self._say('zero')\n"
        "else:\n    self._say('else')\nfinally:\n    self._say('last')\nself._bump(p)\nreturn p"
    ),
    "a return from a with": (
        "w = []\nwith Named(w):\n    if p:\n        return self._say(q), w\nself._say('after')\nreturn w"
    ),
    "a with that swallows": "w = []\nwith Named(w):\n    return [][self._say(p)]\nreturn w",
    "a return from a match": (
        "match p, q:\n    case 1, n:\n        return self._say(n)\n    case (n, 0):\n        self._say(0)\n"
        "    case [x, *y]:\n        return x, y\nreturn self._bump(p)"
    ),
    "a raise": "if p > 2:\n    raise ValueError(self._say(p))\nif q:\n    return p\nraise LookupError(self._say(q))",
    "unbound": "if p > 2:\n    late = self._say(p)\nreturn late",
    "deleted": "x = self._say(p)\nif q:\n    del x\nreturn x",
    "a parameter that changes": "p += self._bump(p)\nq = p + q\nreturn p, q",
    "names of the caller": "a = self._say(p)\nb = a + q\nt = [a for a in range(b)]\nreturn t",
    "a comprehension over its own name": "p = [self._say(p)]\nreturn [p for p in p], {q: p for q in p}, p",
    "a lambda": "x = self._say(p)\nf = lambda y, q=q: x + y + q\nx = self._bump(p)\nreturn f(1), f(1, q=2), f(y=5)",
    "a function": "x = self._say(p)\ndef f(y):\n    z = y\n    return [x, z, q]\nx = 3\nreturn f(p)",
    "captures": "match [p, q]:\n    case [first, *rest] as both:\n        return self._say((first, rest, both))",
    "a handler's name": (
        "try:\n    return 1 // self._say(p)\nexcept ZeroDivisionError as e:\n    return self._say(str(e))"
    ),
    "hints": "x: Unknown = self._say(p)\ny: Unknown\nreturn x",
    "static helpers and modules": "return double(self._say(p)), self._limited(self._bump(q)), self.LIMIT",
    "nothing": "'''Only words.'''\nself.m",
}
USES = [
    "return self._h(a, b)",
    "self._h(a, b)\nreturn self._h(b, a)",
    "for i in range(3):\n    t = self._h(i, b)\nreturn t",
]


@pytest.mark.parametrize("use", USES, ids=["once", "twice", "in a loop"])
@pytest.mark.parametrize("body", HELPERS.values(), ids=HELPERS)
def test_a_helper_may_be_written_anyhow(body, use, tmp_path):
    if "lambda y" in body or "def f" in body:
        use = use.replace("for i in range(3):\n    t =", "i = 1\nt =")
    assert_same(STATE + helper("_h(self, p, q)", body) + entry(use), tmp_path)


SIGNATURES = {
    "defaults": ("_h(self, p, q=3, *, r=None)", ["a", "a, b", "p=a", "a, r=b", "r=self._say(1), q=self._say(2), p=a"]),
    "rest": ("_h(self, p, *q, r=1)", ["a", "a, b, self._say(3)", "a, self._say(b), a, r=self._say(5)"]),
    "others": ("_h(self, p, **q)", ["a", "x=self._say(1), p=self._say(2), y=b"]),
    "by place": ("_h(self, p, /, q=(1, 'x'), **r)", ["a", "a, p=b", "a, q=self._say(b), p=self._say(a)"]),
    "self by place": ("_h(self, /, p, q=double)", ["a", "p=a", "a, b"]),
    "another self": ("_h(this, p, self=2)", ["a", "a, b", "a, self=b"]),
    "no values": ("_h(self, p=..., q=-0.5, r=b'x', s=frozenset((1,)))", ["", "a", "s=b"]),
}


@pytest.mark.parametrize(("head", "calls"), SIGNATURES.values(), ids=SIGNATURES)
def test_arguments_go_where_python_puts_them(head, calls, tmp_path):
    own = "this" if "this" in head else "self"
    arguments = ast.parse(f"def {head}: ...").body[0].args
    names = [node.arg for node in ast.walk(arguments) if isinstance(node, ast.arg) and node.arg != own]
    body = f"{own}.said.append(repr([{', '.join(names)}]))"
    lines = [f"x{number} = self._h({call})" for number, call in enumerate(calls)]
    text = STATE + helper(head, f"{body}\nreturn {names[0]}") + entry("\n".join([*lines, "return x0, self.said[-1]"]))
    assert_same(text, tmp_path)


# --- the whole way

WAYS = {
    "a shared change": """
class P(Program):
    stock = Partitioned(Map[str, int])

    def _take(self, item, n=1):
        left = self.stock.get(item, 0)
        if left < n:
            return False
        self.stock[item] = left - n
        return True

    @entry
    def add(self, item: str, n: int) -> int:
        self.stock[item] = self.stock.get(item, 0) + n
        return self._left(item)

    def _left(self, item):
        return self.stock.get(item, 0)

    @entry
    def buy(self, item: str, n: int) -> str:
        if not self._take(item, n) and not self._take(item):
            return f"{self._left(item)} left"
        while self._left(item) > 5:
            self._take(item, n=2)
        return "bought"
""",
    "several keys": """
class P(Program):
    parent = Partitioned(Map[str, str])
    size = Partitioned(Counter[str])

    def _count(self, group, n):
        self.size[group] += n
        return self.size[group]

    def _group(self, name):
        found = self.parent.get(name)
        return name[:1] if found is None else found

    @entry
    def add(self, name: str, n: int) -> int:
        return self._count(self._group(name), n) if n > 1 else -1

    @entry
    def buy(self, name: str, n: int) -> int:
        self.parent[name] = str(n)
        total = 0
        for part in [name, name * 2]:
            total += n
        return total + self._count(name, total)
""",
    "a fan-out": """
class P(Program):
    counts = Partitioned(Counter[str])

    @classmethod
    def _clean(cls, word):
        return word.strip(cls.DOTS)

    DOTS = ".!"

    def _see(self, word, by=1):
        self.counts[word] += by

    @entry
    def add(self, text: str, n: int) -> None:
        for word in text.split("a"):
            self._see(self._clean(word), by=n)

    @entry
    def buy(self, text: str, n: int) -> int:
        return self._seen(text) + self._deep(n)

    def _seen(self, word):
        return self.counts[word]

    def _deep(self, n):
        return n and 1 + self._deep(n - 1)
""",
    "merging": """
class P(Program):
    hits = Partial(Counter[str])

    def _total(self, name):
        answers = each(self.hits).get(name, 0)
        return merged(answers, sum)

    @entry
    def add(self, name: str, n: int) -> None:
        self.hits[name] += n

    @entry
    def buy(self, name: str, n: int) -> int:
        return self._total(name) * n
""",
}
ROWS = [("ab", 3), ("b", 1), ("ab", 9), ("banana!", 2), ("b", 0), ("ab", 4), ("b", 12), ("ab", 1)]


@pytest.mark.parametrize("text", WAYS.values(), ids=WAYS)
def test_a_program_with_helpers_runs_as_plain_python(text, tmp_path):
    program = program_in(load(text, tmp_path))
    plain, sequential = program(), Sequential(compile_program(program))
    for number, row in enumerate(ROWS * 2):
        name = ("add", "buy", "add")[number % 3]
        assert sequential.call(name, *row) == getattr(plain, name)(*row)


# --- names and lines

BASE = """
LIMIT = 10
WORDS = ("base",)


def scale(n):
    return n * 100


class Base(Program):
    m = Partitioned(Map[int, int])

    def _raise(self, k, n):
        old = self.m.get(k, 0)
        self.m[k] = old + n // (LIMIT - n)
        return scale(self.m[k]), WORDS, len(WORDS)
"""


def test_a_helper_of_another_module_keeps_its_own_names_and_shows_its_own_lines(tmp_path):
    base = load(BASE, tmp_path)
    text = (
        f"from {base.__name__} import Base\nLIMIT = 3\nWORDS = ()\n"
        "def scale(n):\n    return -n\n\n"
        "class P(Base):\n"
        "    @entry\n    def go(self, old: int, n: int) -> object:\n"
        "        return self._raise(old, n), LIMIT, scale(n), WORDS\n"
    )
    program = program_in(load(text, tmp_path))
    plain, sequential = program(), Sequential(compile_program(program))
    for row in [(1, 2), (1, 3), (2, 9)]:
        assert sequential.call("go", *row) == plain.go(*row)
    with pytest.raises(ZeroDivisionError) as raised:
        sequential.call("go", 1, 10)
    assert traceback.extract_tb(raised.value.__traceback__)[-1].name == "go_0"

    (method,) = draft_program(program, inline).methods
    (division,) = (node for node in ast.walk(method.tree) if isinstance(getattr(node, "op", None), ast.FloorDiv))
    place = method.source.place(division)
    assert place.file == base.__file__
    assert place.text == "        self.m[k] = old + n // (LIMIT - n)"
    assert place.line == (HEAD + BASE).splitlines().index(place.text) + 1
    assert method.source.place(method.tree.body[-1]).text.endswith("LIMIT, scale(n), WORDS")


@pytest.mark.parametrize("above", [True, False], ids=["above", "below"])
def test_a_traceback_shows_the_helpers_own_line(above, tmp_path):
    own = helper("_check(self, k)", "if k > 2:\n    raise ValueError(self.m.get(k))\nreturn k")
    go = entry("x = self._check(a)\nreturn x")
    program = program_in(load(STATE + (own + go if above else go + "\n" + own), tmp_path))
    with pytest.raises(ValueError, match="None") as raised:
        Sequential(compile_program(program)).call("go", 3, 0)
    assert traceback.extract_tb(raised.value.__traceback__)[-1].line == "raise ValueError(self.m.get(k))"


def fast(text):
    """Let an entry point ask for a faster way than in sequence."""
    return text.replace("@entry\n", '@entry(way="gathered")\n')


def test_an_error_in_a_helper_is_shown_at_the_helpers_line(tmp_path):
    program = program_in(
        load(STATE + fast(entry("return self._all()")) + "\n" + helper("_all(self)", "return len(self.m)"), tmp_path)
    )
    with pytest.raises(ProgramError) as refused:
        compile_program(program)
    assert refused.value.code == "MP132"
    assert refused.value.places[0].text == "        return len(self.m)"


def test_a_closure_of_a_helper_is_kept(tmp_path):
    text = (
        "def made(step):\n"
        "    class P(Program):\n"
        "        m = Partitioned(Map[int, int])\n"
        "        def _up(self, k):\n"
        "            self.m[k] = self.m.get(k, 0) + step\n"
        "            return self.m[k]\n"
        "        @entry\n"
        "        def go(self, k: int, step: int) -> object:\n"
        "            return self._up(k), step\n"
        "    return P\n"
        "Made = made(5)\n"
        "Made.__module__ = __name__\n"
    )
    program = load(text, tmp_path).Made
    plain, sequential = program(), Sequential(compile_program(program))
    assert (
        [sequential.call("go", 1, 2), sequential.call("go", 1, 3)]
        == [plain.go(1, 2), plain.go(1, 3)]
        == [(5, 2), (10, 3)]
    )


@pytest.mark.parametrize(
    ("helpers", "code"),
    [
        (helper("_h(self, a)", "self.m[a] = 1\nreturn self.go(a, a)"), "MP119"),
        (helper("_h(self, a)", "return (lambda: self.m[a])()"), "MP112"),
        (helper("_h(self, a)", "global LIMIT\nLIMIT = self.m[a]"), "MP113"),
        (helper("_h(self, a)", "import math\nreturn math.floor(self.m[a])"), "MP123"),
        (helper("_h(self, a)", "yield self.m[a]"), "MP111"),
        (helper("_h(self, a)", "return double(self) + self.m[a]"), "MP116"),
        (helper("_h(self, a)", "return super()._bump(self.m[a])"), "MP116"),
        (helper("_h(self, a)", "self.m[a] = hash(a)"), "MP117"),
        ("    @double\n" + helper("_h(self, a)", "return self.m[a]"), "MP118"),
        (helper("_h()", "return 1"), "MP115"),
        (helper("_h(self, a)", "return self.m[a] + self.nothing"), "MP115"),
        (helper("_h(self, a)", "self.m[a] = 1\nself.LIMIT = 2"), "MP114"),
        (helper("_h(self, a, b=dict())", "return self.m[a]"), "MP129"),
        (helper("_h(self, a)", "with Named([]), Named([]):\n    return self.m[a]\nreturn 1"), "MP173"),
        (helper("_h(self, a)", "try:\n    pass\nexcept self._bump(a):\n    pass"), "MP170"),
        (helper("_h(self, a)", "return sorted([a], key=self._bump)"), "MP171"),
        (helper("_h(self, a, *, b)", "return self.m[a]"), "MP128"),
    ],
)
def test_a_helper_that_has_no_place_is_refused_with_a_code_and_a_line(helpers, code, tmp_path):
    text = STATE + helpers + fast(entry("return self._h(a)"))
    if "@double" in helpers:
        text = text.replace("    return x * 2", "    return x")
    with pytest.raises(ProgramError) as refused:
        compile_program(program_in(load(text, tmp_path)))
    assert refused.value.code == code
    assert refused.value.places


def test_helpers_that_grow_without_bound_are_refused(tmp_path):
    calls = "\n".join(["self._bump(a)"] * (CALLS_MAX + 1))
    assert_same(STATE + entry(calls.removeprefix("self._bump(a)\n")), tmp_path)
    with pytest.raises(ProgramError, match="MP172"):
        written_out(program_in(load(STATE + fast(entry(calls)), tmp_path)))


def test_helpers_without_state_stay_calls(tmp_path):
    text = STATE + helper("_fact(self, n)", "return n * self._fact(n - 1) if n else 1") + entry("return self._fact(a)")
    program = program_in(load(text, tmp_path))
    (method,) = draft_program(program, inline).methods
    assert ast.unparse(method.tree.body[0]) == "return self._fact(a)"
    assert Sequential(compile_program(program)).call("go", 5, 0) == 120
