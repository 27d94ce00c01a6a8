"""Which variables of a method surely hold keys of an element, so that nobody has to look before a row goes there."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from millpond.compiler.analysis.kinds import Kinds, bindings
from millpond.compiler.draft import Method
from millpond.compiler.ir.patterns import Sites
from millpond.compiler.plan.access import comes_as_key
from millpond.program import Element


class SureKeys:
    """Tells it from types, and from where values are taken as they are: what is computed may be out of range."""

    def __init__(self, method: Method, elements: Mapping[str, Element]) -> None:
        self._method = method
        finder = Sites(method, elements)
        sites = {id(site.node): site for part in method.body for site in finder.of(part)}
        self._kinds = Kinds(method, list(method.body), sites, elements)
        self._values: dict[str, list[ast.AST | None]] = {}
        for node in (node for statement in method.body for node in ast.walk(statement)):
            for name, value, _ in bindings(node, method.scope):
                self._values.setdefault(name, []).append(value)

    def is_sure(self, name: str, element: Element) -> bool:
        """Whether a variable holds nothing but keys of an element."""
        if name in self._method.parameters and name not in self._values:
            return comes_as_key(self._method, name, element)
        return self._kinds.of(name) == element.type.key_hint and self._is_taken(name, frozenset())

    def _is_taken(self, name: str, seen: frozenset[str]) -> bool:
        """Whether a variable gets values that were in a row or in state before, nothing that is computed."""
        if name in seen:
            return True
        return all(
            value is not None and self._is_as_it_was(value, seen | {name}) for value in self._values.get(name, ())
        )

    def _is_as_it_was(self, node: ast.AST, seen: frozenset[str]) -> bool:
        match node:
            case ast.Name(id=name):
                return self._is_taken(name, seen)
            case ast.Constant():
                return True
            case ast.Subscript(value=value) | ast.Attribute(value=value) | ast.Starred(value=value):
                return self._is_as_it_was(value, seen)
            case ast.Tuple() | ast.List():
                return all(self._is_as_it_was(part, seen) for part in _parts(node))
            case ast.Call(func=ast.Attribute(value=ast.Name() as owner, attr="pop"), args=[]):
                return self._is_as_it_was(owner, seen)
        return False


def _parts(node: ast.Tuple | ast.List) -> Iterator[ast.AST]:
    yield from node.elts
