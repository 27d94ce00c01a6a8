"""The types of expressions, for passes that work on statements which are not lowered yet, or are not the body's."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from millpond.compiler.analysis.mutability import is_frozen
from millpond.compiler.analysis.types import Types, joined, walked_freely
from millpond.compiler.draft import Method
from millpond.compiler.ir.lower import lower, lower_expression
from millpond.program import Element


class Hints:
    """The types of the variables and expressions of some statements, as far as they are told."""

    def __init__(self, method: Method, statements: Sequence[ast.stmt], elements: Mapping[str, Element]) -> None:
        self._method = method
        self._elements = elements
        self._flat = lower(method, statements, elements)
        self._types = Types(self._flat, method, elements)
        self._named: dict[str, list[str]] = {}
        for variable in (*method.parameters, *self._flat.definitions):
            # Parameters of inner functions are asked for where they stand.
            made = (self._flat.instrs[number].node for number in self._flat.definitions.get(variable, ()))
            if not any(isinstance(node, ast.arg) for node in made):
                self._named.setdefault(variable.partition("%")[0], []).append(variable)

    def of(self, name: str) -> Any:
        """The type of a variable, also of one that inner scopes have by that name; Any if it is not told."""
        return joined([self._types.of(variable) for variable in self._named.get(name, (name,))])

    def hint(self, node: ast.expr) -> Any:
        """The type of an expression, Any if it is not told."""
        if self._flat.knows(node):
            return self._types.of(self._flat.of(node))
        if isinstance(node, ast.Name) and node.id in self._named:
            return self.of(node.id)
        return self._types.result_of(lower_expression(self._method, node, self._elements))

    def is_sure(self, node: ast.expr) -> bool:
        """Whether the type of an expression is more than said."""
        variables = self._named.get(node.id, []) if isinstance(node, ast.Name) else []
        if self._flat.knows(node):
            variables = [self._flat.of(node)]
        return (bool(variables) and all(map(self._types.is_sure, variables))) or isinstance(node, ast.Constant)

    def is_plain(self, name: str) -> bool:
        """Whether a variable holds nothing but values that can't be changed."""
        return is_frozen(self.of(name))

    def is_walked_freely(self, node: ast.expr) -> bool:
        """Whether a value can be walked through any number of times: no iterator, no object of unknown type."""
        return walked_freely(self.hint(node))

    def is_finite(self, node: ast.expr) -> bool:
        """Whether walking through a value comes to an end."""
        match node:
            case ast.Call(func=callee, args=[_, *_] as args):
                meaning = self._method.scope.resolve(callee)
                if any(meaning is one for one in (enumerate, reversed, map, filter)):
                    return self.is_finite(args[meaning in (map, filter)])
                if meaning is zip:
                    return any(map(self.is_finite, args))
        return self.is_walked_freely(node)
