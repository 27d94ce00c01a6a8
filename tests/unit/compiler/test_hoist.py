from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.compiler.ir.hoist import FreshNames, Hoist


def hoisted(text: str, wanted: set[str]) -> str:
    (statement,) = ast.parse(text).body
    targets = {id(node): "value" for node in ast.walk(statement) if ast.unparse(node) in wanted}
    hoist = Hoist(targets, FreshNames(()), lambda node: isinstance(node, ast.Name | ast.Constant), lambda _: False)
    hoist.statement(statement)
    return "\n".join(map(ast.unparse, [*hoist.prelude, statement]))


@pytest.mark.parametrize(
    ("text", "wanted", "result"),
    [
        ("r = f(1) + g(2)", {"g(2)"}, "value__0 = f(1)\nvalue__1 = g(2)\nr = value__0 + value__1"),
        ("r = g(2) + f(1)", {"g(2)"}, "value__0 = g(2)\nr = value__0 + f(1)"),
        ("r = {f(1): g(2)}", {"g(2)"}, "value__0 = f(1)\nvalue__1 = g(2)\nr = {value__0: value__1}"),
        ("r = a[f(1)](g(2))", {"g(2)"}, "value__0 = a[f(1)]\nvalue__1 = g(2)\nr = value__0(value__1)"),
        ("r[f(1)] = g(2)", {"g(2)"}, "value__0 = g(2)\nr[f(1)] = value__0"),
        ("r[f(1)] = g(2)", {"f(1)"}, "value__0 = g(2)\nvalue__1 = f(1)\nr[value__1] = value__0"),
        ("r = f(1) if g(2) else 3", {"g(2)"}, "value__0 = g(2)\nr = f(1) if value__0 else 3"),
        ("r = f'{f(1)}{g(2)}'", {"g(2)"}, "value__0 = f'{f(1)}'\nvalue__1 = g(2)\nr = f'{value__0}{value__1}'"),
        ("r = f'{a!r:>9}{g(2)}'", {"g(2)"}, "value__0 = f'{a!r:>9}'\nvalue__1 = g(2)\nr = f'{value__0}{value__1}'"),
        ("r = f'{a:{g(2)}}'", {"g(2)"}, "value__0 = g(2)\nr = f'{a:{value__0}}'"),
        ("r = [*a, g(2)]", {"g(2)"}, "value__0 = [*a]\nvalue__1 = g(2)\nr = [*value__0, value__1]"),
        ("r = {**a, 1: g(2)}", {"g(2)"}, "value__0 = {**a}\nvalue__1 = g(2)\nr = {**value__0, 1: value__1}"),
        ("r = f(**a, k=g(2))", {"g(2)"}, "value__0 = {**a}\nvalue__1 = g(2)\nr = f(**value__0, k=value__1)"),
        ("r = f(*a, k=g(2))", {"g(2)"}, "value__0 = g(2)\nr = f(*a, k=value__0)"),
        ("r = f(1, *a, k=g(2))", {"g(2)"}, "value__0 = [*a]\nvalue__1 = g(2)\nr = f(1, *value__0, k=value__1)"),
        (
            "r = [a, (a := 3), g(2)]",
            {"g(2)"},
            "value__0 = a\nvalue__1 = (a := 3)\nvalue__2 = g(2)\nr = [value__0, value__1, value__2]",
        ),
        ("r = [x for x in g(2)]", {"g(2)"}, "value__0 = g(2)\nr = [x for x in value__0]"),
        ("r = f(*a(), k=g(2))", {"g(2)"}, "value__0 = a()\nvalue__1 = g(2)\nr = f(*value__0, k=value__1)"),
    ],
)
def test_what_comes_before_goes_along(text, wanted, result):
    assert hoisted(text, wanted) == result


def test_a_fresh_name_is_not_in_use():
    names = FreshNames(("key__0", "key__2"))
    assert [names.fresh("key"), names.fresh("key")] == ["key__1", "key__3"]


LEAVES = st.integers(0, 9).map(lambda number: f"say({number})")
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} + {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"[{pair[0]}, {pair[1]}][0]"),
        st.tuples(inner, inner).map(lambda pair: f"max({pair[0]}, {pair[1]})"),
        st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} if {parts[1]} else {parts[2]})"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} and {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"{{{pair[0]}: {pair[1]}}}.popitem()[1]"),
    ),
    max_leaves=8,
)


@given(text=EXPRESSIONS, chosen=st.sets(st.integers(0, 9), min_size=1))
def test_hoisting_keeps_the_order_of_evaluation(text, chosen):
    def run(code: str) -> tuple[list[int], int]:
        said: list[int] = []

        def say(number: int) -> int:
            said.append(number)
            return number % 3

        scope = {"say": say}
        exec(code, scope)
        return said, scope["r"]

    def certain(node: ast.AST) -> set[str]:
        """Only what is always evaluated can be hoisted."""
        match node:
            case ast.IfExp(test=test):
                return certain(test)
            case ast.BoolOp(values=[first, *_]):
                return certain(first)
            case ast.Call(func=ast.Name(id="say")):
                return {ast.unparse(node)}
        return {found for child in ast.iter_child_nodes(node) for found in certain(child)}

    code = f"r = {text}"
    wanted = certain(ast.parse(code)) & {f"say({number})" for number in chosen}
    assert run(hoisted(code, wanted)) == run(code)
