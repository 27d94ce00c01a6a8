"""Helpers that touch state: written out in the entry point, they do what plain Python does."""

from __future__ import annotations

import ast
import importlib
import sys
import traceback
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from millpond.compiler import compile_program
from millpond.compiler.codegen import make_function
from millpond.compiler.compile import draft_program
from millpond.compiler.inline import CALLS_MAX, inline
from millpond.errors import ProgramError, StateError
from millpond.program import ProgramBase
from millpond.runtime.sequential import Sequential
from tests.golden.programs import HEAD, load, program_in

STATE = """
class Named:
    def __init__(self, names):
        self.names = names

    def __repr__(self):
        return f"Named({self.names})"

    def __enter__(self):
        self.names.append("in")
        return self

    def __exit__(self, kind, error, trace):
        self.names.append("out")
        return kind is LookupError


def double(x):
    return x * 2


class P(Program):
    m = Partitioned(Map[int, int])
    d = Partitioned(Map[int, list[int]])
    said = Partitioned(List[str])
    LIMIT = 7

    def _say(self, n):
        self.said.append(repr(n))
        return n

    def _bump(self, k, by=1):
        old = self.m.get(k, 0)
        self.m[k] = old + by
        return old

    def _push(self, w, n):
        w.append(n)
        self.said.append(repr(w))
        return w

    @classmethod
    def _limited(cls, n):
        return min(n, cls.LIMIT)
"""


def indent(text: str, by: int = 1) -> str:
    return "\n".join("    " * by + line for line in text.splitlines())


def entry(body: str, name: str = "go") -> str:
    return indent(f"@entry\ndef {name}(self, a: int, b: int) -> object:\n{indent(body)}") + "\n"


def helper(head: str, body: str) -> str:
    return indent(f"def {head}:\n{indent(body)}") + "\n\n"


def written_out(program: type[ProgramBase]) -> type[ProgramBase]:
    """The program with its helpers written out in its entry points, as a class of plain Python."""
    draft = draft_program(program, inline)
    methods = {}
    for method in draft.methods:
        assert not [n for n in ast.walk(method.tree) if isinstance(n, ast.Attribute) and n.attr in ("_say", "_bump")]
        method.tree.decorator_list = []
        method.tree.returns = None
        for argument in method.tree.args.args:
            argument.annotation = None
        methods[method.name] = make_function(method.tree, method, {})
    return type("Written", (program,), methods)


def outcome(function: Callable[..., Any], *args: Any) -> str:
    try:
        return repr(function(*args))
    except UnboundLocalError:
        return "UnboundLocalError"
    except (ArithmeticError, LookupError, TypeError, ValueError, AssertionError, StateError) as error:
        return repr(error)


def state_of(program: ProgramBase) -> str:
    return repr({name: repr(vars(program)[name]) for name in program.elements()}) + repr(list(program.said))


def assert_same(text: str, tmp_path, calls=((0, 0), (1, 2), (2, 1), (3, 4), (1, 0), (4, 9))) -> None:
    program = program_in(load(text, tmp_path))
    plain, written = program(), written_out(program)()
    for a, b in calls:
        assert outcome(written.go, a, b) == outcome(plain.go, a, b)
        assert state_of(written) == state_of(plain)


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
    "a match": "match self._bump(a), b:\n    case 0, n if n:\n        return self._say(n)\n    case n, _:\n        return n",
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
        "        if j == 3:\n            break\n    else:\n        self._say(i)\n        if i == 2:\n            return 'else'\n"
        "    self._say('after')\nelse:\n    self._say('end')\nreturn None"
    ),
    "a return from a while": "n = 0\nwhile True:\n    n += 1\n    if self._bump(p) + n > q:\n        return n",
    "a return from a try": (
        "try:\n    if p > 2:\n        return 10 // self._say(q)\nexcept ZeroDivisionError:\n    return self._say('zero')\n"
        "else:\n    self._say('else')\nfinally:\n    self._say('last')\nself._bump(p)\nreturn p"
    ),
    "a return from a with": "w = []\nwith Named(w):\n    if p:\n        return self._say(q), w\nself._say('after')\nreturn w",
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
    "a handler's name": "try:\n    return 1 // self._say(p)\nexcept ZeroDivisionError as e:\n    return self._say(str(e))",
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


# --- random helpers and expressions

