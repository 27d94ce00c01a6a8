"""Which variables and state elements may share objects, by assignments alone, whatever their order.

y = self.orders.setdefault(k, Order())  # y and self.orders
for line in y.lines: ...                # and line
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from millpond.compiler.analysis.effects import is_fresh
from millpond.compiler.front.scope import Names, Scope

ElementOf = Callable[[ast.AST], str]
"""The name of the state element that a node stands for; "" if none."""


class MayAlias:
    """Groups of names that were assigned from each other, or from parts of each other."""

    def __init__(self, body: Iterable[ast.stmt], scope: Scope, element_of: ElementOf) -> None:
        self._scope = scope
        self._element_of = element_of
        self._groups: dict[str, set[str]] = {}
        for statement in body:
            for node in ast.walk(statement):
                for target, source in _assigned(node):
                    self._join({*_names(target), *self._sources(target), *self._sources(source)})

    def of(self, node: ast.AST) -> set[str]:
        """All names by which an object that an expression gives, or a part of it, may be found."""
        return {name for source in self._sources(node) for name in self._groups.get(source, {source})}

    def _join(self, names: set[str]) -> None:
        whole = {other for name in names for other in self._groups.get(name, {name})}
        self._groups |= dict.fromkeys(whole, whole)

    def _sources(self, node: ast.AST) -> Iterator[str]:
        """The names whose objects, or parts of them, an expression may give."""
        if element := self._element_of(node):
            yield element
            return
        match node:
            case ast.Name(id=name):
                yield name
            case ast.Compare() | ast.Constant() | ast.JoinedStr() | ast.Lambda():
                return
            case ast.Subscript(value=value):
                yield from self._sources(value)
            case ast.Call(func=callee) if is_fresh(self._scope.resolve(callee)):
                return
            case _:
                for child in ast.iter_child_nodes(node):
                    yield from self._sources(child)


def _names(target: ast.AST) -> frozenset[str]:
    return Names.of(target).binds


def _assigned(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """The targets of a node, each with what it is assigned from."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((target, value) for target in targets)
        case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
            yield target, value
        case ast.AugAssign(target=target, value=value):
            yield target, value
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            yield target, value
        case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
            yield target, value
        case ast.Match(subject=value, cases=cases):
            yield from ((case.pattern, value) for case in cases)
