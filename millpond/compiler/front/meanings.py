"""What the expressions of a method may be, of all that is outside it: also by another name, or out of a display.

Rather too many: a display counts as what is in it, and a variable as all that it is ever bound to.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator

from millpond.compiler.front.bindings import bindings
from millpond.compiler.front.scope import MISSING, Scope


class Meanings:
    """The objects of the module, the closure and the builtins that the names of a method lead to."""

    def __init__(self, tree: ast.FunctionDef, scope: Scope) -> None:
        self._scope = scope
        self._bound: dict[str, list[ast.AST]] = {}
        for node in (node for statement in tree.body for node in ast.walk(statement)):
            for name, value, _ in bindings(node, scope):
                if value is not None:
                    self._bound.setdefault(name, []).append(value)

    def of(self, node: ast.AST) -> list[object]:
        """The objects that an expression may be or hold."""
        return list(self._of(node, frozenset()))

    def _of(self, node: ast.AST, seen: frozenset[str]) -> Iterator[object]:
        match node:
            case ast.Name(id=name):
                meaning = self._scope.resolve(node)
                if meaning is not MISSING:
                    yield meaning
                elif name not in seen:
                    for value in self._bound.get(name, ()):
                        yield from self._of(value, seen | {name})
            case ast.Attribute(value=owner, attr=name):
                yield from self._members(owner, name, seen)
            case ast.Call(func=callee, args=[owner, ast.Constant(value=str(name)), *_]):
                if self._scope.resolve(callee) is getattr:
                    yield from self._members(owner, name, seen)
            case ast.IfExp(body=body, orelse=orelse):
                yield from self._of(body, seen)
                yield from self._of(orelse, seen)
            case ast.NamedExpr(value=value) | ast.Starred(value=value) | ast.Subscript(value=value):
                yield from self._of(value, seen)
            case ast.BoolOp(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
                for part in parts:
                    yield from self._of(part, seen)

    def _members(self, owner: ast.AST, name: str, seen: frozenset[str]) -> Iterator[object]:
        for meaning in self._of(owner, seen):
            if isinstance(meaning, types.ModuleType | type):
                member = getattr(meaning, name, MISSING)
                if member is not MISSING:
                    yield member
