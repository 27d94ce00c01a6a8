"""Functions of a class are what Python makes of them: decorated ones, their defaults, caches."""

from __future__ import annotations

import sys
import threading

import pytest

from millpond import Program
from millpond.compiler.compile import compile_program
from millpond.engine.sequential import Sequential
from millpond.errors import ProgramError, StateError
from millpond.testing import assert_equals_plain, simulate
from tests.golden.programs import load, program_in

MODULE = """
import functools
import io
import math
import threading
from typing import Any

from millpond import Map, Partitioned, Program, entry


def doubled(function):
    @functools.wraps(function)
    def double(*given):
        return function(*given) * 2

    return double


def replaced(function):
    def other(self, k: str) -> int:
        return 7

    return other


@doubled
def two(n):
    return n


def plain(self, n):
    return n + 1


class Mixin:
    def _mixed(self, n, xs=[]):
        xs.append(n)
        return len(xs)


class P(Mixin, Program):
    a = Partitioned(Map[str, int])

    def _base(self, n):
        return n

"""
ENTRY = """
    @entry
    def go(self, k: str) -> int:
        self.a[k] = self.a.get(k, 0) + self._h(1)
        return self.a[k]
"""
REFUSED = {
    "by a name of its own": ("    _h = doubled(_base)", "MP118", "def _base"),
    "a function of the module": ("    _h = staticmethod(two)", "MP118", "@doubled"),
    "below staticmethod": ("    @staticmethod\n    @doubled\n    def _h(n):\n        return n", "MP118", "@doubled"),
    "a cache": ("    @functools.lru_cache\n    def _h(self, n):\n        return n", "MP115", "self._h"),
    "a partialmethod": ("    _h = functools.partialmethod(_base, 1)", "MP115", "self._h"),
    "a singledispatchmethod": (
        "    @functools.singledispatchmethod\n    def _h(self, n):\n        return n",
        "MP115",
        "self._h",
    ),
}
FINE = {
    "a function of the module": "    _h = plain",
    "a builtin": "    _h = abs",
    "a static partial": "    _h = staticmethod(functools.partial(max, 5))",
    "the default of a static method": "    @staticmethod\n    def _h(n, xs=[]):\n        xs.append(n)\n"
    "        return len(xs)",
    "the default of a class method": "    @classmethod\n    def _h(cls, n, xs=[]):\n        xs.append(n)\n"
    "        return len(xs)",
    "the default of a mixin": "    def _h(self, n):\n        return self._mixed(n) + self._mixed(n)",
    "a default in a default": "    @staticmethod\n    def _h(n, xs={'a': [1]}):\n        xs['a'].append(n)\n"
    "        return len(xs['a'])",
    "a set as a default": "    def _h(self, n, known=frozenset((8, 0, 16))):\n        return n in known",
    "a module as a default": "    def _h(self, n, m=math):\n        return m.floor(n)",
    "a type of nothing": "    def _h(self, n):\n        none: tuple[()] = ()\n        return n + len(none)",
}


def _program(member: str, folder) -> type[Program]:
    return program_in(load(MODULE + member + "\n" + ENTRY, folder))


@pytest.mark.parametrize(("member", "code", "line"), REFUSED.values(), ids=REFUSED)
def test_a_helper_that_is_another_function_than_its_source_says_is_refused(member, code, line, tmp_path):
    with pytest.raises(ProgramError) as caught:
        compile_program(_program(member, tmp_path))
    assert caught.value.code == code, caught.value
    assert line in caught.value.places[0].text


@pytest.mark.parametrize("decorator", ["@doubled\n    @entry", "@entry\n    @doubled", "@entry\n    @replaced"])
def test_an_entry_point_that_a_decorator_replaced_is_refused_with_its_line(decorator, tmp_path):
    entry = ENTRY.replace("self._h(1)", "1").replace("@entry", decorator)
    with pytest.raises(ProgramError) as caught:
        compile_program(program_in(load(MODULE + entry, tmp_path)))
    assert caught.value.code == "MP118"
    assert "def " in caught.value.places[0].text
    assert "0x" not in str(caught.value)


@pytest.mark.parametrize("member", FINE.values(), ids=FINE)
def test_functions_of_a_class_do_what_they_do_in_plain_python(member, tmp_path):
    rows = [("go", "k"), ("go", "k"), ("go", "j")]
    program = _program(member, tmp_path)
    plain = program()
    expected = [plain.go(k) for _, k in rows]
    assert expected[1] == 2 * expected[0] == 2 * expected[2]
    for epochs in (1, 3):
        run = simulate(program, rows, epochs=epochs, partitions=2)
        assert run.replies == expected
        assert_equals_plain(run)


@pytest.mark.parametrize(
    "default", [sys, sys.stderr, threading.Lock(), (n for n in ())], ids=lambda one: str(type(one))
)
def test_a_default_that_can_not_be_copied_stays_what_it_is(default):
    class Helped(Program):
        def _h(self, one: object = default) -> object:
            return one

    assert Helped()._h() is default


def test_a_reply_that_can_not_be_copied_has_a_code(tmp_path):
    module = MODULE + "\n    @entry\n    def go(self, k: str) -> Any:\n        return threading.Lock()\n"
    with pytest.raises(StateError) as caught:
        program_in(load(module, tmp_path))().go("k")
    assert caught.value.code == "MP209"
    assert "lock" in str(caught.value)


BAG = """
from millpond import Map, Partitioned, Program, entry


class Bag:
    def __init__(self, inside):
        self.inside = inside


class P(Program):
    b = Partitioned(Map[str, list[int]])

    @entry
    def go(self, k: str, s: set[int], more: list[set[int]]) -> list[int]:
        self.b[k] = [x for x in Bag(s).inside] + [x for x in Bag(more[0]).inside]
        return self.b[k]
"""


def test_sets_of_arguments_are_walked_in_plain_python_as_they_are_everywhere(tmp_path):
    program = program_in(load(BAG, tmp_path))
    run = Sequential(compile_program(program))
    for given in ({16, 0, 8}, {8, 0}, {0, 8}, {64, 8, 32, 0}):
        assert program().go("k", given, [given]) == run.call("go", "k", given, [given]) == sorted(given) * 2
