"""The function that finds the keys of a gathered method's rows, as code."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, Final

from millpond.compiler.back.rewrite import Loose, Renames, Rewrite
from millpond.compiler.compiled import Unbound, bound
from millpond.compiler.draft import Method
from millpond.compiler.front.inlining.bound import loosely_bound
from millpond.compiler.plan.key_slice.key_sets import slice_of
from millpond.compiler.survey import Leave, limited, perhaps, survey, ticking
from millpond.program import Element

ROWS: Final = "_rows"


def key_tree(method: Method, elements: Mapping[str, Element]) -> tuple[ast.FunctionDef, dict[str, Any], dict[str, str]]:
    """A function as a tree, what its names mean, and the names of what it takes of the class."""
    sliced = slice_of(method, elements)
    code = sliced.run()
    fresh = sliced.names.fresh
    made = {"UNBOUND": fresh("UNBOUND"), "bound": fresh("bound")}
    loose = loosely_bound(method.body, method.scope.locals, {method.self_name, *method.parameters})
    own = dict.fromkeys(
        node.attr
        for line in code
        for node in ast.walk(line)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == method.self_name
    )
    renames = {name: fresh(name) for name in own}
    rewrite = Rewrite(Renames(method.self_name, renames), method.scope)
    code = _changed(_changed(code, Loose(loose, made).visit), rewrite.visit)
    unset = sorted((loose | sliced.saved) - set(method.parameters))
    start = [ast.Assign([ast.Name(name, ast.Store())], ast.Name(made["UNBOUND"], ast.Load())) for name in unset]
    row, run, out = fresh("row"), fresh("survey"), fresh("out")
    columns = list(method.parameters) or [ROWS]
    values: list[ast.expr] = [ast.Name(column, ast.Load()) for column in columns]
    arguments = [ast.Name(out, ast.Load()), ast.Constant(method.name), ast.Name(row, ast.Load())]
    call = ast.Expr(ast.Call(ast.Name(run, ast.Load()), [*arguments, ast.Tuple(values, ast.Load())], []))
    inner = define(row, [sliced.tools.note, *columns], [*start, *code])
    tools = sliced.tools
    given = {
        run: survey,
        tools.perhaps: perhaps,
        tools.leave: Leave,
        tools.anything: (Exception, Leave),
        tools.limited: limited,
        tools.ticking: ticking,
        made["UNBOUND"]: Unbound.UNBOUND,
        made["bound"]: bound,
    }
    return define(f"{method.name}_keys", [out, *columns], [inner, call]), given, renames


def _changed(code: list[ast.stmt], change: Callable[[ast.AST], Any]) -> list[ast.stmt]:
    changed = [change(line) for line in code]
    return [part for line in changed for part in (line if isinstance(line, list) else [line])]


def define(name: str, parameters: list[str], body: list[ast.stmt]) -> ast.FunctionDef:
    """A function definition."""
    arguments = ast.arguments([], [ast.arg(parameter) for parameter in parameters], None, [], [], None, [])
    tree = ast.FunctionDef(name, arguments, body, [])
    if "type_params" in tree._fields:
        tree.type_params = []  # type: ignore[attr-defined, unused-ignore]
    return tree
