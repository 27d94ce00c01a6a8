"""Random helpers: written out, they do what plain Python does; compiled, too, or they are refused with a code."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from millpond.compiler import compile_program
from millpond.engine.sequential import Sequential
from millpond.errors import ProgramError
from tests.golden.programs import load, program_in
from tests.sizes import some_of
from tests.unit.compiler.inlining import STATE, assert_same, entry, helper, indent, outcome

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

pytestmark = pytest.mark.slow


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
    "{n} = 0\nwhile {n} < 3 and {x} != 99:\n    {n} += 1\n{body}\nelse:\n{other}",
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
            body = block(pick, callee, depth=depth - 1, loop=loop or form.startswith(("for", "{n}")))
            other = block(pick, callee, depth=depth - 1, loop=loop)
            parts |= {"body": indent(body), "deep": indent(body, 2), "other": indent(other)}
            # A counter of its own for each depth, so that every loop comes to an end.
            lines.append(form.format(n=f"n{depth}", **parts))
        else:
            lines.append(pick.choice(PLAIN).format(**parts))
    return "\n".join(lines)


def random_program(pick: Random) -> str:
    start = "t, w = b, [a, b]\nif t == 77:\n    late = 0\n"
    inner = helper("_inner(self, b, a=4)", start + block(pick, "self._bump"))
    outer = helper("_outer(self, a, b)", start + block(pick, "self._inner"))
    return STATE + inner + outer + entry(start + block(pick, "self._outer", depth=1) + "\nreturn t, w")


MANY = settings(
    max_examples=some_of(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@pytest.mark.slow
@MANY
@given(seed=st.integers(0, 2**32))
def test_any_helper_does_what_plain_python_does(tmp_path, seed):
    refused = refusal(lambda: assert_same(random_program(Random(seed)), tmp_path))
    assert refused in {"", "MP123", "MP172", "MP173", "MP174"}


def refusal(run: Callable[[], object]) -> str:
    """The code of the error that a program is refused with, "" if it is not."""
    try:
        run()
    except ProgramError as refused:
        event(f"refused {refused.code}")
        return refused.code if refused.places else "no place"
    return ""


BODIES = (
    "self.m[k] = self.m.get(k, 0) + n\nreturn self.m[k]",
    "if n > 2:\n    return self._bump(k, n)\nreturn self.m.get(k, n)",
    "for i in range(n % 4):\n    if self._bump(k, i) > 5:\n        return i\nreturn n",
    "old = self.m.get(k, n)\nif old % 2:\n    self.m[k] = old + 1\n    if n:\n        return old\nreturn -old",
    "try:\n    return self.m[k] // n\nexcept (KeyError, ZeroDivisionError):\n    self.m[k] = n",
    "while self._bump(k) < n:\n    if self.m[k] == 3:\n        return None\nelse:\n    n += 1\nreturn n",
    "if self.c[n] > 1:\n    return self._bump(k)\nself.c[k] += n\nreturn self.c[k]",
    "for i in (k, n):\n    n += self._bump(i)\n    if n > 6:\n        return i\n    self.c[i] += n\nreturn n",
)
# The turns of all loops depend on each other: a relaxed row does not wait for turns that do not.
USES = (
    "t = {x}",
    "t = ({x}, {y})",
    "t = {x} == {y} or {x}",
    "if {x}:\n    t = {y}",
    "t = {x} and {y}",
    "t = {x} if b > 1 else {y}",
    "for i in range(2):\n    t = (t, {x})",
    "{x}",
    "n = 3\nwhile n and {x} != 4:\n    n -= 1\nelse:\n    {y}",
)


def small_program(pick: Random) -> str:
    """A program whose helpers touch two elements, under one key or several."""
    helpers = [helper(f"_h{number}(self, k, n=1)", pick.choice(BODIES)) for number in range(2)]
    keys = pick.sample(["a", "b", "a % 2", "(a + b) % 3"], pick.randint(1, 2))
    calls = [f"self._h{n}({key}{rest})" for n in range(2) for key in keys for rest in ("", ", b", ", n=a")]
    lines = [pick.choice(USES).format(x=pick.choice(calls), y=pick.choice(calls)) for _ in range(pick.randint(1, 3))]
    bump = helper("_bump(self, k, by=1)", "self.m[k] = self.m.get(k, 0) + by\nreturn self.m[k]")
    body = entry("\n".join(["t = a", *lines, "return t"])).replace("@entry", "@entry(relaxed=True)")
    head = "class P(Program):\n    m = Partitioned(Map[int, int])\n    c = Partitioned(Counter[int])\n\n"
    return head + bump + "".join(helpers) + body


@pytest.mark.slow
@settings(MANY, max_examples=some_of(30))
@given(seed=st.integers(0, 2**32))
def test_a_compiled_program_with_helpers_runs_as_plain_python(tmp_path, seed):
    program = program_in(load(small_program(Random(seed)), tmp_path))
    refused = refusal(lambda: compile_program(program))
    assert refused in {"", "MP153"}
    if refused:
        return
    plain, sequential = program(), Sequential(compile_program(program))
    for a, b in ((0, 0), (1, 2), (2, 1), (3, 4), (1, 0)):
        assert outcome(sequential.call, "go", a, b) == outcome(plain.go, a, b)
