"""An object that unknown code made, stored in two places with a move between them, is one object until the row ends."""

from __future__ import annotations

import pytest

from millpond.testing import assert_equals_plain, simulate
from tests.fuzz.loading import loaded

MODULE = """import functools
from dataclasses import dataclass, field
from millpond import Counter, Map, Partitioned, Program, Value, entry

@dataclass
class Box:
    v: int
    log: list[int] = field(default_factory=list)
    def __post_init__(self): self.log.append(self.v)

class Own:
    v: int
    log: list[int]
    def __init__(self, v: int) -> None:
        self.v = v
        self.log = [v]

def picked(xs: list[int]) -> list[int]:
    try:
        return xs
    finally:
        pass

class P(Program):
    a = Partitioned(Map[int, {kind}])
    b = Partitioned({place})
    hits = Partitioned(Counter[str])

    @entry
    def go(self, k: int, w: str) -> str:
        x = {made}
        {stored}
        {changed}
        return {shown}

    @entry
    def of_a(self, k: int) -> str:
        x = self.a.get(k)
        return "" if x is None else {shown}
"""

APPEND = ("Map[str, {}]", "self.b[w] = x", "self.b[w].log.append(5)", "str([x.v, x.log])")
CASES = {
    "a dataclass that completes itself": ("Box", "self.a[k] = x = Box(k)", *APPEND),
    "a plain class": ("Own", "self.a[k] = x = Own(k)", *APPEND),
    "an attribute": ("Own", "self.a[k] = x = Own(k)", *APPEND[:2], "self.b[w].v = 100", APPEND[3]),
    "a move between": ("Own", "self.a[k] = x = Own(k)", APPEND[0], "self.hits[w] += 1; self.b[w] = x", *APPEND[2:]),
    "in a dict": (
        "Own",
        "self.a[k] = x = Own(k)",
        "Map[str, dict[str, Own]]",
        "self.b.setdefault(w, {})['x'] = x",
        "for y in self.b[w].values(): y.log.append(5)",
        APPEND[3],
    ),
    "a value": (
        "Own",
        "self.a[k] = x = Own(k)",
        "Value[list[Own]]",
        "self.b.set([x])",
        "for y in self.b.get([]): y.v = 50",
        APPEND[3],
    ),
    "what a helper gives of state": (
        "list[int]",
        "picked(self.a.setdefault(k, [k]))",
        "Map[str, list[int]]",
        "self.b[w] = x",
        "self.b[w].append(5)",
        "str(x)",
    ),
    "what a library gives of state": (
        "list[list[int]]",
        "functools.reduce(lambda p, q: q, self.a.setdefault(k, [[k]]), [9])",
        "Map[str, list[int]]",
        "self.b[w] = x",
        "self.b[w].append(5)",
        "str(x)",
    ),
}
ROWS = [("go", 1, "a"), ("of_a", 1), ("go", 2, "a"), ("go", 1, "b"), ("of_a", 1), ("of_a", 2)]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("epochs", [1, 3])
def test_an_object_in_two_places_is_one_until_the_row_ends(case, epochs):
    kind, made, place, stored, changed, shown = case
    parts = {"kind": kind, "place": place.format(kind), "stored": stored, "changed": changed, "shown": shown}
    text = MODULE.format(made=made.removeprefix("self.a[k] = x = "), **parts)
    if made.startswith("self.a[k]"):
        text = text.replace(f"        {stored}", f"        self.a[k] = x\n        {stored}", 1)
    with loaded(text) as program:
        assert_equals_plain(simulate(program, ROWS, epochs=epochs, partitions=2))
