"""Values are iterated: once a round, the last value is returned, and nested loops know the rounds around them."""

from __future__ import annotations

import math

from millpond import Map, Partitioned, Program, entry
from millpond.loops import fixpoint, iterate, rounds, when, within
from millpond.testing import assert_equals_plain, simulate


def test_a_step_is_called_once_a_round():
    seen = []

    def step(value):
        seen.append(value)
        return value + 1

    assert iterate(0, step, until=rounds(4)) == 4
    assert seen == [0, 1, 2, 3]


def test_the_value_that_was_tested_is_returned():
    assert iterate(100, lambda x: x // 2, until=fixpoint()) == 0
    assert iterate(1.0, lambda x: x / 2, until=within(0.25)) == 0.25
    assert iterate(1, lambda x: x * 2, until=when(lambda x: x > 100)) == 128


def test_no_round_gives_the_value_back():
    assert iterate("a", lambda x: x + x, until=rounds(0)) == "a"


def test_a_distance_of_ones_own():
    far = within(1, of=lambda before, after: abs(len(after) - len(before)))
    assert iterate("aaaaaaaa", lambda x: x[: len(x) // 2], until=far) == "a"


def test_progress_of_three_nested_loops():
    seen = []

    def inner(value, progress):
        seen.append((progress.round, progress.enclosing))
        return value + 1

    def middle(value, progress):
        return progress.iterate(value, inner, until=rounds(2))

    def outer(value, progress):
        return progress.iterate(value, middle, until=rounds(2))

    assert iterate(0, outer, until=rounds(2)) == 8
    assert seen == [(i, (m, o)) for o in (1, 2) for m in (1, 2) for i in (1, 2)]


def test_newton_agrees_with_the_library():
    for value in (2.0, 3.0, 10.0, 1e6):
        root = iterate(value, lambda x, value=value: (x + value / x) / 2, until=within(1e-12) | rounds(100))
        assert math.isclose(root, math.sqrt(value), rel_tol=1e-12)


def root_of(value: float) -> float:
    return iterate(value, lambda x: (x + value / x) / 2, until=within(1e-9) | rounds(60))


class Roots(Program):
    roots = Partitioned(Map[str, float])

    @entry
    def put(self, key: str, value: float) -> float:
        self.roots[key] = root_of(self.roots.get(key, 0.0) + value)
        return self.roots[key]


def test_methods_iterate():
    rows = [("put", f"k{n % 3}", float(n + 1)) for n in range(12)]
    run = simulate(Roots, rows, epochs=3)
    assert_equals_plain(run)