LEAVES = ["a", "b", "t", "2", "self._say(a)", "self._say(1)", "self._bump(a)", "self._bump(b, t)", "w[0]"]
FORMS = (
    "({x} + {y})",
    "({x} - {y} * {z})",
    "({x} and {y})",
    "({x} or {y} or {z})",
    "({x} and {y} and {z})",
    "({x} if {y} else {z})",
    "({x} < {y} < {z})",
    "({x} == {y})",
    "(not {x})",
    "max({x}, {y})",
    "max({x}, *w, {y})",
    "[{x}, *w, {y}][-1]",
    "len(f'{{w}}{{self._push(w, a)}}{{w}}{{self._bump(b)}}')",
    "{{0: {x}, {y}: {z}, **{{1: {x}}}}}[0]",
    "sum([n + t for n in self._push(w, t) if n])",
    "(t := {x})",
    "w[{x} % 2]",
    "len(self._push(w, {x})[-3:])",
    "self._say({x})",
    "self._bump({x} % 3, by={y} % 5)",
    "self.m.get({x} % 3, {y})",
    "self._limited({x})",
    "{h}({x}, {y})",
)


def expression(pick: Random, callee: str, depth: int = 2) -> str:
    if depth == 0 or pick.random() < 0.25:
        return pick.choice(LEAVES)
    parts = {name: expression(pick, callee, depth - 1) for name in "xyz"}
    return pick.choice(FORMS).format(h=callee, **parts)


PLAIN = (
    "t = {x}",
    "t += {x}",
    "self.m[{x} % 3] = {y}",
    "self.m[0] = {x}\nself.m[0] += {y}",
    "w[{x} % 2] += {y}",
    "t, w[{x} % 2] = {y}, {z}",
    "w[{x} % 2] = t = w[{y} % 2] = {z}",
    "w = [{x}, {y}]",
    "w = w[{x} % 2 :] + [{y}, 1]",
    "assert {x} != 99, {y}",
    "{x}",
    "late = {x}",
    "t = late",
)
BLOCKS = (
    "if {x}:\n{body}",
    "if {x}:\n{body}\nelse:\n{other}",
    "if {x}:\n{body}\nelif {y}:\n{other}",
    "for t in range({x} % 4):\n{body}",
    "for w[{x} % 2] in (1, 2):\n{body}\nelse:\n{other}",
    "n = 0\nwhile n < 3 and {x} != 99:\n    n += 1\n{body}\nelse:\n{other}",
    "try:\n{body}\n    t = 6 // {x}\nexcept ZeroDivisionError:\n{other}\nelse:\n    t = {y}\nfinally:\n    t = {z}",
    "with Named([{x}]) as t:\n{body}\nt = 1",
    "match {x}, {y}:\n    case 0, n:\n{deep}\n    case n, 1:\n        t = n\n    case _:\n        t = {z}",
)


def block(pick: Random, callee: str, *, depth: int = 2, loop: bool = False) -> str:
    lines = []
    for _ in range(pick.randint(1, 3)):
        parts = {name: expression(pick, callee) for name in "xyz"}
        kind = pick.randrange(10)
        if kind == 0:
            lines.append(f"return {parts['x']}")
        elif kind == 1 and loop:
            lines.append(pick.choice(["break", "continue"]))
        elif kind < 5 and depth:
            form = pick.choice(BLOCKS)
            body = block(pick, callee, depth=depth - 1, loop=loop or form.startswith(("for", "n = 0")))
            other = block(pick, callee, depth=depth - 1, loop=loop)
            lines.append(form.format(body=indent(body), deep=indent(body, 2), other=indent(other), **parts))
        else:
            lines.append(pick.choice(PLAIN).format(**parts))
    return "\n".join(lines)


def random_program(pick: Random) -> str:
    start = "t, w = b, [a, b]\nif t == 77:\n    late = 0\n"
    inner = helper("_inner(self, b, a=4)", start + block(pick, "self._bump"))
    outer = helper("_outer(self, a, b)", start + block(pick, "self._inner"))
    return STATE + inner + outer + entry(start + block(pick, "self._outer", depth=1) + "\nreturn t, w")


MANY = settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@MANY
@given(seed=st.integers(0, 2**32))
def test_any_helper_does_what_plain_python_does(tmp_path, seed):
    try:
        assert_same(random_program(Random(seed)), tmp_path)
    except ProgramError as refused:
        event(f"refused {refused.code}")
        assert refused.places
        assert refused.code in {"MP123", "MP172", "MP173", "MP174"}
