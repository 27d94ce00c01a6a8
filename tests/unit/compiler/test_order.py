"""Statements that are taken apart do what they do in Python's own order.

Each program touches two elements in one statement, beside a part that changes a variable that stands before or after it
in the same statement: walked through, unpacked, written into a text, or read by `+=`.
"""

from __future__ import annotations

import pytest

from tests.fuzz.compare import Verdict, compare
from tests.fuzz.helpers import HEAD

CHANGING = """
from dataclasses import dataclass

def bump(xs: list[int]) -> int:
    xs[0] += 10
    xs.append(9)
    return len(xs)

def bumped(d: dict[str, int]) -> int:
    d["z"] = d.get("z", 0) + 1
    return len(d)

def show(*args, **kwargs) -> str:
    return repr((args, sorted(kwargs.items())))

@dataclass
class Q:
    n: int = 1

    def up(self):
        self.n += 5
        return self.n

class P(Program):
    a = Partitioned(Map[int, int])
    b = Partitioned(Map[int, int])
    c = Partitioned(Map[int, int])

"""
A, B = "self.a.get(k, 0)", "self.b.get(j, 0)"
ROWS = [("go", (k, j)) for k in range(3) for j in range(3)] * 2


def run(body: str, *, relaxed: bool):
    head = f"    @entry{'(relaxed=True)' if relaxed else ''}\n    def go(self, k: int, j: int) -> str:\n"
    lines = ["xs = [k, 4]", 'd = {"x": j}', *body.splitlines(), f"self.b[j] = {B} + 2", "return repr(t)"]
    return compare(HEAD + CHANGING + head + "".join(f"        {line}\n" for line in lines), ROWS, seed=1)


@pytest.mark.parametrize("relaxed", [False, True], ids=["exact", "relaxed"])
@pytest.mark.parametrize(
    "body",
    [
        f"t = [*xs, bump(xs), {A}, {B}]",
        f"t = {A}, *xs, bump(xs), {B}",
        f"t = (1, *xs), bump(xs), {A}, {B}",
        f"t = sorted({{*xs, bump(xs), {A}, {B}}})",
        f"t = [[xs[:], *xs], bump(xs), {A}, {B}]",
        f"t = max({A}, *xs, bump(xs), {B})",
        f"t = show({A}, *xs, bump(xs), {B})",
        f"t = show(*xs, p=bump(xs), q={A}, r={B})",
        f"t = show(1, *xs, p=bump(xs), q={A}, r={B})",
        f't = {{"s": {A}, **d, "q": bumped(d), "r": {B}}}',
        f"t = show(s={A}, **d, q=bumped(d), r={B})",
        f"t = dict(s={A}, **d, q=bumped(d), r={B})",
        f't = f"{{xs}} {{xs.pop()}} {{{A}}} {{{B}}}"',
        f't = f"{{xs!r:>20}} {{xs.pop()}} {{{A}}} {{{B}}}"',
        f't = f"{{k:>{{xs[0] + 3}}}} {{bump(xs)}} {{{A}}} {{{B}:>{{{A} + 9}}}}"',
        f't = f"{{str(xs):>{{bump(xs) + {A} + {B} + 9}}}}"',
        f't = f"{{xs}} {{bump(xs)}} {{{A} if k else 1}} {{{B} if j else 2}}"',
        f't = f"{{xs}} {{bump(xs)}} {{[self.a.get(q, 0) for q in (k,)]}} {{{B}}}"',
        f"t = [*xs, bump(xs), {A} if k else 1, {B} if j else 2]",
        f"t = [sorted({{len(xs)}}), {{len(xs): 1}}, bump(xs), {A}, {B}]",
        f"t = [len(xs) and 1, not xs, xs == [k, 4], 9 in xs, xs[-1], len(xs[1:]), bump(xs), {A}, {B}, xs == [k, 4]]",
        f"t = 0\nfor x in [*xs, bump(xs), {A}, {B}]:\n    t = t * 10 + x",
        f"t = 0\nif [*xs, bump(xs), {A}, {B}][0] == k:\n    t = 1",
        f"t = k, (k := {A} + 5), {B}, k\nk = 0",
        f"t = [k], (k := k + 5), {A}, {B}, k\nk = 0",
        f"t = k, {A} and (k := 7), {B}, k\nk = 0",
        f"k += (k := 3) + {A} + {B}\nt = k",
        f"x = 5\nx, self.c[x + 1] = k, {A}\nt = x",
        f"x = 5\nx, self.c[x] = k, {A}\nt = x",
        f"x = 5\nself.c[x + 1], x = {A}, 6\nt = x",
        "x = 5\nx = self.c[x + 1] = k\nt = x",
        "y = k\nx = y = self.c[y + 1] = y + j + 1\nt = x, y",
        "ks = [k, j]\nself.b[j] = 1\nt = len(ks)\ndel ks[0], self.b[ks[0]]",
    ],
)
def test_what_is_used_at_its_place_is_used_there(body, relaxed):
    outcome = run(body, relaxed=relaxed)
    assert (outcome.verdict, outcome.what, outcome.found) == (Verdict.SAME, "", "")
    assert relaxed or outcome.rows > 9


@pytest.mark.parametrize(
    "body",
    [
        f"xs[0] += {A} + {B}\nt = xs[0]",
        f"xs[len(d)] += {A} + len(xs) + {B}\nt = xs[1]",
        f"self.a.setdefault(k, 1)\nself.b[j] = 2\nself.b[j] += {A}\nt = 0",
    ],
)
def test_an_augmented_assignment_without_side_effects_may_read_late(body):
    assert run(body, relaxed=False).verdict is Verdict.SAME


@pytest.mark.parametrize(
    "body",
    [
        f"xs[0] += bump(xs) + {A} + {B}\nt = xs",
        f"xs[0] += bump(xs) + ({A} if k else 1) + ({B} if j else 2)\nt = xs",
        "[x, (y, self.c[x + y])], *z = [k, (1, j)], 5, 6\nt = x, y, z",
        "x, self.c[bump(xs)], *y = xs\nt = x, y",
        f"q = Q()\nq.n += q.up() + {A} + {B}\nt = q.n",
        f"t = [lambda n=len(xs): n, bump(xs), {A}, {B}]\nt = t[0]()",
    ],
)
@pytest.mark.parametrize("relaxed", [False, True], ids=["exact", "relaxed"])
def test_what_is_read_before_a_change_is_never_read_after_it(body, relaxed):
    outcome = run(body, relaxed=relaxed)
    assert outcome.verdict in (Verdict.SAME, Verdict.REFUSED), outcome


def test_an_augmented_assignment_reads_its_key_before_the_right_side_changes_it():
    outcome = run("self.a[k] = 3\nself.a[k] += self.a.pop(j, 1)\nt = self.a[k]", relaxed=True)
    assert (outcome.verdict, outcome.found) == (Verdict.SAME, "")


def test_what_all_instances_are_asked_with_may_be_unpacked():
    text = """
class P(Program):
    sum_c = Partial(Counter[int])

    @entry
    def go(self, k: int, j: int) -> int:
        self.sum_c[k] += j
        return 0

    @entry
    def ask(self, k: int, j: int) -> int:
        return merged(each(self.sum_c).get(*[k, 0]), sum) + j
"""
    outcome = compare(HEAD + text, [*ROWS, *(("ask", row) for _, row in ROWS)], seed=1)
    assert (outcome.verdict, outcome.found, outcome.rows) == (Verdict.SAME, "", 36)
