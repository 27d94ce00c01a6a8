"""Objects under several names where a method is cut: whatever way a program finds to share them, it runs as in Python.

Every way to share one object is tried in every place where it could be seen: a change behind the cut, a change by other
rows before the message is written, and a return. What the compiler can't take, it must refuse.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import pytest

from tests.fuzz.compare import Verdict, compare

HEAD = """
from __future__ import annotations
import collections
from dataclasses import dataclass
from typing import Any
from millpond import Counter, Map, Partial, Partitioned, Program, entry

def same(x):
    return x

def put(y, x):
    y.append(x)

@dataclass
class Box:
    inside: Any
    def get(self):
        return self.inside

class Sharing(Program):
    a = Partitioned(Map[int, int])
    b = Partitioned(Map[int, int])
    m = Partitioned(Map[int, list[int]])
    n = Partitioned(Map[int, list[list[int]]])
    here = Partial(Counter[int])

    @entry
    def go(self, k: int, j: int) -> str:
"""
ROWS = tuple(("go", (k, j)) for k in range(3) for j in range(3)) * 2
CUT = "self.a[j] = self.a.get(j, 0) + 1\nself.here[j] += 1"
"""The partial element keeps the method from being gathered instead of cut."""

OTHER_CUT = "self.b[k] = self.b.get(k, 0) + 1"
STORED = "self.m.setdefault(k, [])"

HOLDERS = {
    "append": f"out = []\nout.append({STORED})",
    "extend": f"out = []\nout.extend([{STORED}])",
    "insert": f"out = []\nout.insert(0, {STORED})",
    "augmented": f"out = []\nout += [{STORED}]",
    "defaultdict": f"out = collections.defaultdict(list)\nout[0] = {STORED}",
    "next": f"out = [next(iter([{STORED}]))]",
    "sorted": f"out = sorted([{STORED}])",
    "max": f"out = [max({STORED}, [])]",
    "zip": f"out = list(zip([{STORED}], [1]))[0]",
    "attribute": f"box = Box(None)\nbox.inside = {STORED}\nout = [box.inside]",
    "method": f"out = [Box({STORED}).get()]",
    "keyword": f"out = [Box(inside={STORED}).get()]",
    "function": f"out = []\nput(out, {STORED})",
    "given back": f"out = [same({STORED})]",
    "lambda": f"out = [(lambda x: x)({STORED})]",
    "comprehension": f"out = [x for x in [{STORED}]]",
    "loop": f"out = []\nfor x in [{STORED}]:\n    out.append(x)",
    "slice": f"kept = [{STORED}]\nout = kept[:]",
    "sum": f"out = [] + [{STORED}]",
    "times": f"out = [{STORED}] * 2",
    "copy": f"out = [{STORED}].copy()",
    "tuple": f"out = ({STORED}, 1)",
    "star": f"out = [*[{STORED}]]",
    "unpacked": f"one, two = {STORED}, 1\nout = [one]",
    "values": f'named = {{"q": {STORED}}}\nout = list(named.values())',
    "get": f'named = {{"q": {STORED}}}\nout = [named.get("q")]',
    "setdefault": f'named = {{}}\nout = [named.setdefault("q", {STORED})]',
    "walrus": f"out = [(x := {STORED})]",
    "conditional": f"out = [{STORED} if k >= 0 else []]",
    "or": f"out = [None or {STORED}]",
}
"""Ways to have an object of state in `out[0]`."""

CHANGES = {
    "by another name": "other = out\nother.append(j)",
    "in a loop": "for other in [out]:\n    other.append(j)",
    "by a function": "put(out, j)",
    "by a keyword": "put(x=j, y=out)",
    "in a comprehension": "[other.append(j) for other in [out]]",
    "by a lambda": "(lambda: out.append(j))()",
    "augmented": "out += [j]",
}
"""Ways to change `out` behind a cut."""

LOCALS = {
    "two names": "x = [1]\ny = x",
    "append": "x = [1]\ny = []\ny.append(x)",
    "item": 'x = [1]\ny = {}\ny["q"] = x',
    "setdefault": 'y = {}\nx = y.setdefault("q", [])',
    "slice": "y = [[1]]\nx = y[:][0]",
    "zip": "x = [1]\ny = list(zip([x], [x]))",
    "function": "x = [1]\ny = []\nput(y, x)",
    "repeated": "y = [[0]] * 3\nx = y[0]",
    "fromkeys": 'y = dict.fromkeys("ab", [])\nx = y["a"]',
    "dataclass": "x = [1]\ny = Box(x)",
    "nested": "x = [1]\ny = ([x], {2: (x, [x])})",
}
"""Ways to have one object as `x` and in `y`, both of the row alone."""

PARTS = {
    "list": "outer = list(self.n.setdefault(k, [[]]))\nx = outer[0]",
    "comprehension": "outer = [one for one in self.n.setdefault(k, [[]])]\nx = outer[0]",
    "slice": "outer = self.n.setdefault(k, [[]])[:]\nx = outer[0]",
    "item": "x = self.n.setdefault(k, [[]])[0]",
}
"""Ways to have a part of a value of state as `x`."""

TWO_PLACES = {
    "append": "self.n.setdefault(k, []).append(x)",
    "insert": "self.n.setdefault(k, []).insert(0, x)",
    "extend": "self.n.setdefault(k, []).extend([x])",
    "list": "self.n[k] = [x]",
    "by name": "y = [x]\nself.n[k] = y",
    "put in": "y = []\ny.append(x)\nself.n[k] = y",
}
"""Ways to put `x` into a value of state."""


def _shared() -> Iterator[tuple[str, str]]:
    for name, way in HOLDERS.items():
        yield f"changed behind the cut, {name}", f"{way}\n{CUT}\nout[0].append(j)\nreturn repr(out)"
        yield f"changed by others, {name}", f"{way}\nself.m[k].append(j)\n{CUT}\nreturn repr(out)"
    for name, way in CHANGES.items():
        yield f"changed {name}", f"out = same({STORED})\n{CUT}\n{way}\nreturn repr(out)"
    for name, way in LOCALS.items():
        yield f"of the row, {name}", f"{way}\n{CUT}\n{OTHER_CUT}\nx.append(2)\nreturn repr((x, y))"
    for name, way in PARTS.items():
        yield f"a part, {name}", f"{way}\n{CUT}\nx.append(j)\nreturn repr(x)"
        yield f"a part that is told, {name}", f"{way}\nx.append(j)\nreturn repr(x)"
    stored = "out = []\nx = [j]\nout.append(x)\nself.m[k] = x"
    yield "stored and put elsewhere", f"{stored}\n{CUT}\nout[0].append(5)\nreturn repr(out)"
    yield "NaN", f'x = float("nan")\ny = [x]\n{CUT}\n{OTHER_CUT}\nreturn repr((x in y, y.count(x)))'


SHARED = dict(_shared())
FEW = ("changed behind the cut, append", "changed by others, given back", "of the row, repeated", "a part, list", "NaN")


def check(body: str) -> None:
    """Compare, cut and gathered."""
    for text in (body, body.replace("self.here[j] += 1\n", "")):
        for seed in range(3):
            outcome = compare(HEAD + textwrap.indent(text, " " * 8) + "\n", ROWS, seed)
            assert outcome.verdict in {Verdict.SAME, Verdict.REFUSED}, (outcome.what, outcome.expected, outcome.found)


@pytest.mark.parametrize("body", [pytest.param(SHARED[name], id=name) for name in FEW])
def test_some_ways_to_share_an_object_run_as_in_plain_python(body):
    check(body)


@pytest.mark.slow
@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in SHARED.items() if name not in FEW])
def test_every_way_to_share_an_object_runs_as_in_plain_python(body):
    check(body)


@pytest.mark.parametrize("way", [pytest.param(way, id=name) for name, way in TWO_PLACES.items()])
def test_an_object_in_two_places_of_state_is_two_when_the_row_is_over(way):
    more = """
    @entry
    def more(self, j: int) -> str:
        self.m.setdefault(j, []).append(7)
        return ""

    @entry
    def see(self, k: int) -> str:
        return repr(self.n.get(k))
    """
    rows = (("go", (0, 1)), ("more", (1,)), ("see", (0,)), ("go", (1, 2)), ("more", (2,)), ("see", (1,)))
    text = (
        HEAD
        + textwrap.indent(f'x = [j]\n{way}\nself.m[j] = x\nreturn ""\n', " " * 8)
        + textwrap.indent(textwrap.dedent(more), " " * 4)
    )
    outcome = compare(text, rows, 1)
    assert outcome.verdict is Verdict.SAME, (outcome.what, outcome.expected, outcome.found)
