"""What a method asks of its row: `self.now` and `self.random` become variables that are set when the row begins.

Needs: Method.tree, source and scope, with helpers that touch state written out already.
Leaves: methods that say neither. The time is read once, so that a row has one time, also when it goes on in a later
epoch, and is carried over cuts as a number; random numbers follow from the parameters as they came in.
"""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from millpond.compiler.diagnostics import bar
from millpond.compiler.draft import Draft, Method, Source
from millpond.compiler.front.callees import helper_function, is_static
from millpond.compiler.front.source import parse_function
from millpond.compiler.ir.hoist import FreshNames
from millpond.compiler.obstacles import Bars
from millpond.errors import ProgramError
from millpond.program.semantics.ambient import AMBIENT, may_ask, names_in
from millpond.program.semantics.epoch_time import moment_of, now_us
from millpond.program.semantics.row_random import RowRandom, row_seed

_NOW, _RANDOM = "now", "random"


def set_ambient(draft: Draft) -> Draft:
    """Give every method that asks for the time or for random numbers variables that hold them."""

    def given(method: Method) -> Method:
        _check_helpers(draft.program, method)
        check_reads(method)
        asked = _asked(method.tree, method.self_name)
        return _with_variables(method, asked) if asked else method

    return draft.each(given)


def _asked(tree: ast.AST, self_name: str) -> frozenset[str]:
    return frozenset(node.attr for node in _own(tree, self_name) if node.attr in AMBIENT)


def _own(tree: ast.AST, self_name: str) -> Iterator[ast.Attribute]:
    """All `self.name` in a tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == self_name:
            yield node


def check_reads(method: Method) -> None:
    """Refuse a method that sets what follows from the row."""
    for node in _own(method.tree, method.self_name):
        if node.attr in AMBIENT and not isinstance(node.ctx, ast.Load):
            raise bar(
                Bars.SIGHT,
                "MP175",
                f"self.{node.attr} can't be set",
                method.source,
                node,
                expected=f"self.{node.attr} to be read",
                hint="it follows from the row; in tests of the plain class, `epoch_time(moment)` sets the time",
            )


class _Outside:
    """Gives things of ours names that a method does not use."""

    def __init__(self, method: Method) -> None:
        known = {node.id for node in ast.walk(method.tree) if isinstance(node, ast.Name)} | method.scope.locals
        self.fresh = FreshNames({*known, *method.scope.closure, *method.scope.module})
        self.given: dict[str, Any] = {}

    def call(self, meaning: Callable[..., Any], *arguments: ast.expr) -> ast.Call:
        """The call of a function by a fresh name."""
        name = self.fresh.fresh(meaning.__name__)
        self.given[name] = meaning
        return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _with_variables(method: Method, asked: frozenset[str]) -> Method:
    outside = _Outside(method)
    values: dict[str, ast.expr] = {}
    reads: dict[str, ast.expr] = {}
    # Whatever int() gives is no object that something else could share: so the compiler need not suspect it.
    if _NOW in asked:
        variable = outside.fresh.fresh(_NOW)
        values[variable] = outside.call(int, outside.call(now_us))
        reads[_NOW] = outside.call(moment_of, ast.Name(variable, ast.Load()))
    if _RANDOM in asked:
        variable = outside.fresh.fresh(_RANDOM)
        arguments = [ast.Name(name, ast.Load()) for name in method.parameters]
        seed = outside.call(row_seed, ast.Constant(method.name), *arguments)
        values[variable] = outside.call(RowRandom, outside.call(int, seed))
        reads[_RANDOM] = ast.Name(variable, ast.Load())
    tree = _Reads(method.self_name, reads).visit(method.tree)
    first = _first_statement(tree)
    at = tree.body[first] if first < len(tree.body) else tree
    tree.body[first:first] = [
        _placed(ast.Assign([ast.Name(variable, ast.Store())], value), at) for variable, value in values.items()
    ]
    scope = replace(
        method.scope,
        closure={**method.scope.closure, **outside.given},
        locals=method.scope.locals | frozenset(values),
    )
    return replace(method, tree=tree, scope=scope)


def _first_statement(tree: ast.FunctionDef) -> int:
    return int(ast.get_docstring(tree, clean=False) is not None)


def _placed(node: Any, at: ast.AST) -> Any:
    for part in ast.walk(node):
        if isinstance(part, ast.stmt | ast.expr):
            ast.copy_location(part, at)
    return node


class _Reads(ast.NodeTransformer):
    def __init__(self, self_name: str, reads: dict[str, ast.expr]) -> None:
        self._self = self_name
        self._reads = reads

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == self._self and name in self._reads:
                read: ast.AST = _placed(copy.deepcopy(self._reads[name]), node)
                return read
        return self.generic_visit(node)


_HINT: Final = "read it in the entry point, and pass the value to the helper"


def _check_helpers(program: type, method: Method) -> None:
    """Refuse helpers that are called as they are, and ask for what belongs to a row."""
    waiting = [node.attr for node in _own(method.tree, method.self_name)]
    seen = set(AMBIENT)
    while waiting:
        name = waiting.pop()
        function = None if name in seen else helper_function(program, name)
        seen.add(name)
        if function is not None:
            waiting += names_in(function)
            if may_ask(function) and not is_static(program, name):
                _check_helper(program, name, function)


def _check_helper(program: type, name: str, function: types.FunctionType) -> None:
    source, tree = parse_function(function, f"{program.__name__}.{name}")
    arguments = [*tree.args.posonlyargs, *tree.args.args]
    for node in _own(tree, arguments[0].arg if arguments else ""):
        if node.attr in AMBIENT:
            raise _in_helper(name, source, node)


def _in_helper(name: str, source: Source, node: ast.Attribute) -> ProgramError:
    return bar(
        Bars.SIGHT,
        "MP175",
        f"the helper `{name}` reads self.{node.attr}",
        source,
        node,
        expected="a helper of its arguments and the class's constants",
        hint=_HINT,
    )
