"""Entry points that do nothing but add their row to windows: a runtime may add many rows at once.

Needs: Method.body, Method.pieces.
Leaves: CompiledTask.adds.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, get_args, get_origin

from millpond.compiler.compiled import Added, Adds
from millpond.compiler.draft import Method
from millpond.graph.model import Dispatch
from millpond.program import Element
from millpond.windowing.element import WindowsType


def only_adds(method: Method, elements: Mapping[str, Element]) -> Adds | None:
    """What a method adds to windows, if that is all it does: `self.handler.add(key, ...)` of parameters, no reply."""
    pieces = method.pieces
    if len(pieces) != 1 or pieces[0].dispatch is not Dispatch.BY_KEY or method.point.replies or method.aborts:
        return None
    match method.body:
        case (ast.Expr(ast.Call() as call),):
            named: dict[str, ast.expr] = {}
        case (ast.Assign([ast.Name(name)], ast.Tuple() as pair), ast.Expr(ast.Call() as call)):
            named = {name: pair}
        case _:
            return None
    handler = _handler(call, method, elements)
    if handler is None or not call.args or pieces[0].key != _key(call.args[0], named, method):
        return None
    values = _values(call, method)
    return None if values is None else Adds(handler, values)


def _handler(call: ast.Call, method: Method, elements: Mapping[str, Element]) -> str | None:
    match call.func:
        case ast.Attribute(ast.Attribute(ast.Name(owner), handler), "add") if owner == method.self_name:
            return handler if isinstance(elements[handler].type, WindowsType) else None
    return None


def _key(node: ast.expr, named: Mapping[str, ast.expr], method: Method) -> str | None:
    """The parameters that are the key; None for others, and for floats, of which unlike ones are equal."""
    if isinstance(node, ast.Name):
        node = named.get(node.id, node)
    hints = dict(method.point.parameters)
    names = [_parameter(part, method) for part in (node.elts if isinstance(node, ast.Tuple) else [node])]
    known = [name for name in names if name is not None and not _has_float(hints[name])]
    return ",".join(known) if len(known) == len(names) else None


def _values(call: ast.Call, method: Method) -> tuple[Added, ...] | None:
    """The values by their columns: one without a name, some by names, or the parts of a tuple."""
    if call.args[1:]:
        value = _parameter(call.args[1], method)
        return (Added(None, value),) if len(call.args) == 2 and not call.keywords and value is not None else None
    if [word.arg for word in call.keywords] == [None]:
        return _zipped(call.keywords[0].value, method)
    pairs = [(word.arg, _parameter(word.value, method)) for word in call.keywords]
    found = tuple(Added(column, value) for column, value in pairs if column is not None and value is not None)
    return found if len(found) == len(pairs) else None


def _zipped(node: ast.expr, method: Method) -> tuple[Added, ...] | None:
    """The parts of a tuple that is given names: `dict(zip(names, parameter, strict=False))`."""
    match node:
        case ast.Call(made, [ast.Call(paired, [ast.Name() as names, ast.Name(row)], words)], []):
            pass
        case _:
            return None
    loose = all(
        word.arg == "strict" and isinstance(word.value, ast.Constant) and not word.value.value for word in words
    )
    builtin = method.scope.resolve(made) is dict and method.scope.resolve(paired) is zip
    columns: Any = method.scope.resolve(names)
    hint = dict(method.point.parameters).get(row)
    parts = get_args(hint) if get_origin(hint) is tuple and Ellipsis not in get_args(hint) else ()
    if not (loose and builtin and parts) or type(columns) is not tuple:
        return None
    if len(set(columns)) < len(columns) or not all(isinstance(column, str) for column in columns):
        return None
    return tuple(Added(column, row, part) for part, column in zip(range(len(parts)), columns, strict=False))


def _parameter(node: ast.expr, method: Method) -> str | None:
    return node.id if isinstance(node, ast.Name) and node.id in method.parameters else None


def _has_float(hint: Any) -> bool:
    return hint is float or any(map(_has_float, get_args(hint)))
