from __future__ import annotations

import ast
import math

import pytest

from millpond.compiler.front.scope import MISSING, Names, Scope


@pytest.mark.parametrize(
    ("text", "reads", "binds", "unbinds"),
    [
        ("a = b", {"b"}, {"a"}, set()),
        ("a += b", {"a", "b"}, {"a"}, set()),
        ("a[b] = c", {"a", "b", "c"}, set(), set()),
        ("del a", {"a"}, set(), {"a"}),
        ("x = [i + a for i in b]", {"a", "b"}, {"x"}, set()),
        ("x = [y := i for i in b]", {"b"}, {"x", "y"}, set()),
        ("f = lambda i: i + a", {"a"}, {"f"}, set()),
        ("def f(i):\n    j = a\n    return i + j", {"a"}, {"f"}, set()),
        ("with a as b: pass", {"a"}, {"b"}, set()),
        ("match a:\n    case [b, *c]: pass\n    case {'k': d, **e}: pass", {"a"}, {"b", "c", "d", "e"}, set()),
        ("try: pass\nexcept E as e: pass", {"E"}, {"e"}, set()),
    ],
)
def test_names_are_told_apart(text, reads, binds, unbinds):
    names = Names.of(*ast.parse(text).body)
    assert (names.reads, names.binds, names.unbinds) == (reads, binds, unbinds)


def test_a_name_is_looked_for_in_the_closure_then_the_module_then_the_builtins():
    len_here = 3

    def function():
        return len_here, math, len

    scope = Scope.of(function, ())
    assert scope.lookup("len_here") == 3
    assert scope.lookup("math") is math
    assert scope.lookup("len") is len
    assert scope.lookup("nothing") is MISSING


def test_a_local_name_hides_a_builtin():
    assert Scope({}, {}, frozenset(("len",))).lookup("len") is MISSING


def test_an_empty_cell_is_missing():
    def function():
        return later

    scope = Scope.of(function, ())
    assert scope.lookup("later") is MISSING
    later = 1
    assert Scope.of(function, ()).lookup("later") == later


def test_modules_are_looked_into_and_instances_are_not():
    scope = Scope({"math": math, "text": "x"}, {}, frozenset())
    assert scope.resolve(ast.parse("math.floor", mode="eval").body) is math.floor
    assert scope.resolve(ast.parse("text.upper", mode="eval").body) is MISSING
