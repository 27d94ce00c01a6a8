"""Values of state that are only read: an object that could be changed in place, and is not.

A method that reads such a value and replies it, copies it, counts it or looks into it does not change state. Whatever
else is done with it, and whatever can't be followed, counts as a change.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args, get_origin

from millpond.compiler.analysis.kinds import part_of
from millpond.compiler.analysis.mutability import field_of, is_frozen
from millpond.compiler.draft import Method, Site
from millpond.compiler.ir.patterns import FRESH, SHALLOW
from millpond.program import Element

_READING: Final = frozenset(("get", "items", "keys", "values", "index", "count", "copy"))
_WHOLE: Final = frozenset(("__iter__", "items", "values"))


class OnlyRead:
    """Tells for accesses of a method whether their values stay as they are."""

    def __init__(self, method: Method, statements: Sequence[ast.stmt], elements: Mapping[str, Element]) -> None:
        self._method = method
        self._elements = elements
        self._parents: dict[int, ast.AST] = {}
        self._loads: dict[str, list[ast.Name]] = {}
        self._changed: set[str] = set()
        self._inner: set[int] = set()
        for node in (node for statement in statements for node in ast.walk(statement)):
            for child in ast.iter_child_nodes(node):
                self._parents[id(child)] = node
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._loads.setdefault(node.id, []).append(node)
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                self._changed.add(node.target.id)
            if isinstance(node, ast.FunctionDef):
                self._inner |= {id(part) for part in ast.walk(node) if isinstance(part, ast.Return)}

    def holds(self, site: Site) -> bool:
        """Whether the value that an access gives is not changed."""
        hint = self._elements[site.element].type.value_hint
        if site.operations[-1] in _WHOLE:
            # These give all values, one after the other.
            hint = list[hint]  # type: ignore[valid-type]
        return self._stays(site.node, hint, frozenset())

    def _stays(self, node: ast.AST, hint: Any, names: frozenset[str]) -> bool:
        """Whether nothing is done to an object of a type where it stands."""
        if is_frozen(hint):
            return True
        parent = self._parents.get(id(node))
        match parent:
            case ast.Return():
                # A reply that may be an object of state is copied; what a function inside the method returns is not.
                return id(parent) not in self._inner
            case ast.Compare() | ast.FormattedValue() | ast.Expr() | ast.Assert():
                return True
            case ast.UnaryOp(op=ast.Not()) | ast.If() | ast.While():
                return True
            case ast.IfExp(test=test):
                return test is node or self._stays(parent, hint, names)
            case ast.BoolOp():
                return self._stays(parent, hint, names)
            case ast.Assign(targets=[ast.Name(id=name)]):
                return self._is_left(name, hint, names)
            case ast.NamedExpr(target=ast.Name(id=name)):
                return self._is_left(name, hint, names) and self._stays(parent, hint, names)
            case ast.For(iter=walked) | ast.comprehension(iter=walked) if walked is node:
                return _holds_frozen(hint)
            case ast.Starred(ctx=ast.Load()) | ast.BinOp():
                return _holds_frozen(hint)
            case ast.Call(func=callee) if callee is not node:
                return self._given(callee, hint)
            case ast.Subscript(value=value, ctx=ast.Load(), slice=place) if value is node:
                return self._part(parent, place, hint, names)
            case ast.Attribute(value=value, attr=name, ctx=ast.Load()) if value is node:
                return self._looked_into(parent, name, hint, names)
        # The test of a branch that became a jump has no other parent than the jump.
        return type(parent).__name__ == "Branch"

    def _is_left(self, name: str, hint: Any, names: frozenset[str]) -> bool:
        """Whether nothing is done to the object of a variable, wherever it is used."""
        if name in names:
            return True
        if name in self._changed:
            return False
        return all(self._stays(node, hint, names | {name}) for node in self._loads.get(name, ()))

    def _given(self, callee: ast.expr, hint: Any) -> bool:
        meaning = self._method.scope.resolve(callee)
        if any(meaning is known for known in FRESH):
            return True
        return any(meaning is known for known in SHALLOW) and meaning is not next and _holds_frozen(hint)

    def _part(self, node: ast.Subscript, place: ast.expr, hint: Any, names: frozenset[str]) -> bool:
        if isinstance(place, ast.Slice):
            return _holds_frozen(hint)
        inner = get_args(hint)[1] if get_origin(hint) is dict else part_of(hint, "item")
        return self._stays(node, inner, names)

    def _looked_into(self, node: ast.Attribute, name: str, hint: Any, names: frozenset[str]) -> bool:
        parent = self._parents.get(id(node))
        if isinstance(parent, ast.Call) and parent.func is node:
            builtin = get_origin(hint) in (list, dict, set, tuple)
            return builtin and name in _READING and _holds_frozen(hint)
        return self._stays(node, field_of(hint, name), names)


def _holds_frozen(hint: Any) -> bool:
    """Whether all that a container of this type holds can't be changed."""
    parts = get_args(hint)
    return get_origin(hint) in (list, dict, set, tuple) and all(part is Ellipsis or is_frozen(part) for part in parts)
